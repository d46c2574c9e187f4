"""`frame_columns` turns frames of pandas, polars and others into columns that the hub can read.

The index of a pandas frame is dropped. Inside structs and lists, text views and dictionaries become plain texts, and times
become microseconds. A struct `properties` becomes a map, because polars has no maps and pandas turns dicts into structs.
Everything is converted batch by batch, so that a reader is never read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from restante.errors import InvalidRequest
from restante.model.columns.arrow import Column

_types = pa.types
_PROPERTIES = pa.map_(pa.string(), pa.string())


def frame_columns(sent: object) -> object:
    """A table or a reader of the frame's columns. A value that is no frame is returned as it is."""
    if type(sent).__module__.partition(".")[0] == "pandas" and hasattr(sent, "columns"):
        sent = _of_pandas(sent)
    if isinstance(sent, pa.RecordBatch):
        sent = pa.Table.from_batches([sent])
    try:
        if isinstance(sent, pa.Table):
            return _plain_table(sent)
        if hasattr(sent, "__arrow_c_stream__"):
            return _plain_reader(pa.RecordBatchReader.from_stream(sent))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the columns cannot be sent: {error}") from error
    return sent


def _of_pandas(frame: Any) -> pa.Table:  # noqa: ANN401 - of a package that may be missing
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(f"the frame does not fit in columns: {error}") from error


def _plain_table(table: pa.Table) -> pa.Table:
    schema = _plain_schema(table.schema)
    return table if schema.equals(table.schema) else pa.Table.from_batches(_plain(table.to_batches(), schema), schema)


def _plain_reader(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = _plain_schema(reader.schema)
    return reader if schema.equals(reader.schema) else pa.RecordBatchReader.from_batches(schema, _plain(reader, schema))


def _plain(batches: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a reader, or a list
    for batch in batches:
        batch.validate(full=True)
        columns = [_plain_column(column, field) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_column(column: Column, field: pa.Field[Any]) -> Column:
    if column.type.equals(field.type):
        return column
    is_struct = _types.is_struct(column.type) and field.type.equals(_PROPERTIES)
    return _properties(column) if is_struct else _cast(column, field.type)


def _cast(column: Column, kind: Any) -> Column:  # noqa: ANN401 - a type of Arrow
    """Cast a column. Arrow itself can cast neither a dictionary of views nor a struct that contains one."""
    if _types.is_dictionary(column.type):
        return _cast(column.dictionary, kind).take(column.indices)
    if _types.is_struct(kind):
        parts = [_cast(pc.struct_field(column, [place]), each.type) for place, each in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    return column.cast(kind, safe=False)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    fields = zip(schema.names, schema.types, strict=True)
    return pa.schema([pa.field(name, _plain_type(name, kind)) for name, kind in fields])


def _plain_type(name: str, kind: pa.DataType) -> pa.DataType:
    """The type as which the hub reads a column. Top-level texts may have any type, but data no dictionary."""
    if name == "properties" and _types.is_struct(kind):
        return _PROPERTIES
    if name in ("data", "text") and _types.is_dictionary(kind):
        return _inner(kind)
    return _inner(kind) if _types.is_nested(kind) else kind


def _inner(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow
    """The same type with plain types at every depth."""
    for is_such, plain in _PLAIN:
        if is_such(kind):
            return plain(kind)
    same: pa.DataType = kind
    return same


_PLAIN: tuple[tuple[Callable[[Any], bool], Callable[[Any], pa.DataType]], ...] = (
    (_types.is_dictionary, lambda kind: _inner(kind.value_type)),
    (_types.is_string_view, lambda _: pa.large_string()),
    (lambda kind: _types.is_timestamp(kind) and kind.unit == "ns", lambda kind: pa.timestamp("us", kind.tz)),
    (_types.is_struct, lambda kind: pa.struct([pa.field(each.name, _inner(each.type)) for each in kind])),
    (_types.is_map, lambda kind: pa.map_(_inner(kind.key_type), _inner(kind.item_type))),
    (_types.is_fixed_size_list, lambda kind: pa.list_(_inner(kind.value_type), kind.list_size)),
    (_types.is_large_list, lambda kind: pa.large_list(_inner(kind.value_type))),
    (_types.is_list, lambda kind: pa.list_(_inner(kind.value_type))),
)
"""Pairs of a test for a type, and the function that makes it plain."""


def _properties(column: Column) -> Column:
    """A map for each struct, of its fields that are not null."""
    rows, names = len(column), [each.name for each in column.type]
    values = [pc.struct_field(column, [place]).cast(pa.string()) for place in range(len(names))]
    if not values:
        return pa.array([{}] * rows, _PROPERTIES)
    spread = list(zip(*(value.to_pylist() for value in values), strict=True))
    maps = [[(name, text) for name, text in zip(names, row, strict=True) if text is not None] for row in spread]
    return pa.array(maps, _PROPERTIES)
