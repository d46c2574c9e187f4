"""The digest of a parcel: 128 bits of all that its sender said, by which a repetition is told from other messages.

It is taken of the messages as the rules have made them, so it is the same for JSON and for Arrow, for the short way
and for the long one; ids that the hub made are left out. Texts enter by their keyed hashes, everything else as it is:
one column after another, then the bytes of properties and of data, whose lengths are among the columns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import xxhash
from numpy.typing import NDArray

from restante.limits import ADDRESSES_REMEMBERED_MAX
from restante.model.arrow import Column, bytes_of, offsets_of
from restante.model.hashing import Hashes, text_hash, text_hashes
from restante.model.letter import Letter
from restante.model.message import MessageColumns, Texts
from restante.model.rows import BUNDLEABLE, INLINE, MADE_ID

_WORDS = struct.Struct("<2Q")
_COLUMNS = 12
_ROW = struct.Struct(f"<{_COLUMNS}Q")
_BITS = 2**64 - 1
_hash_of = lru_cache(ADDRESSES_REMEMBERED_MAX)(text_hash)


def digest_of_columns(columns: MessageColumns, key: int) -> bytes:
    """Of many messages, before ids were made for those that have none."""
    digest = xxhash.xxh3_128(seed=key)
    for column in _columns(columns, key):
        digest.update(np.ascontiguousarray(column, "<u8").data)
    digest.update(bytes_of(columns.properties).data)
    digest.update(bytes_of(columns.data).data)
    return digest.digest()


def _columns(columns: MessageColumns, key: int) -> Iterable[NDArray[np.generic]]:
    yield _hashes(columns.recipient, key)
    given = ~columns.made_id
    yield columns.id[:, 0] * given
    yield columns.id[:, 1] * given
    for texts in (columns.origin, columns.kind, columns.document_type, columns.media_type):
        yield _hashes(texts, key)
    yield columns.expires_at.view(np.uint64)
    yield columns.weight
    yield _lengths(columns.data)
    yield _lengths(columns.properties)
    yield columns.bundleable * BUNDLEABLE + columns.inline * INLINE + columns.made_id * MADE_ID


def _hashes(texts: Texts, key: int) -> Hashes:
    return text_hashes(texts.values, key).take(texts.codes)


def _lengths(column: Column) -> NDArray[np.signedinteger]:
    return np.diff(offsets_of(column))


def digest_of_letters(letters: Sequence[Letter], key: int) -> bytes:
    """Of a few messages: the same, without columns."""
    if len(letters) == 1:
        (letter,) = letters
        return xxhash.xxh3_128_digest(_ROW.pack(*_row(letter, key)) + letter.properties + letter.data, seed=key)
    words = chain.from_iterable(zip(*(_row(letter, key) for letter in letters), strict=True))
    said = [struct.pack(f"<{_COLUMNS * len(letters)}Q", *words)]
    said += [letter.properties for letter in letters]
    said += [letter.data for letter in letters]
    return xxhash.xxh3_128_digest(b"".join(said), seed=key)


def _row(letter: Letter, key: int) -> tuple[int, ...]:
    return (
        _hash_of(letter.recipient, key),
        *(_WORDS.unpack(letter.id) if letter.id else (0, 0)),
        _hash_of(letter.origin, key),
        _hash_of(letter.kind, key),
        _hash_of(letter.document_type, key),
        _hash_of(letter.media_type, key),
        letter.expires_at & _BITS,
        letter.weight,
        len(letter.data),
        len(letter.properties),
        letter.flags,
    )
