"""Ids that are texts: kept beside the UUIDs that stand for them, in front of the stored properties.

A message is stored under 16 bytes. For an id that is no UUID these are its UUIDv5 in the URL namespace, and the text
itself lies before the message's properties: two bytes with its length, the high one first, the text, then the JSON
object of the properties, or nothing. An object begins with a brace. The text is too short for its length to begin with
one, so the first byte shows whether there is a text. A flag of the record says it too, for readers that read no properties.
No name of a property is reserved for it, and data of before has no texts.
"""

from __future__ import annotations

import re
from hashlib import sha1
from uuid import NAMESPACE_URL

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.limits import ID_BYTES_MAX, ID_CHARACTERS_MAX
from restante.model.columns.arrays import Words
from restante.model.columns.arrow import (
    Column,
    binaries,
    column_of,
    content_of,
    numbers_of,
    offsets_of,
    strings_of,
    texts_of,
)
from restante.model.columns.uuids import uuid_column
from restante.model.names import name_problem

_BRACE = ord("{")
_LENGTH = 2
_NOTHING = pa.scalar(b"", pa.binary())
_uuid = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
assert ID_BYTES_MAX >> 8 < _BRACE, "the length of a text is no brace"


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID of 36 characters, in any case."""
    return _uuid.fullmatch(text) is not None


def is_id(text: str) -> bool:
    """Whether a text can be an id: a UUID, or another text that can stand in a URL."""
    return 0 < len(text) <= ID_CHARACTERS_MAX and not text.isspace() and name_problem(text) is None


def shown_id(text: str) -> str:
    """An id as the hub shows it: UUIDs in lower case, other texts as they are."""
    return text.lower() if is_uuid(text) else text


def id_bytes(text: str) -> bytes:
    """The 16 bytes that a message with this id is stored under."""
    return bytes.fromhex(text.replace("-", "")) if is_uuid(text) else uuid_of_text(text)


def uuid_of_text(text: str) -> bytes:
    """The UUIDv5 of a text in the URL namespace. `uuid.uuid5` gives the same in three times the time."""
    digest = bytearray(sha1(NAMESPACE_URL.bytes + text.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def words_of_texts(texts: pa.StringArray) -> Words:
    """The words that stand for a column of texts. Each is a digest of its own, so they are made one by one."""
    made = b"".join(map(uuid_of_text, strings_of(texts)))
    return np.frombuffer(made, np.uint64).reshape(-1, 2)


def packed(text: str, properties: bytes) -> bytes:
    """The stored properties of a message whose id is a text."""
    content = text.encode()
    return len(content).to_bytes(_LENGTH, "big") + content + properties


def unpacked(stored: bytes) -> tuple[str | None, bytes]:
    """The text, if there is one, and the properties alone."""
    if not stored or stored[0] == _BRACE:
        return None, stored
    end = _LENGTH + int.from_bytes(stored[:_LENGTH], "big")
    return stored[_LENGTH:end].decode(), stored[end:]


def pack(texts: Column | None, properties: pa.BinaryArray) -> pa.BinaryArray:
    """The stored properties of messages, of which those have a text that are not null in the column."""
    if texts is None:
        return properties
    given = numbers_of(texts.is_valid())
    content: Column = texts.fill_null("").view(pa.binary())
    lengths = np.diff(offsets_of(content)).astype(">u2")
    ends = np.concatenate(([0], np.cumsum(given * _LENGTH))).astype(np.int32)
    heads = binaries(ends, lengths[given].tobytes())
    join: Column = pc.binary_join_element_wise
    joined: pa.BinaryArray = join(heads, content, properties, _NOTHING)
    return joined


def has_text(stored: Column) -> NDArray[np.bool_]:
    """Which of these stored properties have a text before them."""
    ends = offsets_of(stored)
    filled: NDArray[np.bool_] = ends[1:] > ends[:-1]
    if filled.any():
        content = np.frombuffer(content_of(stored), np.uint8)
        filled[filled] = content[ends[:-1][filled]] != _BRACE
    return filled


def split(stored: Column) -> tuple[Column | None, Column]:
    """The texts, null where there is none (None: nowhere is one), and the properties alone."""
    given = has_text(stored)
    if not given.any():
        return None, stored
    ends: NDArray[np.int64] = offsets_of(stored).astype(np.int64)
    content = np.frombuffer(content_of(stored), np.uint8)
    # Seen as three rows each: its length, the text, the object. They lie one after another, so nothing is copied yet.
    borders = np.repeat(ends[:-1], 3).reshape(-1, 3)
    heads = ends[:-1][given]
    borders[given, 1] += _LENGTH
    borders[given, 2] += _LENGTH + (content[heads].astype(np.int64) << 8) + content[heads + 1]
    parts = binaries(np.append(borders.reshape(-1), ends[-1]).astype(np.int32), content_of(stored))
    places = np.arange(len(given), dtype=np.int64) * 3
    texts = parts.take(pa.array(places + 1, mask=~given))
    return texts_of(texts), parts.take(column_of(places + 2))


def shown_ids(words: Words, texts: Column | None) -> Column:
    """Each id as it is shown: the text where there is one, else the UUID."""
    uuids = uuid_column(words)
    return uuids if texts is None or texts.null_count == len(texts) else pc.coalesce(texts, uuids)


def id_texts(words: Words, stored: Column) -> list[str]:
    """The ids as texts, one value a message, for messages whose stored properties are given."""
    return strings_of(shown_ids(words, split(stored)[0])) if len(words) else []
