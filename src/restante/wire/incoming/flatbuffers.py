"""Just enough of Arrow's message format to see how large a batch becomes when it is unpacked.

A table in a flatbuffer begins with the distance back to its directory, which says where each field lies from the
table's start, 0 for a field that is not there. Arrow has verified the buffer before it comes here; whatever lies
outside all the same is an error of `struct`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
_DICTIONARY_ID, _DICTIONARY_DATA, _DICTIONARY_IS_DELTA = 0, 1, 2
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_IS_DICTIONARY = 2
_BUFFER_BYTES = 16
_UNPACKED_PREFIX_BYTES = 8
_NOT_COMPRESSED = -1


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The sizes of a record batch or a dictionary batch."""

    rows: int
    unpacked: int
    """Bytes of all its buffers, after they have been unpacked. Several may lie in the same bytes: Arrow may copy each."""
    dictionary: int | None = None
    """The dictionary that a dictionary batch belongs to."""
    is_delta: bool = False
    """Whether the batch is added to what its dictionary has already."""


def batch_size(metadata: memoryview, body: memoryview) -> BatchSize:
    message = _number("<I", metadata, 0)
    header_type = _number("<B", metadata, _required(metadata, message, _MESSAGE_HEADER_TYPE))
    batch = _table(metadata, message, _MESSAGE_HEADER)
    if header_type != _IS_DICTIONARY:
        return BatchSize(*_rows_and_bytes(metadata, batch, body))
    number = _optional("<q", metadata, batch, _DICTIONARY_ID)
    is_delta = _optional("<B", metadata, batch, _DICTIONARY_IS_DELTA) != 0
    return BatchSize(*_rows_and_bytes(metadata, _table(metadata, batch, _DICTIONARY_DATA), body), number, is_delta)


def _rows_and_bytes(metadata: memoryview, batch: int, body: memoryview) -> tuple[int, int]:
    rows = _optional("<q", metadata, batch, _BATCH_LENGTH)
    if rows < 0:
        raise ValueError(f"a batch of {rows} rows")
    compressed = _field(metadata, batch, _BATCH_COMPRESSION) != 0
    place = _table(metadata, batch, _BATCH_BUFFERS)
    total = 0
    for index in range(_number("<I", metadata, place)):
        start, length = struct.unpack_from("<qq", metadata, place + 4 + index * _BUFFER_BYTES)
        if length < 0:
            raise ValueError(f"a buffer of {length} bytes")
        total += _unpacked(body, start, length) if compressed and length else length
    return rows, total


def _unpacked(body: memoryview, start: int, length: int) -> int:
    """A compressed buffer begins with its size; -1 says that it was left as it is."""
    size = _number("<q", body, start)
    if size < _NOT_COMPRESSED:
        raise ValueError(f"a buffer that unpacks to {size} bytes")
    return length - _UNPACKED_PREFIX_BYTES if size == _NOT_COMPRESSED else size


def _number(kind: str, content: memoryview, place: int) -> int:
    # A negative place would count from the end.
    if place < 0:
        raise ValueError("an offset that points outside")
    number: int = struct.unpack_from(kind, content, place)[0]
    return number


def _field(content: memoryview, table: int, number: int) -> int:
    """Where a field of a table lies, 0 if it is not there."""
    directory = table - _number("<i", content, table)
    entry = 4 + 2 * number
    if entry >= _number("<H", content, directory):
        return 0
    offset = _number("<H", content, directory + entry)
    return table + offset if offset else 0


def _optional(kind: str, content: memoryview, table: int, number: int) -> int:
    """The number in a field of a table, 0 if it is not there."""
    place = _field(content, table, number)
    return _number(kind, content, place) if place else 0


def _required(content: memoryview, table: int, number: int) -> int:
    place = _field(content, table, number)
    if place == 0:
        raise ValueError("a batch without what it needs")
    return place


def _table(content: memoryview, table: int, number: int) -> int:
    """Where the table or vector lies that a field points to."""
    place = _required(content, table, number)
    return place + _number("<I", content, place)
