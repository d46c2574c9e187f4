"""The numbers of a producer: what is next, what is repeated, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import InvalidClientState, InvalidRequest, LinkRefused, ProducerDisconnected
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.producers.parcel_digest import Digests
from restante.model.producers.producer import (
    ProducerNumbers,
    ProducerRow,
    Standing,
    check_numbers,
    following,
    follows,
    next_number,
    repeated,
    row_after,
    row_linked,
    standing,
)

NOW = 1_790_000_000_000_000
DIGESTS = Digests(b"c" * 16, b"w" * 16)


def numbers(first: int, level: int = 0, group: int = 7) -> ProducerNumbers:
    return ProducerNumbers(group=group, owner_level=level, published_sequence=first)


def receipt(count: int, first: int = 1) -> Receipt:
    own = PartitionReceipt(partition=3, first_sequence_number=first, last_sequence_number=first + count - 1)
    return Receipt(accepted=count, duplicates=0, partitions=(own,))


def published(first: int, count: int, level: int = 0) -> ProducerRow:
    return row_after(None, numbers(first, level), receipt(count), DIGESTS, NOW)


@given(st.integers(0, PUBLISHED_SEQUENCE_MAX), st.integers(1, 1_000_000))
def test_after_a_parcel_the_next_number_follows_its_last_one_round_and_round(first: int, count: int) -> None:
    row = published(first, count)
    expected = (first + count) % 2**31
    assert next_number(row.last) == expected
    assert standing(row, numbers(expected), 5) is Standing.NEXT
    assert standing(row, numbers(first), count) is (Standing.SAME_NUMBERS if expected != first else Standing.NEXT)


@given(st.integers(0, PUBLISHED_SEQUENCE_MAX), st.integers(0, PUBLISHED_SEQUENCE_MAX), st.integers(1, 100))
def test_any_other_number_is_refused_with_the_expected_one(first: int, other: int, count: int) -> None:
    row = published(first, 10)
    if other == following(first, 10) or (other, count) == (first, 10):
        return
    with pytest.raises(InvalidClientState) as refused:
        standing(row, numbers(other), count)
    assert refused.value.details == {"expected": (first + 10) % 2**31}


def test_a_parcel_follows_another_at_its_level_alone_and_round_the_end() -> None:
    before = numbers(PUBLISHED_SEQUENCE_MAX, level=2)
    assert follows(numbers(2, level=2), before, 3)
    for other in (numbers(1, level=2), numbers(3, level=2), numbers(2, level=1), numbers(2, level=3)):
        assert not follows(other, before, 3)


def test_an_unknown_group_begins_at_zero_whatever_its_level() -> None:
    assert standing(None, numbers(0, level=9), 1) is Standing.NEXT
    with pytest.raises(InvalidClientState):
        standing(None, numbers(1), 1)


def test_a_raised_level_begins_at_zero_and_knows_nothing_of_the_last_range() -> None:
    row = published(4, 2)
    assert standing(row, numbers(0, level=1), 1) is Standing.NEXT
    for first in (4, 6):
        with pytest.raises(InvalidClientState) as refused:
            standing(row, numbers(first, level=1), 2)
        assert refused.value.details == {"expected": 0}


def test_a_lower_level_is_fenced_off_whatever_its_numbers() -> None:
    row = published(0, 2, level=3)
    for first in (0, 2, 9):
        with pytest.raises(ProducerDisconnected) as fenced:
            standing(row, numbers(first, level=2), 2)
        assert fenced.value.details == {"received": 2, "current": 3}


def test_the_last_range_is_answered_as_it_was_answered_then() -> None:
    sent = numbers(5)
    own = PartitionReceipt(partition=3, first_sequence_number=40, last_sequence_number=41)
    first = Receipt(accepted=2, duplicates=1, partitions=(own,))
    row = row_after(None, sent, first, DIGESTS, NOW)
    again = repeated(row, sent, DIGESTS, 3)
    assert (again.accepted, again.duplicates, again.partitions, again.replayed) == (2, 1, (own,), True)
    for others in (Digests(b"c" * 16, b"x" * 16), Digests(b"x" * 16, b"x" * 16)):
        with pytest.raises(InvalidClientState) as other:
            repeated(row, sent, others, 3)
        assert other.value.details == {"expected": 8}


def test_messages_made_anew_are_known_by_what_they_say() -> None:
    row = published(5, 3)
    anew = ProducerNumbers(group=7, owner_level=0, published_sequence=5, made_anew=True)
    assert repeated(row, anew, Digests(b"c" * 16, b"x" * 16), 3).replayed
    with pytest.raises(InvalidClientState):
        repeated(row, anew, Digests(b"x" * 16, b"y" * 16), 3)


def test_a_repetition_changes_nothing_but_when_and_how_often() -> None:
    row = published(0, 2)
    again = row_after(row, numbers(0), repeated(row, numbers(0), DIGESTS, 3), DIGESTS, NOW + 5)
    assert (again.replays, again.active_at) == (1, NOW + 5)
    assert (again.last, again.range, again.owner_level) == (row.last, row.range, row.owner_level)


def test_a_link_to_a_known_group_goes_on_where_it_is() -> None:
    row = published(0, 5, level=2)
    for level in (None, 2):
        for last in (None, 4):
            linked = row_linked(row, 7, level, last, NOW + 1)
            assert (linked.owner_level, linked.last, linked.range, linked.active_at) == (2, 4, row.range, NOW + 1)


def test_a_link_with_a_wrong_number_is_refused_with_the_right_one() -> None:
    with pytest.raises(LinkRefused) as refused:
        row_linked(published(0, 5), 7, 0, 3, NOW)
    assert refused.value.details == {"expected": 4}
    for level in (None, 3):
        with pytest.raises(LinkRefused) as unknown:
            row_linked(None, 7, level, 0, NOW)
        assert unknown.value.details == {"expected": None}


def test_a_link_of_a_raised_level_begins_where_it_says_or_at_zero() -> None:
    row = published(0, 5)
    assert row_linked(row, 7, 1, 99, NOW).last == 99
    fresh = row_linked(row, 7, 1, None, NOW)
    assert (fresh.owner_level, fresh.last, fresh.range) == (1, None, None)


def test_a_link_of_a_lower_level_is_fenced_off() -> None:
    with pytest.raises(ProducerDisconnected):
        row_linked(published(0, 5, level=2), 7, 1, None, NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        ProducerNumbers(group=-1, owner_level=0, published_sequence=0),
        ProducerNumbers(group=PRODUCER_GROUP_MAX + 1, owner_level=0, published_sequence=0),
        ProducerNumbers(group=0, owner_level=OWNER_LEVEL_MAX + 1, published_sequence=0),
        ProducerNumbers(group=0, owner_level=-1, published_sequence=0),
        ProducerNumbers(group=0, owner_level=0, published_sequence=PUBLISHED_SEQUENCE_MAX + 1),
        ProducerNumbers(group=0, owner_level=0, published_sequence=-1),
        ProducerNumbers(group=True, owner_level=0, published_sequence=0),
    ],
)
def test_numbers_outside_their_ranges_are_refused(wrong: ProducerNumbers) -> None:
    with pytest.raises(InvalidRequest):
        check_numbers(wrong)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    for group, level, sequence in ((0, 0, 0), (PRODUCER_GROUP_MAX, OWNER_LEVEL_MAX, PUBLISHED_SEQUENCE_MAX)):
        check_numbers(ProducerNumbers(group=group, owner_level=level, published_sequence=sequence))
