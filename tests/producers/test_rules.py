"""Numbered publishing, rule by rule: which numbers are accepted, who is fenced off, what is refused and forgotten.

The rules of repetition and of links have modules of their own. Every test runs in process on both engines, and over
the network.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.errors import (
    InvalidMessage,
    InvalidRequest,
    InvalidSettings,
    MessageConflict,
    MessageErased,
    PartitionMismatch,
    PartitionUnknown,
    ProducerDisconnected,
    ProducerUnknown,
)
from restante.model.mailboxes.answers import ProducerState
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.settings import Settings
from tests.hub.letters import at, letter, letters
from tests.producers.desk import GROUP, LAST, SETTINGS, Desk, replays

DAY = 86_400
GROUP_MAX = 2**63 - 1
LEVEL_MAX = 32_767


# The next number.


def test_the_first_number_is_0(desk: Desk) -> None:
    desk.refuses_number(1, letters(range(3)), expected=0)
    assert desk.publish(0, letters(range(3))).accepted == 3
    assert desk.level_and_last() == (0, 2)
    assert desk.stored() == [0, 1, 2]


def test_the_last_number_of_a_parcel_is_its_first_and_its_count_less_one(desk: Desk) -> None:
    desk.publish(0, letter(0))
    assert desk.level_and_last() == (0, 0)
    desk.publish(1, letters(range(1, 301)))
    assert desk.level_and_last() == (0, 300)


def test_exactly_the_next_number_is_accepted(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    receipt = desk.publish(3, letters(range(3, 7)))
    assert (receipt.accepted, receipt.duplicates, receipt.replayed) == (4, 0, False)
    assert desk.publish(7, letters([7])).accepted == 1
    assert desk.stored() == list(range(8))


@pytest.mark.parametrize("count", [1, 200], ids=["few", "many"])
def test_a_gap_is_refused_with_the_number_expected(desk: Desk, count: int) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(3, letters(range(3, 7)))
    for first in (8, 9, 1_000, LAST):
        desk.refuses_number(first, letters(range(50, 50 + count)), expected=7)
    assert desk.publish(7, letters(range(50, 50 + count))).accepted == count


def test_an_older_number_is_refused_with_the_number_expected(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(3, letters(range(3, 7)))
    for numbers in (range(3), range(1), range(1, 3), range(2, 3), range(7), range(2, 7)):
        desk.refuses_number(numbers.start, letters(numbers), expected=7)


def test_a_part_of_the_last_range_is_refused(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(3, letters(range(3, 7)))
    for numbers in (range(3, 4), range(3, 6), range(4, 6), range(4, 7), range(6, 7)):
        desk.refuses_number(numbers.start, letters(numbers), expected=7)


def test_a_range_that_goes_beyond_the_last_one_is_refused(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(3, letters(range(3, 7)))
    for numbers in (range(3, 8), range(3, 107), range(2, 8), range(6, 9)):
        desk.refuses_number(numbers.start, letters(numbers), expected=7)


def test_a_refused_number_makes_no_group_known(desk: Desk) -> None:
    desk.refuses_number(5, letter(0), expected=0)
    with pytest.raises(ProducerUnknown):
        desk.state()


def test_an_empty_parcel_changes_nothing(desk: Desk) -> None:
    assert desk.publish(0, []).accepted == 0
    with pytest.raises(ProducerUnknown):
        desk.state()
    desk.publish(0, letters(range(3)))
    before = desk.state()
    assert desk.publish(3, []).accepted == 0
    assert desk.state() == before


# After the last number comes 0.


def test_0_follows_the_largest_number(desk: Desk) -> None:
    desk.start_after(LAST - 1)
    desk.publish(LAST, letter(0), level=1)
    desk.refuses_number(1, letter(1), level=1, expected=0)
    desk.publish(0, letter(1), level=1)
    assert desk.level_and_last() == (1, 0)
    assert desk.stored() == [0, 1]


@pytest.mark.parametrize("count", [4, 200], ids=["few", "many"])
def test_numbers_go_on_at_0_inside_a_parcel(desk: Desk, count: int) -> None:
    desk.start_after(LAST - 2)
    receipt = desk.publish(LAST - 1, letters(range(count)), level=1)
    assert desk.level_and_last() == (1, count - 3)
    assert desk.publish(LAST - 1, letters(range(count)), level=1) == replays(receipt)
    desk.refuses_number(0, letters(range(count)), level=1, expected=count - 2)
    assert desk.publish(count - 2, letter(500), level=1).accepted == 1
    assert desk.stored() == [*range(count), 500]


def test_a_link_after_the_largest_number_goes_on_at_0(desk: Desk) -> None:
    desk.start_after(LAST)
    assert desk.level_and_last() == (1, LAST)
    desk.publish(0, letter(0), level=1)
    assert desk.level_and_last() == (1, 0)


def test_the_largest_number_is_no_repetition_after_going_on_at_0(desk: Desk) -> None:
    desk.start_after(LAST - 1)
    desk.publish(LAST, letter(0), level=1)
    desk.publish(0, letter(1), level=1)
    desk.refuses_number(LAST, letter(0), level=1, expected=1)


# Owner levels.


def test_a_higher_level_takes_over_and_fences_the_lower(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=4)
    desk.publish(0, letters(range(10, 12)), level=9)
    assert desk.level_and_last() == (9, 1)
    for first in (0, 2, 3):
        details = desk.refuses(ProducerDisconnected, first, letter(50), level=4)
        assert (details["received"], details["current"]) == (4, 9)
    assert desk.publish(2, letter(12), level=9).accepted == 1
    assert desk.stored() == [0, 1, 2, 10, 11, 12]


def test_a_fenced_producer_cannot_repeat_its_last_range(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(0, letters(range(3)), level=1)
    desk.refuses(ProducerDisconnected, 0, letters(range(3)), level=0)


def test_fencing_outlives_the_hub(desk: Desk) -> None:
    desk.publish(0, letter(0))
    desk.publish(0, letter(1), level=1)
    desk.reopen()
    assert desk.refuses(ProducerDisconnected, 1, letter(2))["current"] == 1


def test_a_raised_level_without_a_link_starts_at_0(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.refuses_number(3, letters([3]), level=1, expected=0)
    assert desk.level_and_last() == (0, 2), "a refused parcel does not take over"
    assert desk.publish(3, letter(3)).accepted == 1
    assert desk.publish(0, letter(4), level=1).accepted == 1
    assert desk.level_and_last() == (1, 0)


def test_the_last_range_of_a_lower_level_is_no_repetition_at_a_higher_one(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    receipt = desk.publish(0, letters(range(3)), level=1)
    assert (receipt.accepted, receipt.duplicates, receipt.replayed) == (0, 3, False)
    desk.publish(3, letter(3), level=1)
    desk.open_link(producer_group=GROUP, owner_level=2, last_published_sequence_number=3)
    desk.refuses_number(3, letter(3), level=2, expected=4)


def test_equal_levels_coexist(desk: Desk) -> None:
    with desk.another_link() as other:
        for number in range(0, 6, 2):
            desk.publish(number, letter(number), level=3)
            numbers = ProducerNumbers(group=GROUP, owner_level=3, published_sequence=number + 1)
            other.call(Publish.of([letter(number + 1)], partition=desk.partition, producer=numbers))
    desk.refuses_number(4, letter(50), level=3, expected=6)
    assert desk.stored() == list(range(6))


def test_other_groups_are_never_affected(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), group=1)
    desk.publish(0, letters(range(3, 5)), group=2, level=5)
    desk.publish(0, letters(range(5, 9)), group=GROUP_MAX)
    desk.publish(3, letter(9), group=1)
    desk.publish(2, letter(10), group=2, level=5)
    desk.publish(4, letter(11), group=GROUP_MAX)
    assert [desk.level_and_last(group) for group in (1, 2, GROUP_MAX)] == [(0, 3), (5, 2), (0, 4)]
    assert desk.stored() == list(range(12))


def test_other_partitions_are_never_affected(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.open_link(producer_group=GROUP, owner_level=8)
    there = {"partition": desk.elsewhere}
    desk.publish(0, [letter(0, desk.stranger)], **there)
    desk.publish(1, [letter(1, desk.stranger)], **there)
    state = desk.state(partition=desk.elsewhere)
    assert (state.partition, state.owner_level, state.last_published_sequence_number) == (desk.elsewhere, 0, 1)
    assert desk.level_and_last() == (8, None)


def test_plain_publishers_neither_affect_nor_are_affected(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=5)
    before = desk.state()
    assert desk.link.call(Publish.of(letters(range(3, 6)), partition=desk.partition)).accepted == 3
    assert desk.link.call(Publish.of(letters(range(6, 9)))).accepted == 3
    assert desk.link.call(Publish.of(letters(range(3)))).duplicates == 3
    assert desk.state() == before
    assert desk.publish(3, letter(9), level=5).accepted == 1


# Refused for another reason, and duplicates.


@pytest.mark.parametrize("count", [2, 200], ids=["few", "many"])
def test_a_parcel_refused_for_its_messages_leaves_the_number_free(desk: Desk, count: int) -> None:
    desk.publish(0, letters(range(3)))
    desk.publish(3, letter(70, desk.neighbour))
    desk.hub.recipient(desk.neighbour).erase()
    fine = letters(range(200, 200 + count))
    bad = {
        InvalidMessage: Message(recipient=" ", data=b""),
        MessageConflict: letter(0, data=b"other"),
        MessageErased: letter(70, desk.neighbour),
        PartitionMismatch: letter(71, desk.stranger),
    }
    for error, message in bad.items():
        desk.refuses(error, 4, [*fine, message])
        desk.refuses(error, 4, [message, *fine])
    assert desk.level_and_last() == (0, 3)
    assert desk.publish(4, fine).accepted == count
    assert desk.stored() == [*range(3), *range(200, 200 + count)]


def test_a_refused_parcel_of_a_raised_level_does_not_take_over(desk: Desk) -> None:
    desk.publish(0, letter(0))
    desk.refuses(MessageConflict, 0, [letter(1), letter(0, data=b"other")], level=1)
    assert desk.publish(1, letter(1)).accepted == 1


@pytest.mark.parametrize("extra", [0, 200], ids=["few", "many"])
def test_duplicates_by_id_count_in_the_range(desk: Desk, extra: int) -> None:
    desk.link.call(Publish.of(letters([1, 2])))
    sent = [*letters(range(4)), letter(3), *letters(range(200, 200 + extra))]
    receipt = desk.publish(0, sent)
    assert (receipt.accepted, receipt.duplicates) == (2 + extra, 3)
    assert desk.level_and_last() == (0, 4 + extra)
    assert desk.publish(0, sent) == replays(receipt)
    assert desk.publish(5 + extra, letter(5)).accepted == 1
    assert desk.stored() == [1, 2, 0, 3, *range(200, 200 + extra), 5]


def test_a_parcel_of_duplicates_only_takes_its_numbers(desk: Desk) -> None:
    desk.link.call(Publish.of(letters(range(3))))
    receipt = desk.publish(0, letters(range(3)))
    assert (receipt.accepted, receipt.duplicates, receipt.partitions) == (0, 3, ())
    assert desk.level_and_last() == (0, 2)
    assert desk.publish(0, letters(range(3))) == replays(receipt)
    desk.refuses_number(0, letters(range(3, 6)), expected=3)


def test_numbers_need_a_partition(desk: Desk) -> None:
    numbers = ProducerNumbers(group=GROUP, owner_level=0, published_sequence=0)
    with pytest.raises(InvalidRequest, match="partition"):
        desk.link.call(Publish.of([letter(0)], producer=numbers))
    assert desk.stored() == []


def test_numbers_of_an_unknown_partition_are_refused(desk: Desk) -> None:
    with pytest.raises(PartitionUnknown):
        desk.publish(0, letter(0), partition=2)
    with pytest.raises(PartitionUnknown):
        desk.link.call(OpenLink(2))
    with pytest.raises(PartitionUnknown):
        desk.link.call(ReadProducer(2, GROUP))
    with pytest.raises(PartitionUnknown):
        desk.link.call(ListProducers(2))


# Ranges.

BEYOND: list[dict[str, Any]] = [
    {"group": -1},
    {"group": GROUP_MAX + 1},
    {"level": -1},
    {"level": LEVEL_MAX + 1},
    {"first": -1},
    {"first": LAST + 1},
]


def test_numbers_beyond_their_range_are_refused(desk: Desk, subtests: pytest.Subtests) -> None:
    for wrong in BEYOND:
        group, level = wrong.get("group", GROUP), wrong.get("level", 0)
        with subtests.test(wrong=wrong):
            with pytest.raises(InvalidRequest):
                desk.publish(wrong.get("first", 0), letter(0), group=group, level=level)
            last = wrong.get("first")
            with pytest.raises(InvalidRequest):
                desk.open_link(producer_group=group, owner_level=level, last_published_sequence_number=last)
    for group in (-1, GROUP_MAX + 1):
        with pytest.raises(InvalidRequest):
            desk.state(group)
    assert desk.link.call(ListProducers(desk.partition)).producers == ()
    assert desk.stored() == []


def test_the_ends_of_the_ranges_are_inside(desk: Desk) -> None:
    for group, level in ((0, 0), (GROUP_MAX, LEVEL_MAX), (0, LEVEL_MAX), (GROUP_MAX - 1, 0)):
        desk.refuses_number(LAST, letter(9), group=group, level=level, expected=0)
        desk.open_link(producer_group=group, owner_level=level)
        assert desk.level_and_last(group) == (level, None)
    desk.publish(0, letter(0), group=0, level=LEVEL_MAX)
    desk.open_link(producer_group=GROUP_MAX - 1, owner_level=LEVEL_MAX, last_published_sequence_number=LAST)
    assert desk.publish(0, letter(1), group=GROUP_MAX - 1, level=LEVEL_MAX).accepted == 1


# Looking at producers, and forgetting them.


def test_the_state_tells_activity_replays_and_fenced_attempts(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=1)
    desk.clock.advance(10)
    desk.publish(0, letters(range(3)), level=1)
    desk.publish(0, letters(range(3)), level=1)
    desk.clock.advance(10)
    desk.refuses(ProducerDisconnected, 3, letter(3))
    with pytest.raises(ProducerDisconnected):
        desk.open_link(producer_group=GROUP, owner_level=0)
    desk.reopen()
    state = desk.state()
    assert (state.replays, state.fenced_attempts, state.last_activity_at) == (2, 2, at(10))
    assert (state.partition, state.producer_group) == (desk.partition, GROUP)


def test_an_unknown_group_has_no_state(desk: Desk) -> None:
    desk.publish(0, letter(0))
    with pytest.raises(ProducerUnknown):
        desk.state(GROUP + 1)
    with pytest.raises(ProducerUnknown):
        desk.state(partition=desk.elsewhere)


def test_all_producers_of_a_partition_can_be_listed_in_pages(desk: Desk) -> None:
    groups = [5, 0, GROUP_MAX, 300, 2**40]
    for group in groups:
        desk.publish(0, letter(group), group=group)
    desk.link.call(OpenLink(desk.elsewhere, producer_group=9))
    found: list[ProducerState] = []
    after = None
    for _ in range(3):
        page = desk.link.call(ListProducers(desk.partition, limit=2, after=after))
        found += page.producers
        after = page.next
    assert after is None
    assert [state.producer_group for state in found] == sorted(groups)
    assert found == [desk.state(group) for group in sorted(groups)]
    assert [state.producer_group for state in desk.link.call(ListProducers(desk.elsewhere)).producers] == [9]


def kept_for(days: float) -> Settings:
    return msgspec.structs.replace(SETTINGS, producer_retention_seconds=days * DAY)


def test_unused_state_is_kept_for_30_days(desk: Desk) -> None:
    assert Settings().producer_retention_seconds == 30 * DAY
    receipt = desk.publish(0, letters(range(3)))
    desk.clock.advance(30 * DAY - 1)
    desk.hub.retain()
    assert desk.level_and_last() == (0, 2)
    desk.clock.advance(1)
    desk.hub.retain()
    with pytest.raises(ProducerUnknown):
        desk.state()
    desk.refuses_number(3, letter(3), expected=0)
    again = desk.publish(0, letters(range(3)))
    assert (again.accepted + again.duplicates, again.replayed) == (receipt.accepted, False)


@pytest.mark.parametrize("use", ["publish", "replay", "link"])
def test_used_state_stays(desk: Desk, use: str) -> None:
    desk.reopen(kept_for(1))
    desk.publish(0, letters(range(3)))
    desk.publish(0, letter(50), group=GROUP + 1)
    desk.clock.advance(0.9 * DAY)
    desk.hub.retain()
    if use == "publish":
        desk.publish(3, letter(3))
    elif use == "replay":
        assert desk.publish(0, letters(range(3))).replayed
    else:
        desk.open_link(producer_group=GROUP)
    desk.clock.advance(0.9 * DAY)
    desk.hub.retain()
    assert desk.level_and_last() == (0, 3 if use == "publish" else 2)
    with pytest.raises(ProducerUnknown):
        desk.state(GROUP + 1)
    assert desk.state().last_activity_at == at(0.9 * DAY)


@pytest.mark.parametrize("seconds", [0.0, -1.0, DAY - 1.0, float("inf"), float("nan")])
def test_state_is_kept_for_a_day_at_least(seconds: float) -> None:
    with pytest.raises(InvalidSettings, match="producer_retention_seconds"):
        Settings(producer_retention_seconds=seconds)
    assert Settings(producer_retention_seconds=DAY).producer_retention_seconds == DAY
