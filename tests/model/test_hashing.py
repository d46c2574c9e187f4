"""Keyed hashes: of a column the same as of each text alone, and of everything in the text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.columns.hashing import combine, combine_one, fingerprint, fingerprints, mix, text_hash, text_hashes
from tests.model.strategies import unhurried

KEY = 0x0123_4567_89AB_CDEF

any_texts = st.lists(st.text(max_size=40), max_size=20)
words = st.integers(0, 2**64 - 1)


@given(any_texts, words)
@unhurried
def test_a_column_hashes_as_each_of_its_texts_does(texts: list[str], key: int) -> None:
    column = pa.array(texts, pa.string())
    assert text_hashes(column, key).tolist() == [text_hash(text, key) for text in texts]


@given(any_texts, st.data())
@unhurried
def test_a_slice_of_a_column_hashes_as_its_own_texts(texts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts)))
    part = pa.array(texts, pa.string()).slice(start)
    assert text_hashes(part, KEY).tolist() == [text_hash(text, KEY) for text in texts[start:]]


@given(st.sets(st.text(max_size=20), max_size=50))
@unhurried
def test_texts_that_differ_hash_differently(texts: set[str]) -> None:
    hashes = text_hashes(pa.array(sorted(texts), pa.string()), KEY)
    assert len(set(hashes.tolist())) == len(texts)


@pytest.mark.parametrize(
    "pair", [("a", "a\0"), ("", "\0"), ("\0" * 8, "\0" * 9), ("abcdefgh", "abcdefgh\0"), ("ä", "a")]
)
def test_what_pads_a_text_is_not_part_of_it(pair: tuple[str, str]) -> None:
    assert text_hash(pair[0], KEY) != text_hash(pair[1], KEY)


@given(st.text(max_size=20), words, words)
@unhurried
def test_the_key_decides_the_hash(text: str, key: int, other: int) -> None:
    assert (text_hash(text, key) == text_hash(text, other)) == (key == other)


def test_a_column_longer_than_one_stretch_is_hashed_whole() -> None:
    texts = [f"recipient {number}" for number in range(40_000)]
    hashes = text_hashes(pa.array(texts, pa.string()), KEY)
    assert len(set(hashes.tolist())) == len(texts)
    for number in (0, 16_383, 16_384, 32_768, 39_999):
        assert int(hashes[number]) == text_hash(texts[number], KEY)


@given(st.lists(words, min_size=1, unique=True, max_size=50))
def test_mixing_keeps_values_apart(values: list[int]) -> None:
    assert len(set(mix(np.array(values, np.uint64)).tolist())) == len(values)


@given(words, words)
def test_combining_minds_the_order(one: int, other: int) -> None:
    first, second = np.array([one], np.uint64), np.array([other], np.uint64)
    assert bool((combine(first, second) == combine(second, first)).all()) == (one == other)


@given(words, st.tuples(words, words))
def test_a_fingerprint_minds_recipient_and_both_halves_of_the_id(recipient: int, halves: tuple[int, int]) -> None:
    hashes = np.array([recipient, recipient ^ 1, recipient, recipient], np.uint64)
    low, high = halves
    ids = np.array([[low, high], [low, high], [low ^ 1, high], [low, high ^ 1]], np.uint64)
    assert len(set(fingerprints(hashes, ids).tolist())) == 4


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=20))
@unhurried
def test_one_row_is_combined_and_identified_as_a_column_is(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, np.uint64)
    assert combine(columns[:, 0], columns[:, 1]).tolist() == [combine_one(one, other) for one, other, _ in rows]
    assert fingerprints(columns[:, 0], columns[:, 1:]).tolist() == [fingerprint(*row) for row in rows]
