"""The digests of a parcel: 128 bits of all that its sender said, which distinguish a repetition from other messages.

They are taken of the messages as the rules have made them, so they are the same for JSON and for Arrow, for the short
way and for the long one. Texts enter by their keyed hashes, everything else as it is: one column after another, then the
bytes of properties and of data, whose lengths are among the columns. That is the content; a second digest is of it and
of the ids, without those that the hub made. A repetition has the same ids, unless its sender says that it has made the
messages again, after a crash say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from restante.limits import ADDRESSES_REMEMBERED_MAX
from restante.model.columns.arrow import Column, bytes_of, offsets_of
from restante.model.columns.hashing import Hashes, text_hash, text_hashes
from restante.model.columns.text_ids import split, unpacked
from restante.model.columns.texts import Texts
from restante.model.publishing.message import MessageColumns
from restante.model.storage.letter import Letter
from restante.model.storage.rows import BUNDLEABLE, INLINE, TEXT_ID

_COLUMNS = 10
_NO_ID = bytes(16)
_ROW = struct.Struct(f"<{_COLUMNS}Q")
_BITS = 2**64 - 1
_BUNDLEABLE, _INLINE = np.uint8(BUNDLEABLE), np.uint8(INLINE)
_hash_of = lru_cache(ADDRESSES_REMEMBERED_MAX)(text_hash)


class Digests(NamedTuple):
    """Two digests of a parcel: of what its messages say, and of that with their ids."""

    content: bytes
    whole: bytes


def digests_of_columns(columns: MessageColumns, key: int) -> Digests:
    """The digests of many messages, before ids were made for those that have none."""
    digest = xxhash.xxh3_128(seed=key)
    _, properties = split(columns.properties)
    for column in _columns(columns, properties, key):
        digest.update(np.ascontiguousarray(column, "<u8").data)
    digest.update(bytes_of(properties).data)
    digest.update(bytes_of(columns.data).data)
    made = columns.made_id
    ids = np.where(made[:, None], np.uint64(0), columns.id) if made.any() else columns.id
    return _with_ids(digest.digest(), ids.tobytes(), made.tobytes(), key)


def of_batch(digests: Digests, batch: bytes | None) -> Digests:
    """The digests of messages that are published under a batch: under another batch, or none, the parcel is another one."""
    if batch is None:
        return digests
    return Digests(*(xxhash.xxh3_128_digest(digest + batch) for digest in digests))


def _with_ids(content: bytes, ids: bytes, made: bytes, key: int) -> Digests:
    return Digests(content, xxhash.xxh3_128_digest(b"".join((content, made, ids)), seed=key))


def _columns(columns: MessageColumns, properties: Column, key: int) -> Iterable[NDArray[np.generic]]:
    """Each is good until the next is asked for: most are made in one place, as fresh memory costs more than they do."""
    place = np.empty(len(columns), np.uint64)
    yield _hashes(columns.recipient, key, place)
    for texts in (columns.origin, columns.kind, columns.document_type, columns.media_type):
        yield _hashes(texts, key, place)
    yield columns.expires_at.view(np.uint64)
    yield columns.weight
    yield _lengths(columns.data, place)
    yield _lengths(properties, place)
    yield columns.bundleable * _BUNDLEABLE + columns.inline * _INLINE


def _hashes(texts: Texts, key: int, place: Hashes) -> Hashes:
    if len(texts.values) == 1:
        place.fill(_hash_of(str(texts.values[0]), key))
    else:
        # Codes are never out of bounds; to have that looked at would take a second place.
        text_hashes(texts.values, key).take(texts.codes, out=place, mode="clip")
    return place


def _lengths(column: Column, place: Hashes) -> Hashes:
    offsets = offsets_of(column)
    np.subtract(offsets[1:], offsets[:-1], out=place, casting="unsafe")
    return place


def digests_of_letters(letters: Sequence[Letter], key: int) -> Digests:
    """The digests of a few messages: the same, without columns."""
    if len(letters) == 1:
        (letter,) = letters
        said_of_itself = _ROW.pack(*_row(letter, key)) + _properties(letter) + letter.data
        content = xxhash.xxh3_128_digest(said_of_itself, seed=key)
        return _with_ids(content, letter.id or _NO_ID, b"\0" if letter.id else b"\1", key)
    words = chain.from_iterable(zip(*(_row(letter, key) for letter in letters), strict=True))
    said = [struct.pack(f"<{_COLUMNS * len(letters)}Q", *words)]
    said += [_properties(letter) for letter in letters]
    said += [letter.data for letter in letters]
    ids = b"".join([letter.id or _NO_ID for letter in letters])
    made = bytes([not letter.id for letter in letters])
    return _with_ids(xxhash.xxh3_128_digest(b"".join(said), seed=key), ids, made, key)


def _row(letter: Letter, key: int) -> tuple[int, ...]:
    return (
        _hash_of(letter.recipient, key),
        _hash_of(letter.origin, key),
        _hash_of(letter.kind, key),
        _hash_of(letter.document_type, key),
        _hash_of(letter.media_type, key),
        letter.expires_at & _BITS,
        letter.weight,
        len(letter.data),
        len(_properties(letter)),
        letter.flags & (BUNDLEABLE | INLINE),
    )


def _properties(letter: Letter) -> bytes:
    """The digest of the properties alone: an id is none of them."""
    return unpacked(letter.properties)[1] if letter.flags & TEXT_ID else letter.properties
