"""Pieces of what a caller stages, of about a parcel each: columns by their offsets, without a look at each message.

A reader of batches, or an iterator of messages, is cut as it is read: no more is in memory than a piece, and the batch that
it ends in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.client.publishing.early_checks import refuse_faulty, size_of_message
from restante.client.publishing.sendable import messages_of_one, sendable
from restante.errors import InvalidRequest
from restante.limits import PARCEL_BYTES_DEFAULT
from restante.model.columns.arrow import Column, numbers_of
from restante.model.columns.arrow_checks import check_sound
from restante.model.publishing.intake_arrow import as_table
from restante.model.publishing.message import Message

Piece: TypeAlias = list[Message] | pa.Table

_ROW_BYTES = 32
"""The bytes that the columns of fixed width take of a message, about."""
_INDEX_BYTES = 4
_NO_MESSAGES = (str, bytes, bytearray)
"""Types that can be gone over, and are yet not many messages."""
_DISTINCT_MAX = 4_096
"""A dictionary with more is spelt out before it is cut, for each piece takes the whole of it along."""


@dataclass(frozen=True, slots=True)
class CutPieces:
    """Pieces that have been cut already."""

    pieces: Iterator[Piece]


def pieces_of(sent: object, *, size: int = PARCEL_BYTES_DEFAULT) -> Iterator[Piece]:
    """Cut columns into pieces: at least one, which may be empty; each of about so many bytes at most, unless a message is larger."""
    if isinstance(sent, CutPieces):
        return sent.pieces
    sent = sendable(sent)
    if isinstance(sent, Message):
        return _cut_messages((sent,), size)
    if isinstance(sent, pa.Table | pa.RecordBatch):
        table = as_table(sent)
        check_sound(table)
        return _cut(table, size)
    if isinstance(sent, pa.RecordBatchReader):
        return _cut_batches(sent, size)
    if hasattr(sent, "__arrow_c_stream__"):
        return _cut_batches(pa.RecordBatchReader.from_stream(sent), size)
    if isinstance(sent, _NO_MESSAGES) or not isinstance(sent, Iterable):
        raise _no_messages(sent)
    return _cut_messages(sent, size)


def piece_of(sent: object) -> Piece:
    """The whole of what is sent as one piece."""
    sent = sendable(sent)
    if isinstance(sent, Message):
        return list(messages_of_one(sent))
    if isinstance(sent, _NO_MESSAGES):
        raise _no_messages(sent)
    if not isinstance(sent, Iterable) or hasattr(sent, "__arrow_c_stream__"):
        return as_table(sent)
    return [own for place, given in enumerate(sent) for own in messages_of_one(given, place)]


def _no_messages(sent: object) -> InvalidRequest:
    return InvalidRequest(
        "Send a Message, a dict of its fields, any number of them, or Arrow columns (a table, a reader, a frame), not "
        f"{type(sent).__name__}."
    )


def _cut_messages(sent: Iterable[object], size: int) -> Iterator[Piece]:
    piece: list[Message] = []
    room, pieces = size, 0
    for message in (own for place, given in enumerate(sent) for own in messages_of_one(given, place)):
        own = _size_of(message)
        if own > room and piece:
            yield piece
            piece, room, pieces = [], size, pieces + 1
        piece.append(message)
        room -= own
    if piece or not pieces:
        yield piece


def _size_of(message: Message) -> int:
    try:
        return size_of_message(message)
    except InvalidRequest:
        refuse_faulty([message])
        raise


def _cut_batches(reader: pa.RecordBatchReader, size: int) -> Iterator[Piece]:
    """Batches are gathered until they make a piece."""
    gathered: list[pa.RecordBatch] = []
    length, pieces = 0, 0
    for batch in reader:
        check_sound(as_table(batch))
        gathered.append(batch)
        length += batch.nbytes
        if length >= size:
            yield from _cut(pa.Table.from_batches(gathered), size)
            gathered, length, pieces = [], 0, pieces + 1
    if gathered or not pieces:
        yield from _cut(pa.Table.from_batches(gathered, reader.schema), size)


def _cut(table: pa.Table, size: int) -> Iterator[Piece]:
    if table.nbytes + _ROW_BYTES * table.num_rows <= size:
        yield table
        return
    table = _spelt_out(table)
    ends = np.cumsum(_row_bytes(table))
    start, before = 0, 0
    while start < len(ends):
        end = max(int(np.searchsorted(ends, before + size, "right")), start + 1)
        yield table.slice(start, end - start)
        start, before = end, int(ends[end - 1])


def _spelt_out(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column: Column = table.column(place)
            if any(len(chunk.dictionary) > _DISTINCT_MAX for chunk in column.chunks):
                table = table.set_column(place, field.name, column.cast(field.type.value_type))
    return table


def _row_bytes(table: pa.Table) -> NDArray[np.int64]:
    """About how many bytes each message takes."""
    sizes = np.full(table.num_rows, _ROW_BYTES, np.int64)
    for column in table.columns:
        sizes += _column_bytes(column)
    return sizes


def _column_bytes(column: Column) -> NDArray[np.int64] | int:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _INDEX_BYTES
    if pa.types.is_map(kind):
        return np.concatenate([_map_bytes(chunk) for chunk in column.chunks])
    if pa.types.is_binary_view(kind):
        return _lengths(column.cast(pa.large_binary()))
    if pa.types.is_string_view(kind):
        return _lengths(column.cast(pa.large_string()))
    if any(test(kind) for test in (pa.types.is_large_binary, pa.types.is_binary, pa.types.is_large_string)):
        return _lengths(column)
    return _lengths(column) if pa.types.is_string(kind) else 0


def _map_bytes(chunk: Column) -> NDArray[np.int64]:
    """The bytes that all keys and values of each row take."""
    sizes = np.zeros(len(chunk.keys) + 1, np.int64)
    for part in (chunk.keys, chunk.items):
        sizes[1:] += _column_bytes(pa.chunked_array([part]))
    ends = np.cumsum(sizes)
    bounds = numbers_of(chunk.offsets)
    taken: NDArray[np.int64] = ends[bounds[1:]] - ends[bounds[:-1]]
    return taken


def _lengths(column: Column) -> NDArray[np.int64]:
    lengths: Column = pc.binary_length(column)
    return numbers_of(lengths.fill_null(0)).astype(np.int64)
