"""Bits of a batch: any positions, in segments that are there only when somebody needs them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.limits import BATCH_CHUNK_BITS
from restante.model.columns.bits import SEGMENT_BITS, SEGMENT_BYTES, Bits, BitSegment, chunk_of, is_full, put_chunk

_BORDERS = [0, 1, 7, 8, BATCH_CHUNK_BITS, SEGMENT_BITS, 2 * SEGMENT_BITS, 5 * SEGMENT_BITS]
_near = st.sampled_from(_BORDERS).flatmap(lambda border: st.integers(max(0, border - 20), border + 20))


def _empty() -> Bits:
    return Bits(lambda _: False)


def _ascending(positions: set[int]) -> np.ndarray:
    return np.array(sorted(positions), np.int64)


@given(st.lists(st.sets(_near, max_size=20), max_size=6), st.sets(_near, max_size=40))
def test_what_was_set_is_set_and_nothing_else(rounds: list[set[int]], asked: set[int]) -> None:
    bits, model = _empty(), set[int]()
    for positions in rounds:
        bits.set(_ascending(positions))
        model |= positions
    found = bits.test(_ascending(asked))
    assert found.tolist() == [position in model for position in sorted(asked)]


@given(
    st.lists(st.sets(_near, max_size=20), max_size=2),
    st.lists(st.tuples(_near, st.integers(1, 60)), min_size=1, max_size=5),
)
def test_a_range_sets_all_of_it_and_counts_what_was_not_set(
    before: list[set[int]], ranges: list[tuple[int, int]]
) -> None:
    bits, model = _empty(), set[int]()
    for positions in before:
        bits.set(_ascending(positions))
        model |= positions
    for start, length in ranges:
        own = set(range(start, start + length))
        assert bits.set_range(start, start + length) == len(own - model)
        model |= own
        around = set(range(max(0, start - 5), start + length + 5))
        assert bits.test(_ascending(around)).tolist() == [position in model for position in sorted(around)]


@given(st.sets(_near, max_size=30), _near, st.integers(1, 200), st.integers(1, 50))
def test_the_first_that_are_not_set_are_found(positions: set[int], start: int, length: int, limit: int) -> None:
    bits = _empty()
    bits.set(_ascending(positions))
    wanted = [position for position in range(start, start + length) if position not in positions][:limit]
    assert bits.unset(start, start + length, limit).tolist() == wanted


def test_looking_for_the_pending_passes_over_full_segments() -> None:
    bits = _empty()
    bits.set_range(0, 3 * SEGMENT_BITS + 5)
    assert bits.unset(0, 4 * SEGMENT_BITS, 2).tolist() == [3 * SEGMENT_BITS + 5, 3 * SEGMENT_BITS + 6]


def test_a_range_over_whole_segments_takes_no_memory() -> None:
    bits = _empty()
    assert bits.set_range(0, 1_000 * SEGMENT_BITS) == 1_000 * SEGMENT_BITS
    assert bits.nbytes == 0


def test_a_trial_changes_nothing_until_it_is_taken_over() -> None:
    bits = _empty()
    bits.set(np.array([3, SEGMENT_BITS]))
    trial = bits.trial()
    assert trial.set_range(0, 10) == 9
    trial.set(np.array([SEGMENT_BITS + 1]))
    assert bits.test(np.array([2, 3, SEGMENT_BITS + 1])).tolist() == [False, True, False]
    bits.take_over(trial)
    assert bits.test(np.array([2, 3, 10, SEGMENT_BITS, SEGMENT_BITS + 1])).tolist() == [True, True, False, True, True]


def test_changed_chunks_are_named() -> None:
    bits = _empty()
    bits.set(np.array([1, BATCH_CHUNK_BITS * 3 + 1, SEGMENT_BITS]))
    bits.set_range(BATCH_CHUNK_BITS * 7, BATCH_CHUNK_BITS * 8 + 1)
    assert {number: np.flatnonzero(chunks).tolist() for number, chunks in bits.changed.items()} == {
        0: [0, 3, 7, 8],
        1: [0],
    }


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_chunks_put_together_are_the_segment(count: int) -> None:
    random = np.random.default_rng(count)
    segment = np.zeros(SEGMENT_BYTES, np.uint8)
    segment[random.integers(0, SEGMENT_BYTES, count)] = random.integers(1, 256, count)
    again = np.zeros(SEGMENT_BYTES, np.uint8)
    for chunk in range(SEGMENT_BITS // BATCH_CHUNK_BITS):
        put_chunk(again, chunk, chunk_of(segment, chunk))
    assert np.array_equal(segment, again)


def test_a_segment_is_full_when_no_bit_is_missing() -> None:
    segment = np.full(SEGMENT_BYTES, 255, np.uint8)
    assert is_full(segment)
    segment[77] = 254
    assert not is_full(segment)


def test_segments_are_loaded_once_and_only_when_asked_for() -> None:
    loaded: list[int] = []

    def load(number: int) -> BitSegment:
        loaded.append(number)
        return number == 2

    bits = Bits(load)
    assert bits.test(np.array([5, 2 * SEGMENT_BITS + 5])).tolist() == [False, True]
    bits.test(np.array([6, 2 * SEGMENT_BITS + 6]))
    assert loaded == [0, 2]
