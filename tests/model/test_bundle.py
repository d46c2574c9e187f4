"""Filling a bundle against a plain loop that follows the rules as written."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from restante.model.mailboxes.bundle import (
    BundleBounds,
    BundleRow,
    Filling,
    decode_bundle,
    encode_bundle,
    first_waiting,
)
from restante.model.storage.head import Apart, Head, NumberRange, with_apart
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.rows import BUNDLEABLE, INLINE
from tests.model.strategies import unhurried

NOW = 100


@dataclass(frozen=True)
class Letter:
    """What decides whether a message is taken."""

    step: int
    weight: int
    bundleable: bool
    inline: bool
    expired: bool


@dataclass
class Plain:
    """The rules as written, one message at a time."""

    bounds: BundleBounds
    taken: list[int] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    weight: int = 0
    inline: bool = True
    single: bool = False
    ended: bool = False

    def offer(self, number: int, letter: Letter) -> None:
        """Take the next waiting message, pass it as expired, or end."""
        if self.ended:
            return
        if letter.expired:
            self.passed.append(number)
        elif not self.taken or self.fits(number, letter):
            self.inline = letter.inline if not self.taken else self.inline
            self.single = not letter.bundleable if not self.taken else self.single
            self.taken.append(number)
            self.weight += letter.weight
        else:
            self.ended = True

    def fits(self, number: int, letter: Letter) -> bool:
        return (
            not self.single
            and letter.bundleable
            and letter.inline == self.inline
            and self.weight + letter.weight <= self.bounds.weight
            and len(self.taken) < self.bounds.messages
            and number < self.bounds.before
        )


letters = st.builds(
    Letter,
    step=st.integers(1, 3),
    weight=st.sampled_from([1, 1, 1, 5, 40_000, 51_200, 60_000]),
    bundleable=st.sampled_from([True] * 7 + [False]),
    inline=st.sampled_from([True] * 7 + [False]),
    expired=st.sampled_from([False] * 5 + [True]),
)
drawers_strategy = st.lists(st.lists(letters, min_size=1, max_size=6), min_size=1, max_size=5)
bounds_strategy = st.builds(
    BundleBounds,
    messages=st.sampled_from([1, 2, 5, 51_200]),
    weight=st.sampled_from([1, 6, 51_200]),
    before=st.sampled_from([2**63 - 1, 12, 5]),
)
heads = st.builds(
    lambda head, ranges: Head(head=head, apart=with_apart((), ranges, Apart.WITHDRAWN)),
    st.integers(0, 12),
    st.lists(st.integers(1, 30).map(lambda number: NumberRange(number, number)), max_size=5, unique=True),
)


def records_of(drawer: list[Letter]) -> RecordArray:
    records = np.zeros(len(drawer), RECORD)
    records["weight"] = [letter.weight for letter in drawer]
    records["flags"] = [letter.bundleable * BUNDLEABLE + letter.inline * INLINE for letter in drawer]
    records["expires_at"] = [NOW if letter.expired else NOW + 1 for letter in drawer]
    return records


def waits(head: Head, number: int) -> bool:
    return number > head.head and not any(entry.first <= number <= entry.last for entry in head.apart)


@given(drawers_strategy, bounds_strategy, heads)
@unhurried
def test_a_bundle_is_what_a_plain_loop_takes(drawers: list[list[Letter]], bounds: BundleBounds, head: Head) -> None:
    filling, plain, last = Filling(head, NOW, bounds), Plain(bounds), 0
    for drawer in drawers:
        numbers = last + np.cumsum([letter.step for letter in drawer])
        last = int(numbers[-1])
        if not filling.ended:
            filling.add(numbers, records_of(drawer))
        for number, letter in zip(numbers.tolist(), drawer, strict=True):
            if waits(head, number):
                plain.offer(number, letter)
    assert [number for part in filling.taken for number in part.tolist()] == plain.taken
    passed = [number for numbers, gone in filling.expired for number in numbers[gone].tolist()]
    assert passed == plain.passed[: len(passed)], "those behind its end may be left for later"
    assert all(number in passed for number in plain.passed if plain.taken and number < plain.taken[-1])
    assert (filling.count, filling.expired_count) == (len(plain.taken), len(passed))
    if plain.taken:
        found = (filling.first_taken, filling.last_taken, filling.weight, filling.inline)
        assert found == (plain.taken[0], plain.taken[-1], plain.weight, plain.inline)


@given(st.lists(letters, min_size=1, max_size=8), heads)
def test_the_first_waiting_number_is_the_first_that_waits_and_has_not_expired(drawer: list[Letter], head: Head) -> None:
    numbers = np.cumsum([letter.step for letter in drawer])
    alive = [
        number
        for number, letter in zip(numbers.tolist(), drawer, strict=True)
        if waits(head, number) and not letter.expired
    ]
    found = first_waiting(head, numbers, records_of(drawer)["expires_at"], NOW)
    assert found == (alive[0] if alive else None)


def test_more_than_six_drawers_may_be_needed_for_a_full_bundle() -> None:
    filling, last = Filling(Head(), NOW, BundleBounds()), 0
    for count in (1, 10_000, 10_000, 10_000, 10_000, 10_000, 1_198, 2):
        assert not filling.ended
        filling.add(np.arange(last + 1, last + count + 1), records_of([Letter(1, 1, True, True, False)] * count))
        last += count
    assert filling.ended
    assert (filling.count, filling.weight, filling.last_taken) == (51_200, 51_200, 51_200)


@given(
    st.integers(0, 2**62),
    st.booleans(),
    st.lists(st.builds(NumberRange, st.integers(0, 9), st.integers(0, 9)), max_size=3),
)
def test_a_bundle_comes_back_from_its_bytes(number: int, inline: bool, left_out: list[NumberRange]) -> None:
    row = BundleRow(
        "ä", "o", "k", number, number + 5, 3, tuple(left_out), number, inline, "json", bytes(16), 5, number, number
    )
    assert decode_bundle(encode_bundle(row)) == row
