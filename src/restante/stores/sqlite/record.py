"""One commit as bytes of the log: a mark, its number, its length, what it does, and a checksum over all of that.

The mark is eight random bytes of the database's own. So a record of another database is none here, and nobody who
sends messages can put a record into one of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_digest

MARK_BYTES = 8
_HEAD = struct.Struct(f"<{MARK_BYTES}sQI")
_CHECKSUM_BYTES = 8

EntryRow = tuple[tuple[int, int, bytes], bytes | None]
"""Partition, space and key; the value, or None if it is deleted."""
BlobRow = tuple[int, int | None, int, int, bytes | None]
"""Row id; file and start there, or none and 0; length; the bytes themselves if they are in no file."""


class Deeds(NamedTuple):
    """What a commit does. Blobs are written before others are dropped."""

    entries: Sequence[EntryRow] = ()
    blobs: Sequence[BlobRow] = ()
    dropped: Sequence[int] = ()


class Record(NamedTuple):
    sequence: int
    payload: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[list[EntryRow], list[BlobRow], list[int]])


def encode(deeds: Deeds, *, sequence: int, mark: bytes) -> bytes:
    payload = _encoder.encode(deeds)
    content = _HEAD.pack(mark, sequence, len(payload)) + payload
    return content + xxh3_64_digest(content)


def decode(record: Record) -> Deeds:
    return Deeds(*_decoder.decode(record.payload))


def whole_records(content: bytes, mark: bytes) -> Iterator[Record]:
    """All records that are whole, wherever they lie, whatever lies between them."""
    at = content.find(mark)
    while at >= 0:
        record = _record_at(content, at)
        if record is not None:
            yield record
            at += _HEAD.size + len(record.payload) + _CHECKSUM_BYTES
        else:
            at += 1
        at = content.find(mark, at)


def _record_at(content: bytes, at: int) -> Record | None:
    start = at + _HEAD.size
    if start > len(content):
        return None
    _, sequence, length = _HEAD.unpack_from(content, at)
    end = start + length
    # A checksum that is cut short is unlike any.
    if content[end : end + _CHECKSUM_BYTES] != xxh3_64_digest(memoryview(content)[at:end]):
        return None
    return Record(sequence, content[start:end])
