"""One commit as bytes of the log: a head, what the commit does, and a keyed checksum over both.

The head has the mark of the file's life, the commit's number, the length, and the checksum of the record before. The mark
and the key are random, made for one life of one file, and kept in the database: nobody who sends messages sees them. The
checksum (xxh3 with a secret seed) is no cryptographic one. It withstands who can choose the bytes of messages, not who
can read the database.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_digest

from restante.decoders import packed_decoder

MARK_BYTES = 8
CHECKSUM_BYTES = 8
_LIFE = struct.Struct(f"<{MARK_BYTES}sQ")
_HEAD = struct.Struct(f"<{MARK_BYTES}sQI{CHECKSUM_BYTES}s")
_FILE_HEAD = struct.Struct(f"<{MARK_BYTES}sQ")
FILE_HEAD_BYTES = _FILE_HEAD.size

EntryRow = tuple[tuple[int, int, bytes], bytes | None]
"""Partition, space and key; the value, or None if it is deleted."""
BlobRow = tuple[int, int | None, int, int, bytes | None]
"""Row id; file and start there, or none and 0; length; the bytes themselves if they are in no file."""


class Deeds(NamedTuple):
    """The changes of a commit. Blobs are written before others are dropped."""

    entries: Sequence[EntryRow] = ()
    blobs: Sequence[BlobRow] = ()
    dropped: Sequence[int] = ()


class Record(NamedTuple):
    sequence: int
    payload: bytes


class Life(NamedTuple):
    """The marks that the records of a file have in common, from the moment it is begun until it is begun anew."""

    mark: bytes
    seed: int

    @classmethod
    def new(cls) -> Life:
        return cls(*_LIFE.unpack(secrets.token_bytes(_LIFE.size)))


class FileHead(NamedTuple):
    """How a log file begins: with the mark of its database, and the number of its first commit."""

    mark: bytes
    first: int


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(tuple[list[EntryRow], list[BlobRow], list[int]])


def pack_lives(lives: Sequence[Life]) -> bytes:
    return b"".join(_LIFE.pack(*life) for life in lives)


def unpack_lives(packed: bytes) -> tuple[Life, ...]:
    return tuple(Life(*fields) for fields in _LIFE.iter_unpack(packed))


def encode_file_head(head: FileHead) -> bytes:
    return _FILE_HEAD.pack(*head)


def decode_file_head(content: bytes) -> FileHead:
    """The head of a log file. A file that is cut short is read as if zeros followed."""
    return FileHead(*_FILE_HEAD.unpack(content[:FILE_HEAD_BYTES].ljust(FILE_HEAD_BYTES, b"\0")))


def first_link(file_head: bytes, life: Life) -> bytes:
    """The link that stands for the record before in the first of a file."""
    return xxh3_64_digest(file_head, life.seed)


def encode(deeds: Deeds, *, sequence: int, before: bytes, life: Life) -> bytes:
    """The record; it ends with the checksum that the next one names as `before`."""
    payload = _encoder.encode(deeds)
    content = _HEAD.pack(life.mark, sequence, len(payload), before) + payload
    return content + xxh3_64_digest(content, life.seed)


def decode(record: Record) -> Deeds:
    return Deeds(*_decoder.decode(record.payload))


def chain(content: bytes, life: Life) -> tuple[list[Record], int]:
    """The records of a file, each of which names the one before, and where they end."""
    file_head = content[:FILE_HEAD_BYTES]
    before, at = first_link(file_head, life), FILE_HEAD_BYTES
    records: list[Record] = []
    expected = decode_file_head(file_head).first
    while (found := _record_at(content, at, life)) is not None:
        record, link = found
        if link != before or record.sequence != expected + len(records):
            break
        at += _HEAD.size + len(record.payload) + CHECKSUM_BYTES
        before = content[at - CHECKSUM_BYTES : at]
        records.append(record)
    return records, at


def unchained(content: bytes, start: int, life: Life) -> Iterator[int]:
    """The numbers of whole records that lie anywhere from `start` on. They tell of damage, and are no commits."""
    at = content.find(life.mark, start)
    while at >= 0:
        found = _record_at(content, at, life)
        if found is not None:
            yield found[0].sequence
        at = content.find(life.mark, at + 1)


def _record_at(content: bytes, at: int, life: Life) -> tuple[Record, bytes] | None:
    """The record and the link to the one before it."""
    start = at + _HEAD.size
    if start > len(content):
        return None
    mark, sequence, length, before = _HEAD.unpack_from(content, at)
    end = start + length
    # A checksum that is cut short is unlike any.
    if mark != life.mark or content[end : end + CHECKSUM_BYTES] != xxh3_64_digest(
        memoryview(content)[at:end], life.seed
    ):
        return None
    return Record(sequence, content[start:end]), before
