"""Acknowledgements written ahead read back as they were."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.batches.acknowledged import decode_entry, encode_entry, united


@given(
    st.sets(st.one_of(st.integers(0, 300), st.integers(0, 10**12)), max_size=30),
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**12)), max_size=3),
)
def test_an_entry_reads_back_as_it_was(positions: set[int], ranges: list[tuple[int, int]]) -> None:
    entry = decode_entry(encode_entry(np.array(sorted(positions), np.int64), ranges))
    assert entry.positions.tolist() == sorted(positions)
    assert list(entry.ranges) == ranges


@pytest.mark.parametrize(("distance", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)])
def test_distances_take_as_few_bytes_as_the_largest_needs(distance: int, width: int) -> None:
    positions = np.arange(101, dtype=np.int64) * distance
    assert len(encode_entry(positions, ())) < 100 * width + 20


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=12))
def test_united_ranges_cover_the_same_and_do_not_touch(given_ranges: list[tuple[int, int]]) -> None:
    ranges = [(start, start + length) for start, length in given_ranges]
    joined = united(ranges)
    assert {one for start, stop in joined for one in range(start, stop)} == {
        one for start, stop in ranges for one in range(start, stop)
    }
    assert all(before[1] < after[0] for before, after in itertools.pairwise(joined))
