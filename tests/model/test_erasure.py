"""Erased identities against a plain set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante.model.columns.hashing import mix
from restante.model.removal.erasure import Erased, ErasedRow, decode_erased, digests, encode_erased, second_hash

few = st.integers(0, 3)
pairs = st.tuples(few, few)


def column(values: list[tuple[int, int]]) -> NDArray[np.uint64]:
    return np.array(values, np.uint64).reshape(-1, 2)


@given(st.lists(st.lists(pairs, max_size=4), max_size=4), st.lists(pairs, max_size=4), st.lists(pairs, max_size=12))
def test_what_was_erased_is_found_and_nothing_else(
    rows: list[list[tuple[int, int]]], more: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    stored = [ErasedRow(1, column(row).tobytes()) for row in rows]
    erased = Erased.of([decode_erased(encode_erased(row)) for row in stored]).with_more(column(more))
    known = {pair for row in rows for pair in row} | set(more)
    assert erased.contains(column(asked)).tolist() == [pair in known for pair in asked]
    assert len(erased) == sum(map(len, rows)) + len(more)


@given(st.sets(st.tuples(few, few, few), max_size=30))
def test_identities_that_differ_have_digests_that_differ_in_both_halves(identities: set[tuple[int, int, int]]) -> None:
    listed = np.array(sorted(identities), np.uint64).reshape(-1, 3)
    made = digests(listed[:, 0], mix(listed[:, 0]), np.ascontiguousarray(listed[:, 1:]))
    assert len(set(made[:, 0].tolist())) == len(identities)
    assert len(set(made[:, 1].tolist())) == len(identities)


def test_nothing_is_erased_at_first() -> None:
    assert not Erased().contains(column([(1, 2)])).any()


def test_the_second_half_tells_apart_whose_first_hash_collides() -> None:
    ids, alike = column([(1, 2), (1, 2)]), np.full(2, 7, np.uint64)
    second = np.array([second_hash("ada", 5), second_hash("ben", 5)], np.uint64)
    known, other = digests(alike, second, ids)
    assert Erased(known.reshape(1, 2)).contains(np.stack([known, other])).tolist() == [True, False]
    assert second_hash("ada", 5) != second_hash("ada", 6)
