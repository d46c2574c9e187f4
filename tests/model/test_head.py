"""Heads and ranges against plain sets of numbers."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from restante.model.columns.arrays import Numbers
from restante.model.storage.head import (
    EMPTY_HEAD,
    Apart,
    ApartRange,
    Head,
    NumberRange,
    OpenMark,
    advanced,
    apart_of,
    decode_head,
    encode_head,
    in_ranges,
    ranges_of,
    stored_mask,
    waiting_mask,
    with_apart,
)

HIGHEST = 40
FOLDED = {Apart.EXPIRED, Apart.WITHDRAWN, Apart.COLLECTED}
"""What is gone stays listed, or it would be shown again as collected."""
SHOWN = {Apart.EXPIRED, Apart.WITHDRAWN, Apart.SET_ASIDE, Apart.COLLECTED}

numbers_strategy = st.sets(st.integers(1, HIGHEST), max_size=HIGHEST).map(
    lambda chosen: np.array(sorted(chosen), np.int64)
)
ranges_strategy = st.lists(
    st.tuples(st.integers(1, HIGHEST), st.integers(0, 8)).map(lambda pair: NumberRange(pair[0], pair[0] + pair[1])),
    max_size=5,
)
whys = st.sampled_from(list(Apart))
settlings = st.lists(st.tuples(ranges_strategy, st.none() | whys), max_size=8)


def plain(ranges: list[NumberRange]) -> set[int]:
    return {number for entry in ranges for number in range(entry.first, entry.last + 1)}


def disjoint(ranges: list[NumberRange]) -> list[NumberRange]:
    """As `ranges_of` gives them: apart from each other, ascending."""
    numbers = np.array(sorted(plain(ranges)), np.int64)
    gaps = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [NumberRange(int(part[0]), int(part[-1])) for part in np.split(numbers, gaps) if len(part)]


class Settled(NamedTuple):
    """The list as kept, and the same as a plain mapping."""

    apart: tuple[ApartRange, ...]
    why: dict[int, Apart]


def settle_all(steps: list[tuple[list[NumberRange], Apart | None]]) -> Settled:
    apart: tuple[ApartRange, ...] = ()
    why: dict[int, Apart] = {}
    for ranges, reason in steps:
        apart = with_apart(apart, disjoint(ranges), reason)
        for number in plain(ranges):
            why.pop(number, None)
            if reason is not None:
                why[number] = reason
    return Settled(apart, why)


@given(settlings)
def test_settling_apart_is_setting_a_reason_number_by_number(
    steps: list[tuple[list[NumberRange], Apart | None]],
) -> None:
    settled = settle_all(steps)
    every = np.arange(1, HIGHEST + 20)
    found = apart_of(Head(apart=settled.apart), every)
    assert {int(number): Apart(why) for number, why in zip(every, found, strict=True) if why} == settled.why


@given(settlings)
def test_the_list_apart_ascends_and_does_not_overlap(steps: list[tuple[list[NumberRange], Apart | None]]) -> None:
    apart = settle_all(steps).apart
    assert all(entry.first <= entry.last for entry in apart)
    assert all(one.last < other.first for one, other in itertools.pairwise(apart))


@given(st.integers(0, HIGHEST), settlings, numbers_strategy)
def test_a_message_waits_beyond_the_head_unless_it_is_apart(
    head: int, steps: list[tuple[list[NumberRange], Apart | None]], numbers: Numbers
) -> None:
    settled = settle_all(steps)
    mask = waiting_mask(Head(head=head, apart=settled.apart), numbers)
    expected = {number for number in numbers.tolist() if number > head and number not in settled.why}
    assert set(numbers[mask].tolist()) == expected


@given(st.integers(0, HIGHEST), settlings, numbers_strategy)
def test_a_message_is_kept_beyond_what_was_forgotten_or_while_it_is_apart_and_shown(
    forgotten: int, steps: list[tuple[list[NumberRange], Apart | None]], numbers: Numbers
) -> None:
    settled = settle_all(steps)
    mask = stored_mask(Head(head=forgotten, forgotten=forgotten, apart=settled.apart), numbers)
    expected = {
        number
        for number in numbers.tolist()
        if (settled.why[number] in SHOWN if number in settled.why else number > forgotten)
    }
    assert set(numbers[mask].tolist()) == expected


@given(st.integers(0, HIGHEST), st.integers(0, HIGHEST), settlings)
def test_a_head_moves_forwards_only_and_folds_in_what_it_passes(
    before: int, number: int, steps: list[tuple[list[NumberRange], Apart | None]]
) -> None:
    settled = settle_all(steps)
    moved = advanced(Head(head=before, apart=settled.apart), number)
    every = np.arange(1, HIGHEST + 20)
    left = {int(at): Apart(why) for at, why in zip(every, apart_of(moved, every), strict=True) if why}
    passed = range(before + 1, number + 1)
    assert moved.head == max(before, number)
    assert left == {at: why for at, why in settled.why.items() if at not in passed or why not in FOLDED}


@given(numbers_strategy, st.data())
def test_chosen_numbers_become_ranges_and_come_back(numbers: Numbers, data: st.DataObject) -> None:
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers))), np.bool_)
    ranges = ranges_of(chosen, numbers)
    assert (in_ranges(ranges, numbers) == chosen).all()
    assert len(ranges) <= int(chosen.sum())


@given(ranges_strategy, numbers_strategy)
def test_a_number_is_in_ranges_as_in_a_set(ranges: list[NumberRange], numbers: Numbers) -> None:
    inside = in_ranges(ranges, numbers)
    assert set(numbers[inside].tolist()) == plain(ranges) & set(numbers.tolist())


@given(
    st.integers(0, 2**63 - 1),
    settlings,
    st.none() | st.builds(OpenMark, st.binary(min_size=16, max_size=16), *[st.integers(0, 2**62)] * 4),
)
def test_a_head_comes_back_from_its_bytes(
    number: int, steps: list[tuple[list[NumberRange], Apart | None]], mark: OpenMark | None
) -> None:
    head = Head(head=number, forgotten=number // 2, open=mark, apart=settle_all(steps).apart)
    assert decode_head(encode_head(head)) == head


def test_the_empty_head_settles_nothing() -> None:
    numbers = np.arange(1, 5)
    assert waiting_mask(EMPTY_HEAD, numbers).all()
    assert stored_mask(EMPTY_HEAD, numbers).all()
