"""A record of the backplane: messages of one partition, checked and with ids, from a door to the owner of the partition.

A record begins with a mark, the door that made it, its number there, and how many messages it has; a checksum ends it. A
few messages lie in it as rows, because for a few, columns cost more; many lie in it as columns, an Arrow stream.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.limits import SEND_MESSAGES_MAX
from restante.model.columns.arrow import Column, column_of, numbers_of, words_of
from restante.model.columns.texts import Texts
from restante.model.publishing.message import MessageColumns
from restante.model.storage.changes import Buffer
from restante.model.storage.letter import Letter
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID

_HEAD = struct.Struct("<4s16sQI")
_SUM = struct.Struct("<Q")
_ROWS, _COLUMNS = b"RBr1", b"RBc1"
RECORD_BYTES_BESIDE = _HEAD.size + _SUM.size
_TEXTS = ("recipient", "origin", "kind", "document_type", "media_type")
_TEXT = pa.dictionary(pa.int32(), pa.string())
_FLAGS = BUNDLEABLE | INLINE | MADE_ID
_Row = tuple[bytes, str, str, str, str, str, int, int, bytes, bytes, int]
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(list[_Row])


@dataclass(frozen=True, slots=True)
class RecordHead:
    """Which record it is: its number among those of a door, and how many messages it has."""

    door: bytes
    number: int
    messages: int


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record with its messages, a few as letters, many as columns."""

    head: RecordHead
    content: Sequence[Letter] | MessageColumns


def encode_letters(letters: Sequence[Letter], door: bytes, number: int) -> bytes:
    """A record of a few messages, each with its id."""
    body = _encoder.encode([msgspec.structs.astuple(letter) for letter in letters])
    return _sealed(_HEAD.pack(_ROWS, door, number, len(letters)), body)


def encode_columns(columns: MessageColumns, door: bytes, number: int) -> bytes:
    """A record of many messages, each with its id."""
    sink = pa.BufferOutputStream()
    batch = _batch_of(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return _sealed(_HEAD.pack(_COLUMNS, door, number, len(columns)), sink.getvalue())


def _sealed(head: bytes, body: bytes | pa.Buffer) -> bytes:
    digest, content = xxhash.xxh3_64(head), memoryview(body)
    digest.update(content)
    return b"".join((head, content, _SUM.pack(digest.intdigest())))


def _batch_of(columns: MessageColumns) -> pa.RecordBatch:
    flags = columns.bundleable * np.uint8(BUNDLEABLE)
    flags |= columns.inline * np.uint8(INLINE)
    flags |= columns.made_id * np.uint8(MADE_ID)
    ids = pa.py_buffer(np.ascontiguousarray(columns.id).data)
    arrays: dict[str, Column] = {
        "id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(columns), [None, ids]),
        "flags": column_of(flags),
        "weight": column_of(columns.weight),
        "expires_at": column_of(columns.expires_at),
        "data": columns.data,
        "properties": columns.properties,
    }
    arrays |= {name: getattr(columns, name).to_dictionary() for name in _TEXTS}
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def decode_record(content: Buffer) -> DecodedRecord:
    """A record taken apart; `DataDamaged` if it is none."""
    try:
        return _decoded(memoryview(content))
    except (struct.error, msgspec.MsgspecError, pa.ArrowException, UnicodeDecodeError, KeyError, OSError) as error:
        raise _no_record(str(error)) from error


def _decoded(content: memoryview) -> DecodedRecord:
    if len(content) < RECORD_BYTES_BESIDE:
        raise _no_record(f"it has {len(content)} bytes")
    mark, door, number, messages = _HEAD.unpack_from(content)
    if mark not in (_ROWS, _COLUMNS):
        raise _no_record("it does not begin like one")
    body = content[_HEAD.size : -_SUM.size]
    if _SUM.unpack_from(content, len(content) - _SUM.size)[0] != xxhash.xxh3_64_intdigest(content[: -_SUM.size]):
        raise _no_record("its checksum is wrong")
    found = _letters(body) if mark == _ROWS else _columns(body)
    if len(found) != messages or not 0 < messages <= SEND_MESSAGES_MAX:
        raise _no_record(f"it has {len(found)} messages, not {messages}")
    return DecodedRecord(RecordHead(door, number, messages), found)


def _letters(body: memoryview) -> list[Letter]:
    letters = [Letter(*row) for row in _decoder.decode(body)]
    if not all(len(letter.id) == 16 for letter in letters):
        raise _no_record("a message has no id")
    return letters


def _columns(body: memoryview) -> MessageColumns:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        batch = reader.read_next_batch()
    if any(column.null_count for column in batch.columns):
        raise _no_record("a field is missing")
    flags = numbers_of(batch["flags"])
    data: Column = batch["data"]
    properties: Column = batch["properties"]
    return MessageColumns(
        id=words_of(batch["id"]),
        made_id=(flags & MADE_ID) > 0,
        recipient=_own_texts(batch["recipient"]),
        origin=_own_texts(batch["origin"]),
        kind=_own_texts(batch["kind"]),
        document_type=_own_texts(batch["document_type"]),
        media_type=_own_texts(batch["media_type"]),
        weight=numbers_of(batch["weight"]),
        bundleable=(flags & BUNDLEABLE) > 0,
        inline=(flags & INLINE) > 0,
        data=data,
        properties=properties,
        expires_at=numbers_of(batch["expires_at"]),
    )


def _own_texts(array: Column) -> Texts:
    """The texts as a door wrote them. Every value is used, and none is there twice, so they need no new encoding."""
    if array.type != _TEXT:
        raise _no_record(f"a text is {array.type}")
    codes, values = numbers_of(array.indices), array.dictionary
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise _no_record("a text is missing")
    return Texts(codes, values)


def letter_columns(letters: Sequence[Letter]) -> MessageColumns:
    """Letters that have ids, as columns."""
    flags = np.array([letter.flags & _FLAGS for letter in letters], np.uint8)
    return MessageColumns(
        id=np.frombuffer(b"".join([letter.id for letter in letters]), np.uint64).reshape(-1, 2),
        made_id=(flags & MADE_ID) > 0,
        recipient=_texts([letter.recipient for letter in letters]),
        origin=_texts([letter.origin for letter in letters]),
        kind=_texts([letter.kind for letter in letters]),
        document_type=_texts([letter.document_type for letter in letters]),
        media_type=_texts([letter.media_type for letter in letters]),
        weight=np.array([letter.weight for letter in letters], np.int32),
        bundleable=(flags & BUNDLEABLE) > 0,
        inline=(flags & INLINE) > 0,
        data=pa.array([letter.data for letter in letters], pa.large_binary()),
        properties=pa.array([letter.properties for letter in letters], pa.binary()),
        expires_at=np.array([letter.expires_at for letter in letters], np.int64),
    )


def _texts(values: list[str]) -> Texts:
    return Texts.encode(pa.array(values, pa.string()))


def _no_record(reason: str) -> DataDamaged:
    return DataDamaged(f"This is no record of a backplane: {reason}.")
