"""Fingerprints against a plain dictionary, colliding ones included."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante.model.storage.identity import Fingerprints, Known, expand, find_in, merge

Batch = list[tuple[int, int]]
"""Fingerprint, and how far its message's number lies beyond the one before."""

fingerprint = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1)
batches = st.lists(st.lists(st.tuples(fingerprint, st.integers(1, 5)), min_size=1, max_size=9), max_size=12)


def columns(batch: Batch, last: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    numbers = last + np.cumsum([step for _, step in batch])
    return np.array([value for value, _ in batch], np.uint64), numbers.astype(np.int64)


def remembered(given_batches: Iterable[Batch], start: int = 0) -> tuple[Fingerprints, dict[int, set[int]]]:
    """The same messages in the sorted arrays and in a dictionary."""
    known, plain, last = Fingerprints(), dict[int, set[int]](), start
    for batch in given_batches:
        values, numbers = columns(batch, last)
        known = known.with_more(values, numbers)
        last = int(numbers[-1])
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            plain.setdefault(value, set()).add(number)
    return known, plain


def compacted(known: Fingerprints) -> Fingerprints:
    while (pair := known.mergeable()) is not None:
        known = known.with_merged(pair, merge(*pair))
    return known


def found(known: Fingerprints, asked: list[int]) -> list[tuple[int, int]]:
    wanted = np.array(asked, np.uint64)
    pairs = [find_in(level, wanted) for level in known.levels if isinstance(level, Known)]
    return sorted((i, n) for index, number in pairs for i, n in zip(index.tolist(), number.tolist(), strict=True))


@given(batches, st.lists(fingerprint, max_size=12), st.booleans())
def test_every_message_with_a_fingerprint_is_found_and_no_other(
    given_batches: list[Batch], asked: list[int], ascending: bool
) -> None:
    known, plain = remembered(given_batches)
    asked = sorted(asked) if ascending else asked
    expected = sorted((index, number) for index, value in enumerate(asked) for number in plain.get(value, ()))
    assert found(known, asked) == expected
    assert found(compacted(known), asked) == expected


@given(batches)
def test_merging_leaves_few_arrays_and_loses_nothing(given_batches: list[Batch]) -> None:
    known, plain = remembered(given_batches)
    few = compacted(known)
    lengths = [len(level) for level in few.levels]
    assert all(older >= 4 * younger for older, younger in itertools.pairwise(lengths))
    assert len(few) == len(known) == sum(map(len, plain.values()))


def test_numbers_too_far_apart_for_one_array_stay_in_two() -> None:
    known, plain = remembered([[(7, 1)], [(7, 2**33)], [(8, 1)]], start=2**40)
    assert found(compacted(known), [7, 8]) == sorted((value - 7, number) for value in plain for number in plain[value])


def test_adding_leaves_what_a_reader_holds_as_it_was() -> None:
    before, _ = remembered([[(1, 1)]])
    after = before.with_more(np.array([2], np.uint64), np.array([9]))
    assert (found(before, [2]), found(after, [2])) == ([], [(0, 9)])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=10))
def test_expanding_counts_on_from_each_start(spans: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in spans], np.int64)
    counts = np.array([count for _, count in spans], np.int64)
    assert expand(starts, counts).tolist() == [start + step for start, count in spans for step in range(count)]
