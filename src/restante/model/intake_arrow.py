"""From Arrow columns to a draft, without a copy where the columns allow it.

Arrow data from elsewhere may lie: offsets may point outside, texts may not be UTF-8. So each column is first looked at
as bytes and validated, for the compute functions trust what they are given; UTF-8 is left to the rules, which can
name the message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.model.arrow import Column, map_array, nulls_of, numbers_of
from restante.model.draft import NOT_GIVEN, Draft
from restante.model.intake_rules import check_bytes, check_count
from restante.model.message import NEVER
from restante.model.validation import FIELDS, READ_ONLY

_TEXTS = "utf8, large_utf8, string_view or a dictionary of these"
_FAR = 2**62
"""Beyond any weight, and still a 64-bit number."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}
_VIEW_BYTES = 17
"""What a row of a binary column takes beside its bytes, at most."""


def draft_of_arrow(source: object) -> Draft:
    table = as_table(source)
    _require_known(table.schema)
    check_count(table.num_rows)
    return Draft(
        n=table.num_rows,
        id=_ids(table),
        recipient=_texts(table, "recipient"),
        origin=_texts(table, "origin"),
        kind=_texts(table, "kind"),
        document_type=_texts(table, "document_type"),
        media_type=_texts(table, "media_type"),
        weight=_weights(table),
        bundleable=_bundleable(table),
        data=_data(table),
        json=None,
        properties=_properties(table),
        expires_at=_expiries(table),
    )


def as_table(source: object) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return _read(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _read(pa.RecordBatchReader.from_stream(source))
    raise InvalidRequest(
        "Send a Message, a list of them, or Arrow columns (a table, a batch, a stream, a frame), "
        f"not {type(source).__name__}."
    )


def _read(reader: pa.RecordBatchReader) -> pa.Table:
    """All batches of a stream, which is left as soon as it is too large for a send."""
    _require_known(reader.schema)
    place = reader.schema.get_field_index("data")
    batches, rows, size = [], 0, 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        size += batch.column(place).nbytes - _VIEW_BYTES * batch.num_rows if place >= 0 else 0
        check_count(rows)
        check_bytes(size)
    return pa.Table.from_batches(batches, reader.schema)


def _require_known(schema: pa.Schema) -> None:
    for name in schema.names:
        if name in READ_ONLY:
            raise InvalidRequest(f"the column {name} is read only: the hub gives it, leave it out", column=name)
        if name not in FIELDS:
            raise InvalidRequest(f"the column {name} is unknown: allowed are {', '.join(FIELDS)}", column=name)
        if schema.names.count(name) > 1:
            raise InvalidRequest(f"the column {name} is there twice", column=name)
    if "recipient" not in schema.names:
        raise InvalidRequest("the column recipient is missing: every message needs one", column="recipient")


def _column(table: pa.Table, name: str) -> pa.ChunkedArray[Any] | None:
    """The column, or None if it is not there or says nothing. An extension type (uuid, json) is what it stores."""
    if name not in table.column_names:
        return None
    column: Column = table.column(name)
    if isinstance(column.type, pa.BaseExtensionType):
        stored: Column = column.type.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], stored)
    return None if pa.types.is_null(column.type) else column


