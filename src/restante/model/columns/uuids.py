"""UUIDs as columns: two 64-bit words a row, whose bytes in memory are those of the UUID in network order."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns.arrays import Words
from restante.model.columns.arrow import Column, bytes_of, nulls_of, offsets_of, strings, strings_of
from restante.model.columns.texts import as_bytes
from restante.model.uuid_text import RANDOM_BYTES_PER_ID

_CHARACTERS = 36
_NIL = b"00000000-0000-0000-0000-000000000000"
_DASHES = (8, 13, 18, 23)
# Where the hexadecimal digits lie in the text, as words that NumPy copies whole, and where they go without dashes.
_NAMES = ["a", "b", "c", "d", "e", "f"]
_FORMATS = ["u8", "u4", "u4", "u4", "u8", "u4"]
_DASHED = np.dtype({"names": _NAMES, "formats": _FORMATS, "offsets": [0, 9, 14, 19, 24, 32], "itemsize": 36})
_PLAIN = np.dtype({"names": _NAMES, "formats": _FORMATS, "offsets": [0, 8, 12, 16, 20, 28], "itemsize": 32})
_IS_DIGIT = np.isin(np.arange(256), np.frombuffer(b"0123456789abcdefABCDEF", np.uint8))


def parse_uuids(texts: Column) -> tuple[Words, NDArray[np.bool_]]:
    """The UUIDs of a text column, in the 36-character form and any case, and which rows hold one; others are zero."""
    column = as_bytes(texts)
    valid = (np.diff(offsets_of(column)) == _CHARACTERS) & ~nulls_of(column)
    if not valid.all():
        column = pc.if_else(pa.array(valid), column, pa.scalar(_NIL, column.type))
    return _parse_characters(bytes_of(column).reshape(-1, _CHARACTERS), valid)


def uuid_texts(words: Words) -> list[str]:
    """The 36-character form of each row, in lower case."""
    # Arrow makes the texts of a list in half the time that slicing takes.
    return strings_of(uuid_column(words))


def uuid_column(words: Words) -> pa.StringArray:
    """UUIDs as an Arrow column."""
    digits = np.frombuffer(binascii.hexlify(words.tobytes()), _PLAIN)
    dashed = np.full((len(words), _CHARACTERS), ord("-"), np.uint8)
    pieces: NDArray[np.void] = dashed.view(_DASHED).reshape(-1)
    for name in _NAMES:
        pieces[name] = digits[name]
    ends = np.arange(0, dashed.size + 1, _CHARACTERS, dtype=np.int32)
    return strings(ends, dashed.reshape(-1).data)


def made_uuids(count: int, *, now_ms: int, random: bytes) -> Words:
    """UUIDv7s that ascend: the time, a counter of 32 bits, and 42 random bits.

    The counter starts at 22 random bits, nine places up, so that single ids made in one millisecond hold 64 random
    bits, and a million ids in one call cannot make it overflow.
    """
    assert 0 <= now_ms < 2**48
    assert len(random) >= count * RANDOM_BYTES_PER_ID
    noise: Words = np.frombuffer(random, np.uint64, count)
    counter: Words = np.arange(count, dtype=np.uint64)
    counter += (noise[:1] >> np.uint64(42)) << np.uint64(9)
    words = np.empty((count, 2), ">u8")
    words[:, 0] = np.uint64(now_ms << 16 | 0x7000) | counter >> np.uint64(20)
    low = (counter & np.uint64(2**20 - 1)) << np.uint64(42) | noise & np.uint64(2**42 - 1)
    words[:, 1] = np.uint64(1 << 63) | low
    return words.view(np.uint64)


def _parse_characters(characters: NDArray[np.uint8], valid: NDArray[np.bool_]) -> tuple[Words, NDArray[np.bool_]]:
    dashed = np.ones(len(characters), np.bool_)
    for place in _DASHES:
        dashed &= characters[:, place] == ord("-")
    plain = np.empty(len(characters), _PLAIN)
    pieces = characters.view(_DASHED).reshape(-1)
    for name in _NAMES:
        plain[name] = pieces[name]
    digits = plain.view(np.uint8).reshape(-1, 32)
    valid = valid & dashed
    try:
        unpacked = binascii.unhexlify(digits.data)
    except binascii.Error:
        valid &= _IS_DIGIT[digits].all(axis=1)
        digits[~valid] = ord("0")
        unpacked = binascii.unhexlify(digits.data)
    words = np.frombuffer(unpacked, np.uint64).reshape(-1, 2)
    if not valid.all():
        words = np.where(valid[:, None], words, np.uint64(0))
    return words, valid
