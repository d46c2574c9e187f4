"""The encoding of one commit in the log: a head, the commit's changes, and a keyed checksum over both.

The head has the mark of the file's life, the commit's number, the length, and the checksum of the record before. The mark and
the key are random, made for one life of one file, and kept in the database, where senders of messages cannot see them. The
checksum (xxh3 with a secret seed) is not cryptographic: it withstands attackers that choose the bytes of messages, but not
those that can read the database.
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
"""(Partition, space, key), and the value, or None if it is deleted."""
BlobRow = tuple[int, int | None, int, int, bytes | None]
"""Row id, file and start in it (or None and 0), length, and the bytes themselves if they are in no file."""


class CommitDeeds(NamedTuple):
    """The changes of a commit. Blobs are written before others are dropped."""

    entries: Sequence[EntryRow] = ()
    blobs: Sequence[BlobRow] = ()
    dropped: Sequence[int] = ()


class Record(NamedTuple):
    sequence: int
    payload: bytes


class Life(NamedTuple):
    """The mark and the key of a file's records, from the time it is begun until it is begun again."""

    mark: bytes
    seed: int

    @classmethod
    def new(cls) -> Life:
        return cls(*_LIFE.unpack(secrets.token_bytes(_LIFE.size)))


class FileHead(NamedTuple):
    """The head of a log file: the mark of its database, and the number of its first commit."""

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
    """Decode the head of a log file. A shorter file is read as if zeros followed."""
    return FileHead(*_FILE_HEAD.unpack(content[:FILE_HEAD_BYTES].ljust(FILE_HEAD_BYTES, b"\0")))


def first_link(file_head: bytes, life: Life) -> bytes:
    """The link in the first record of a file, in place of the checksum of a record before."""
    return xxh3_64_digest(file_head, life.seed)


def encode(deeds: CommitDeeds, *, sequence: int, before: bytes, life: Life) -> bytes:
    """Encode a record. It ends with its checksum, which the next one names as `before`."""
    payload = _encoder.encode(deeds)
    content = _HEAD.pack(life.mark, sequence, len(payload), before) + payload
    return content + xxh3_64_digest(content, life.seed)


def decode(record: Record) -> CommitDeeds:
    return CommitDeeds(*_decoder.decode(record.payload))


def chain(content: bytes, life: Life) -> tuple[list[Record], int]:
    """The records of a file that form a chain from its head, and the offset where they end."""
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
    """The numbers of whole records anywhere from `start` on, outside the chain. They are a sign of damage."""
    at = content.find(life.mark, start)
    while at >= 0:
        found = _record_at(content, at, life)
        if found is not None:
            yield found[0].sequence
        at = content.find(life.mark, at + 1)


def _record_at(content: bytes, at: int, life: Life) -> tuple[Record, bytes] | None:
    """The record at an offset, and its link to the record before; None if there is no whole record."""
    start = at + _HEAD.size
    if start > len(content):
        return None
    mark, sequence, length, before = _HEAD.unpack_from(content, at)
    end = start + length
    # A truncated checksum never matches.
    if mark != life.mark or content[end : end + CHECKSUM_BYTES] != xxh3_64_digest(
        memoryview(content)[at:end], life.seed
    ):
        return None
    return Record(sequence, content[start:end]), before
