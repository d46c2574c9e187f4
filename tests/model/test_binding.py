"""Stretches of numbers that bind messages to batches, held against plain dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import DataDamaged
from restante.model.batches.bound_stretches import (
    NOTHING_BOUND,
    BindingRole,
    Bindings,
    BoundStretch,
    Stretches,
    binding_key,
    load_bindings,
)
from restante.model.columns.arrays import Numbers
from restante.model.storage.keys import number_key

A, B, C = (bytes([letter]) * 15 + b"\0" for letter in b"abc")
NUMBERS: st.SearchStrategy[list[int]] = st.lists(st.integers(1, 250), unique=True).map(sorted)
STEPS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from([A, B, C])), min_size=1, max_size=60)
"""Lengths of stretches, of the gaps before them, and their batches."""


def array(numbers: list[int]) -> Numbers:
    return np.array(numbers, np.int64)


def laid(steps: list[tuple[int, int, bytes]]) -> list[BoundStretch]:
    stretches, number = [], 0
    for length, gap, batch in steps:
        first = number + gap + 1
        number = first + length - 1
        stretches.append(BoundStretch(first, number, batch))
    return stretches


def batch_of(stretches: list[BoundStretch]) -> dict[int, bytes]:
    return {number: batch for first, last, batch in stretches for number in range(first, last + 1)}


def chained(stretches: list[BoundStretch]) -> Stretches:
    items = Stretches()
    for stretch in stretches:
        items = items.with_next(stretch)
    return items


@given(steps=STEPS, asked=NUMBERS)
def test_items_are_counted_as_a_dictionary_counts_them(steps: list[tuple[int, int, bytes]], asked: list[int]) -> None:
    stretches = laid(steps)
    items, known = chained(stretches), batch_of(stretches)
    expected: dict[bytes, int] = {}
    for number in asked:
        if number in known:
            expected[known[number]] = expected.get(known[number], 0) + 1
    assert items.counts(array(asked)) == expected
    for batch in (A, B, C):
        inside = [known.get(number) == batch for number in asked]
        assert items.inside(array(asked), batch).tolist() == inside
        assert items.of(batch).inside(array(asked)).tolist() == inside
        left = items.without(batch).counts(array(asked))
        assert left == {other: count for other, count in expected.items() if other != batch}


@given(
    rounds=st.lists(st.tuples(NUMBERS, st.sampled_from([A, B, C])), max_size=12),
    asked=NUMBERS,
)
def test_duplicates_of_several_batches_may_be_of_the_same_messages(
    rounds: list[tuple[list[int], bytes]], asked: list[int]
) -> None:
    stretches, known = Stretches(), dict[bytes, set[int]]()
    for numbers, batch in rounds:
        fresh = [number for number in numbers if number not in known.get(batch, set())]
        assert (~stretches.inside(array(numbers), batch)).tolist() == [number in fresh for number in numbers]
        stretches = stretches.with_more([BoundStretch(number, number, batch) for number in fresh])
        known.setdefault(batch, set()).update(fresh)
    expected = {batch: len(own & set(asked)) for batch, own in known.items() if own & set(asked)}
    assert stretches.counts(array(asked)) == expected


@given(steps=STEPS, ranges=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 20))))
def test_ranges_touch_a_stretch_or_lie_wholly_in_one(
    steps: list[tuple[int, int, bytes]], ranges: list[tuple[int, int]]
) -> None:
    stretches = laid(steps)
    own = [(first, last) for first, last, batch in stretches if batch == A]
    first, last = array([low for low, _ in ranges]), array([low + more for low, more in ranges])
    touched, whole = chained(stretches).of(A).touching(first, last)
    for index, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        assert touched[index] == any(low <= end and high >= begin for begin, end in own)
        assert whole[index] == any(begin <= low and high <= end for begin, end in own)


def test_the_latest_stretch_is_extended_whatever_lies_before_it() -> None:
    items = chained([BoundStretch(number, number, A) for number in range(1, 100, 2)])
    assert items.latest == BoundStretch(99, 99, A)
    assert items.extended(120).latest == BoundStretch(99, 120, A)
    assert items.extended(120).counts(array([98, 99, 119, 120, 121])) == {A: 3}
    assert items.counts(array([99, 119])) == {A: 1}


def test_many_stretches_lie_in_few_arrays() -> None:
    items = chained([BoundStretch(number, number, A) for number in range(1, 5_000)])
    assert len(items) == 4_999
    assert len(items.levels) < 20


@given(steps=STEPS, more=STEPS)
def test_what_is_loaded_is_what_was_stored(
    steps: list[tuple[int, int, bytes]], more: list[tuple[int, int, bytes]]
) -> None:
    items, duplicates = laid(steps), laid(more)
    rows = {binding_key(s.first, BindingRole.ITEM, s.batch): number_key(s.last) for s in items}
    rows |= {binding_key(s.first, BindingRole.DUPLICATE, s.batch): number_key(s.last) for s in duplicates}
    loaded = load_bindings(sorted(rows.items()))
    asked = array(list(range(1, 500)))
    kept = Bindings(chained(items), Stretches().with_more(duplicates))
    assert sorted(loaded.shares(asked)) == sorted(kept.shares(asked))
    assert loaded.items.latest == items[-1]
    assert sorted(key for batch in (A, B, C) for key in loaded.keys(batch)) == sorted(rows)
    assert not loaded.without(A).without(B).without(C)


def test_nothing_stored_binds_nothing() -> None:
    assert load_bindings([]) is NOTHING_BOUND
    assert not NOTHING_BOUND
    assert NOTHING_BOUND.shares(array([1, 2])) == ()


@pytest.mark.parametrize(("key", "value"), [(b"short", number_key(1)), (binding_key(1, BindingRole.ITEM, A), b"")])
def test_a_row_of_another_form_is_damage(key: bytes, value: bytes) -> None:
    with pytest.raises(DataDamaged, match="restante doctor"):
        load_bindings([(key, value)])
