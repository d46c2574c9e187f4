"""Runs: which ones are worth merging, and that nobody is left behind."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.limits import FILING_FAN_IN, FILING_FAN_IN_MAX, FILING_HANDFUL, KIB, MIB
from restante.model.storage.run import (
    RunRow,
    RunState,
    SegmentRow,
    choose_merge,
    decode_run,
    encode_run,
    is_small,
    tier_of,
)
from tests.model.strategies import unhurried

BY_TIER = {0: 10 * KIB, 1: 100 * KIB, 2: 300 * KIB, 3: 3 * MIB, 4: 20 * MIB}

sizes = st.sampled_from([100, 10 * KIB, 200 * KIB, 300 * KIB, 3 * MIB, 20 * MIB, 200 * MIB])


def run(number: int, length: int, *, last: int | None = None) -> RunRow:
    segments = (SegmentRow(number, length, 100, 1),)
    return RunRow(number, number, last or number, segments, RunState.VISIBLE, 0, mailbag=True)


def runs_of(lengths: Iterable[int]) -> list[RunRow]:
    return [run(number, length) for number, length in enumerate(lengths, 1)]


def filed(runs: list[RunRow], *, everything: bool = False) -> list[RunRow]:
    """The runs after all merges that are worth it; each merge is checked to be of neighbours."""
    while chosen := list(choose_merge(runs, everything=everything)):
        at = runs.index(chosen[0])
        assert runs[at : at + len(chosen)] == chosen
        assert 2 <= len(chosen) <= FILING_FAN_IN_MAX
        merged = run(chosen[0].first, sum(each.length for each in chosen), last=chosen[-1].last)
        runs = [*runs[:at], merged, *runs[at + len(chosen) :]]
    return runs


def arriving(lengths: Iterable[int]) -> tuple[list[RunRow], int]:
    """What is left when filing keeps up with arrivals, and how many runs there were at most."""
    runs, most = list[RunRow](), 0
    for number, length in enumerate(lengths, 1):
        runs = filed([*runs, run(number, length)])
        most = max(most, len(runs))
    return runs, most


def test_a_tier_is_eight_times_the_one_before_beyond_the_tiny_and_the_small() -> None:
    borders = [16 * KIB, 256 * KIB, 2 * MIB, 16 * MIB, 128 * MIB]
    assert [tier_of(border - 1) for border in borders] == [0, 1, 2, 3, 4]
    assert [tier_of(border) for border in borders] == [1, 2, 3, 4, 5]
    assert tier_of(0) == 0


@pytest.mark.parametrize("tier", BY_TIER)
def test_eight_neighbours_of_a_tier_are_merged_and_seven_are_not_but_thirty_two_of_the_smallest(tier: int) -> None:
    least = FILING_FAN_IN if tier else FILING_HANDFUL
    assert list(choose_merge(runs_of([BY_TIER[tier]] * (least - 1)))) == []
    runs = runs_of([BY_TIER[tier]] * least)
    assert list(choose_merge(runs)) == runs


def test_small_runs_are_merged_in_handfuls_of_at_most_sixty_four() -> None:
    runs = runs_of([100] * 100)
    assert list(choose_merge(runs)) == runs[:FILING_FAN_IN_MAX]


def test_small_runs_between_large_ones_go_along() -> None:
    lengths = [BY_TIER[2], BY_TIER[0]] * FILING_FAN_IN
    assert len(choose_merge(runs_of(lengths))) >= 2 * FILING_FAN_IN - 1


def test_a_large_run_is_left_alone_until_there_are_others_like_it() -> None:
    runs = runs_of([BY_TIER[3], *[BY_TIER[0]] * FILING_HANDFUL])
    assert list(choose_merge(runs)) == runs[1:]


def test_a_merge_whose_numbers_do_not_fit_a_place_is_not_chosen() -> None:
    runs = runs_of([100] * FILING_HANDFUL)
    far = [*runs[:-1], run(limits.RUN_MESSAGES_MAX + 2, 100)]
    assert list(choose_merge(far)) == []


@given(st.lists(sizes, max_size=150), st.booleans())
@unhurried
def test_filing_comes_to_an_end_and_keeps_all_numbers_in_order(lengths: list[int], everything: bool) -> None:
    runs = filed(runs_of(lengths), everything=everything)
    assert sum(each.length for each in runs) == sum(lengths)
    assert all(one.last < other.first for one, other in itertools.pairwise(runs))
    assert list(choose_merge(runs, everything=everything)) == []


@given(st.lists(sizes, max_size=150))
@unhurried
def test_filing_everything_leaves_no_two_small_neighbours(lengths: list[int]) -> None:
    small = [is_small(each) for each in filed(runs_of(lengths), everything=True)]
    assert not any(one and other for one, other in itertools.pairwise(small))


@given(st.lists(sizes, min_size=50, max_size=300))
@unhurried
def test_runs_stay_few_whatever_sizes_arrive(lengths: list[int]) -> None:
    assert arriving(lengths)[1] <= limits.UNFILED_RUNS_MAX


@pytest.mark.parametrize(
    "pattern",
    [
        [BY_TIER[0]],
        [BY_TIER[2], *[BY_TIER[0]] * 7],
        [BY_TIER[2], BY_TIER[1], *[BY_TIER[0]] * 7],
        [BY_TIER[3], *[BY_TIER[2], *[BY_TIER[1], *[100] * 7] * 7] * 7],
    ],
    ids=["small", "small between large", "two sizes between large", "three sizes between large"],
)
def test_small_runs_are_never_stranded_between_larger_ones(pattern: list[int]) -> None:
    _, most = arriving(pattern * (3_000 // len(pattern)))
    assert most <= limits.UNFILED_RUNS_MAX


@pytest.mark.parametrize("size", [32 * KIB, 400], ids=["small", "tiny"])
def test_bytes_are_rewritten_about_once_a_tier(size: int) -> None:
    written, runs = 0, list[RunRow]()
    for number in range(1, 4_097):
        runs = [*runs, run(number, size)]
        while chosen := list(choose_merge(runs)):
            at = runs.index(chosen[0])
            length = sum(each.length for each in chosen)
            written += length
            runs = [*runs[:at], run(chosen[0].first, length, last=chosen[-1].last), *runs[at + len(chosen) :]]
    assert written <= 4 * 4_096 * size


@given(st.integers(1, 2**60), st.integers(0, 2**40), st.booleans())
def test_a_run_row_comes_back_from_its_bytes(number: int, length: int, mailbag: bool) -> None:
    segments = (SegmentRow(number, length, 7, 3), SegmentRow(number + 1, length, 8, 4))
    row = RunRow(number, number, number + 9, segments, RunState.FEED, number, mailbag)
    assert decode_run(encode_run(row)) == row
    assert (row.rows, row.length) == (7, 2 * length)
