"""Keyed 64-bit hashes, whole columns at a time.

They only order and find things: wherever a hash says "equal", the full text is compared, so a collision costs time
and never mixes mail. The key is drawn when the data folder is created, so nobody can prepare collisions from outside.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import bytes_of, offsets_of

Hashes = NDArray[np.uint64]

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_INT, _SECOND_INT, _STEP_INT = int(_FIRST), int(_SECOND), int(_STEP)
_BITS = 2**64 - 1
_ROWS_AT_ONCE = 16_384
"""Texts are laid out as a padded matrix: at most this many rows, so that long texts cannot exhaust memory."""


def mix(values: Hashes) -> Hashes:
    """Spread every bit of each value over all others (the finaliser of splitmix64)."""
    return _mix_in_place(values.copy())


def _mix_in_place(values: Hashes) -> Hashes:
    """Columns are large, and fresh memory is dear: one scratch column serves all steps."""
    scratch = values >> np.uint64(30)
    values ^= scratch
    values *= _FIRST
    np.right_shift(values, np.uint64(27), out=scratch)
    values ^= scratch
    values *= _SECOND
    np.right_shift(values, np.uint64(31), out=scratch)
    values ^= scratch
    return values


def combine(first: Hashes, second: Hashes) -> Hashes:
    """One hash of two, in this order."""
    joined = first * _STEP
    joined ^= second
    return _mix_in_place(joined)


def text_hashes(texts: pa.StringArray, key: int) -> Hashes:
    """The keyed hash of each text."""
    hashes = np.empty(len(texts), np.uint64)
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        part = texts.slice(start, _ROWS_AT_ONCE)
        hashes[start : start + len(part)] = _hashes_of_words(*padded_bytes(part, 8), key)
    return hashes


def text_hash(text: str, key: int) -> int:
    """The hash of one text, forty times faster than as a column of one."""
    return _hash_of_words(text.encode(), key)


def fingerprint(recipient_hash: int, first: int, second: int) -> int:
    """The fingerprint of one identity, of whose id these are the two words."""
    # `combine_one` of both words, written out: every message comes by here.
    value = (recipient_hash * _STEP_INT) & _BITS ^ first
    value = (value ^ (value >> 30)) * _FIRST_INT & _BITS
    value = (value ^ (value >> 27)) * _SECOND_INT & _BITS
    value = ((value ^ (value >> 31)) * _STEP_INT) & _BITS ^ second
    value = (value ^ (value >> 30)) * _FIRST_INT & _BITS
    value = (value ^ (value >> 27)) * _SECOND_INT & _BITS
    return value ^ (value >> 31)


def combine_one(first: int, second: int) -> int:
    """The hash that `combine` makes of a row."""
    # `_mix_one`, written out: every message comes by here four times.
    value = (first * _STEP_INT) & _BITS ^ second
    value = (value ^ (value >> 30)) * _FIRST_INT & _BITS
    value = (value ^ (value >> 27)) * _SECOND_INT & _BITS
    return value ^ (value >> 31)


def fingerprints(recipient_hashes: Hashes, ids: NDArray[np.uint64]) -> Hashes:
    """64 bits of each identity (recipient, id); keyed through the recipients' hashes."""
    return combine(combine(recipient_hashes, ids[:, 0]), ids[:, 1])


def padded_bytes(texts: pa.StringArray, multiple: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of each text as a row of a matrix padded with zeros, and the lengths."""
    offsets = text_offsets(texts)
    lengths = np.diff(offsets)
    width = int(-(-max(int(lengths.max(initial=0)), 1) // multiple) * multiple)
    matrix = np.zeros((len(texts), width), np.uint8)
    matrix[np.arange(width) < lengths[:, None]] = bytes_of(texts)
    return matrix, lengths


def text_offsets(texts: pa.StringArray) -> NDArray[np.int64]:
    """Where each text begins in its buffer, and where the last one ends."""
    return offsets_of(texts).astype(np.int64)


def text_lengths(texts: pa.StringArray) -> NDArray[np.int64]:
    """The bytes of each text."""
    return np.diff(text_offsets(texts))


def _hash_of_words(content: bytes, key: int) -> int:
    value = _mix_one(key ^ (len(content) * _STEP_INT) & _BITS)
    for start in range(0, len(content), 8):
        value = combine_one(value, int.from_bytes(content[start : start + 8], "little"))
    return value


def _mix_one(value: int) -> int:
    value = (value ^ (value >> 30)) * _FIRST_INT & _BITS
    value = (value ^ (value >> 27)) * _SECOND_INT & _BITS
    return value ^ (value >> 31)


def _hashes_of_words(matrix: NDArray[np.uint8], lengths: NDArray[np.int64], key: int) -> Hashes:
    words = matrix.view(np.uint64)
    hashes = mix(np.uint64(key) ^ (lengths.astype(np.uint64) * _STEP))
    for column in range(words.shape[1]):
        hashes = np.where(lengths > 8 * column, combine(hashes, words[:, column]), hashes)
    return hashes