def _single(column: pa.ChunkedArray[Any]) -> Column:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _wrong_type(name: str, found: pa.DataType, expected: str) -> InvalidRequest:
    return InvalidRequest(f"the column {name} is of type {found}: expected is {expected}", column=name)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _checked_bytes(array: Column) -> Column:
    """A text or binary array as binary or large_binary whose offsets hold."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = array.view(pa.binary_view())
        views.validate(full=True)
        check_bytes(_viewed(views))
        return _harmless(views).cast(pa.large_binary())
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    plain = array.view(pa.large_binary() if large else pa.binary())
    plain.validate(full=True)
    return plain


def _viewed(views: Column) -> int:
    """How many bytes the rows of a view have: many may share the same ones, and are spelt out."""
    lengths = _views_of(views)[views.offset :, 0]
    return int(lengths[~nulls_of(views)].sum(dtype=np.int64))


def _views_of(views: Column) -> NDArray[np.int32]:
    """For each row its length, and where it lies."""
    return np.frombuffer(views.buffers()[1], np.int32, 4 * (views.offset + len(views))).reshape(-1, 4)


def _harmless(views: Column) -> Column:
    """The same, where null rows point nowhere: their validation passes them over, but the cast follows them."""
    if not views.null_count:
        return views
    places = _views_of(views).copy()
    places[views.offset :][nulls_of(views)] = 0
    valid, _, *content = views.buffers()
    buffers = [valid, pa.py_buffer(places.tobytes()), *content]
    return pa.Array.from_buffers(views.type, len(views), buffers, views.null_count, views.offset)


def _all_bytes(column: pa.ChunkedArray[Any]) -> Column:
    """A text or binary column as large_binary; only one of several chunks is copied."""
    chunks = [_checked_bytes(chunk).cast(pa.large_binary()) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_binary())


def _texts(table: pa.Table, name: str) -> Column | None:
    column = _column(table, name)
    if column is None:
        return None
    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        return _dictionary(column)
    if not _is_text(kind):
        raise _wrong_type(name, kind, _TEXTS)
    return _checked_bytes(column.chunk(0)) if column.num_chunks == 1 else _all_bytes(column)


def _dictionary(column: Column) -> Column:
    """A dictionary of bytes, whose indices lie inside; the different ones of several chunks become one."""
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, _checked_bytes(chunk.dictionary)) for chunk in column.chunks
    ]
    if len(chunks) == 1:
        return chunks[0]
    if not chunks or any(chunk.dictionary.null_count for chunk in chunks):
        # Arrow cannot unite dictionaries that hold a null.
        return _spelt_out(chunks)
    wide = [pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary) for chunk in chunks]
    return pa.concat_arrays(wide)


def _spelt_out(chunks: list[Column]) -> Column:
    """The texts of dictionaries, one a row, unless that takes too much."""
    lengths = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks]
    check_bytes(sum(pc.sum(part, min_count=0).as_py() for part in lengths))
    texts = [chunk.cast(chunk.type.value_type).cast(pa.large_binary()) for chunk in chunks]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_binary())


def _ids(table: pa.Table) -> Column | None:
    column = _column(table, "id")
    if column is None:
        return None
    kind = column.type
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        ids = _single(column)
        ids.validate(full=True)
        return ids
    if not _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise _wrong_type("id", kind, f"fixed_size_binary[16], {_TEXTS}")
    texts = _texts(table, "id")
    return _spelt_out([texts]) if isinstance(texts, pa.DictionaryArray) else texts


def _data(table: pa.Table) -> pa.LargeBinaryArray | None:
    column = _column(table, "data")
    if column is None:
        return None
    kind = column.type
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not (binary or _is_text(kind)):
        raise _wrong_type("data", kind, "binary, large_binary, binary_view or utf8")
    check_bytes(sum(chunk.nbytes - _VIEW_BYTES * len(chunk) for chunk in column.chunks))
    data: pa.LargeBinaryArray = _all_bytes(column)
    return data


def _weights(table: pa.Table) -> NDArray[np.int64] | None:
    column = _column(table, "weight")
    if column is None:
        return None
    if not pa.types.is_integer(column.type):
        raise _wrong_type("weight", column.type, "an integer")
    numbers = _single(column)
    values = np.clip(_numbers(numbers), -_FAR, _FAR) if numbers.type.bit_width == 64 else _numbers(numbers)
    return np.where(nulls_of(numbers), NOT_GIVEN, values.astype(np.int64))


def _bundleable(table: pa.Table) -> NDArray[np.bool_] | None:
    column = _column(table, "bundleable")
    if column is None:
        return None
    if not pa.types.is_boolean(column.type):
        raise _wrong_type("bundleable", column.type, "bool")
    flags: NDArray[np.bool_] = _single(column).fill_null(True).to_numpy(zero_copy_only=False)
    return flags


def _properties(table: pa.Table) -> pa.MapArray[Any, Any] | None:
    column = _column(table, "properties")
    if column is None:
        return None
    kind = column.type
    if not (pa.types.is_map(kind) and _is_text(kind.key_type) and _is_text(kind.item_type)):
        raise _wrong_type("properties", kind, "map<utf8, utf8>")
    maps = _single(column)
    keys, items = _checked_bytes(maps.keys), _checked_bytes(maps.items)
    plain = map_array(numbers_of(maps.offsets), keys, items, nulls_of(maps))
    plain.validate(full=True)
    return plain


def _expiries(table: pa.Table) -> NDArray[np.int64] | None:
    column = _column(table, "expires_at")
    if column is None:
        return None
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise _wrong_type("expires_at", kind, "timestamp with the time zone UTC, like timestamp[us, tz=UTC]")
    times = _single(column)
    return np.where(nulls_of(times), NEVER, _microseconds(_numbers(times.view(pa.int64())), kind.unit))


def _microseconds(times: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    if unit == "ns":
        return times // 1_000
    if unit == "us":
        return np.minimum(times, NEVER - 1)
    # What would overflow is cut to something that is still far outside of what is allowed.
    factor = _MICROSECONDS[unit]
    limit = (NEVER - 1) // factor
    return np.clip(times, -limit, limit) * factor


def _numbers(array: Column) -> NDArray[Any]:
    numbers: NDArray[Any] = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    return numbers
