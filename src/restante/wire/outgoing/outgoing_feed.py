"""Pages of the feed as JSON, piece by piece: changes, and the messages of a snapshot.

Tables follow `FEED_SCHEMA` and `MESSAGE_SCHEMA`, or have some of their columns. Nulls are left out, but a message of a
snapshot has properties even if there are none, as everywhere. The sequence number stands first, because every row has one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, nulls_of, numbers_of, string_array
from restante.wire.outgoing.json_columns import (
    FieldWriter,
    column,
    data_writer,
    first_number_writer,
    id_writer,
    number_writer,
    properties_writer,
    row_bytes,
    row_lines,
    rows_json,
    same,
    sparse,
    text_writer,
    time_writer,
    uuid_writer,
)

_FIRST = "sequence_number"
_BESIDE = {"data": "media_type", "id": "text_id"}
"""Columns that are needed to write others."""


def needed_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that it takes to write these: its media type says how data is shown, its text what an id was."""
    if not columns:
        return ()
    needed = [_FIRST, *(other for name, other in _BESIDE.items() if name in columns)]
    return (*columns, *(name for name in needed if name not in columns))


def changes_json(table: pa.Table, columns: Collection[str] = ()) -> Iterator[bytes]:
    """Changes of the feed. With columns, only these are written, and those that every change has."""
    yield b'{"changes":['
    yield from _rows(table, {*columns, "change"} if columns else None)
    yield b"]}"


def change_rows(table: pa.Table) -> Iterator[bytes]:
    """Changes of the feed, without what stands around them."""
    return _rows(table, None)


def change_bytes(table: pa.Table, columns: Collection[str] = ()) -> NDArray[np.int64]:
    """How many bytes each row takes in an answer of changes."""
    return row_bytes(table, list(_writers(table, {*columns, "change"} if columns else None)))


def snapshot_bytes(table: pa.Table, columns: Collection[str] = ()) -> NDArray[np.int64]:
    """The bytes that each message takes in a page of a snapshot."""
    return row_bytes(table, list(_writers(table, columns or None)))


def snapshot_json(table: pa.Table, next: str | None, columns: Collection[str] = ()) -> Iterator[bytes]:
    """A page of a snapshot, and the token of the next one."""
    yield b'{"messages":['
    yield from _rows(table, columns or None)
    yield b'],"next":' + msgspec.json.encode(next) + b"}"


def _rows(table: pa.Table, wanted: Collection[str] | None) -> Iterator[bytes]:
    return rows_json(table, list(_writers(table, wanted))) if table.num_rows else iter(())


def _writers(table: pa.Table, wanted: Collection[str] | None) -> Iterator[FieldWriter]:
    yield first_number_writer(table, _FIRST, key=_FIRST)
    for name in table.column_names:
        if name not in {_FIRST, "text_id"} and (wanted is None or name in wanted):
            present = _present(table, name)
            if present.any():
                yield sparse(_dense_writer(table, name, present), present)


def _present(table: pa.Table, name: str) -> NDArray[np.bool_]:
    """The rows that have this field. Empty properties of a change are none."""
    if name == "properties" and "change" not in table.column_names:
        return np.ones(table.num_rows, np.bool_)
    values = column(table, name)
    present = ~nulls_of(values)
    if name != "properties" or not present.any():
        return present
    return present & (np.diff(numbers_of(values.offsets)) > 0)


def _dense_writer(table: pa.Table, name: str, present: NDArray[np.bool_]) -> FieldWriter:
    """The writer of a field, for the rows that have it alone."""
    needed = [name, _BESIDE[name]] if name in _BESIDE else [name]
    dense = table.select([own for own in needed if own in table.column_names])
    return _writer(dense if present.all() else dense.filter(pa.array(present)), name)


def _writer(dense: pa.Table, name: str) -> FieldWriter:
    id_texts = id_writer(dense) if name == "id" else same("")
    if name == "data":
        return data_writer(dense)
    if name == "id":
        return lambda rows: (",", *id_texts(rows))
    if name == "properties":
        return properties_writer(dense)
    kind = dense.schema.field(name).type
    make = next(make for fits, make in _BY_TYPE if fits(kind))
    return make(dense, name, key=name)


_BY_TYPE: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., FieldWriter]], ...] = (
    (pa.types.is_fixed_size_binary, uuid_writer),
    (pa.types.is_timestamp, time_writer),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_boolean(kind), number_writer),
    (lambda _kind: True, text_writer),
)


def change_lines(table: pa.Table) -> Column:
    """Each change as a JSON object of its own, as a column of texts."""
    return row_lines(table, list(_writers(table, None))) if table.num_rows else string_array([])
