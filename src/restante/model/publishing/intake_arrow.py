"""Makes a draft of Arrow columns, without a copy where the columns allow it.

Arrow data from elsewhere may lie, so all of it is first checked to hold together. Then what it takes is bounded: views
and dictionaries may say in a few bytes what is gigabytes when it is spelt out. Texts are taken as bytes: UTF-8 is left to
the rules, which can name the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.limits import DATA_BYTES_MAX
from restante.model.columns import media_types
from restante.model.columns.arrow import Column, map_array, nulls_of, numbers_of, string_array
from restante.model.columns.arrow_checks import as_binary, check_sound, is_text, place_of
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.texts import Texts
from restante.model.publishing.draft import NOT_GIVEN, DraftColumns
from restante.model.publishing.intake_values import is_value_type, json_documents
from restante.model.publishing.message import NEVER
from restante.model.publishing.send_bounds import check_bytes, check_count
from restante.model.publishing.validation import COLUMNS, READ_ONLY, Faults

_TEXTS = "utf8, large_utf8, string_view or a dictionary of these"
_FAR = 2**62
"""Beyond any weight, and still a 64-bit number."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}
_VIEW_BYTES = 17
"""The bytes that a row of a binary column takes beside its own, at most."""


def draft_of_arrow(source: object, faults: Faults, data_bytes_max: int = DATA_BYTES_MAX) -> DraftColumns:
    table = as_table(source)
    require_known(table.schema)
    check_count(table.num_rows)
    check_sound(table)
    data, media_default = contents_of(table, faults, data_bytes_max)
    return DraftColumns(
        n=table.num_rows,
        id=_ids(table),
        text_id=_spelt_out_texts(table, "text_id"),
        recipient=_texts(table, "recipient"),
        origin=_texts(table, "origin"),
        kind=_texts(table, "kind"),
        document_type=_texts(table, "document_type"),
        media_type=_texts(table, "media_type"),
        weight=_integers(table, "weight"),
        bundleable=_bundleable(table),
        data=data,
        media_default=media_default,
        properties=_properties(table),
        expires_at=_times(table, "expires_at"),
        visible_at=_times(table, "visible_at"),
        source_position=_integers(table, "source_position"),
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
    require_known(reader.schema)
    place = reader.schema.get_field_index("data")
    batches, rows, size = [], 0, 0
    for batch in reader:
        batch.validate()
        batches.append(batch)
        rows += batch.num_rows
        size += batch.column(place).nbytes - _VIEW_BYTES * batch.num_rows if place >= 0 else 0
        check_count(rows)
        check_bytes(size)
    return pa.Table.from_batches(batches, reader.schema)


def require_known(schema: pa.Schema) -> None:
    """Refuse columns that a message does not have. Code that asks for their names and time zones next expects texts."""
    try:
        names, _ = schema.names, [getattr(field.type, "tz", None) for field in schema]
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            "the Arrow data cannot be read: names of columns and time zones must be valid Unicode text"
        ) from error
    for name in names:
        if name in READ_ONLY:
            raise InvalidRequest(f"the column {name} is read only: the hub gives it, leave it out", column=name)
        if name not in COLUMNS:
            raise InvalidRequest(f"the column {name} is unknown: allowed are {', '.join(COLUMNS)}", column=name)
        if names.count(name) > 1:
            raise InvalidRequest(f"the column {name} is there twice", column=name)
    if "recipient" not in names:
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
    return _joined(column.chunks, column.type)


def _joined(chunks: Sequence[Column], kind: pa.DataType) -> Column:
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], kind)


def _wrong_type(name: str, found: pa.DataType, expected: str) -> InvalidRequest:
    return InvalidRequest(f"the column {name} is of type {found}: expected is {expected}", column=name)


def _spelt(arrays: Sequence[Column]) -> list[Column]:
    """Text or binary arrays as binary or large_binary; views are spelt out, unless all of them take too much."""
    plain = [as_binary(array) for array in arrays]
    check_bytes(sum(_viewed(array) for array in plain if pa.types.is_binary_view(array.type)))
    return [
        _harmless(array).cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array for array in plain
    ]


def _viewed(views: Column) -> int:
    """How many bytes the rows of a view have: many may share the same ones, and are spelt out."""
    lengths = _views_of(views)[views.offset :, 0]
    return int(lengths[~nulls_of(views)].sum(dtype=np.int64))


def _views_of(views: Column) -> NDArray[np.int32]:
    """The length of each row, and where it lies."""
    return np.frombuffer(views.buffers()[1], np.int32, 4 * (views.offset + len(views))).reshape(-1, 4)


def _harmless(views: Column) -> Column:
    """String views whose null rows point nowhere: validation passes those over, but the cast would follow them."""
    if not views.null_count:
        return views
    places = _views_of(views).copy()
    places[views.offset :][nulls_of(views)] = 0
    valid, _, *content = views.buffers()
    buffers = [valid, pa.py_buffer(places.tobytes()), *content]
    return pa.Array.from_buffers(views.type, len(views), buffers, views.null_count, views.offset)


def _all_bytes(column: pa.ChunkedArray[Any]) -> Column:
    """A text or binary column as large_binary; only one of several chunks is copied."""
    return _joined([chunk.cast(pa.large_binary()) for chunk in _spelt(column.chunks)], pa.large_binary())


def _texts(table: pa.Table, name: str) -> Column | None:
    column = _column(table, name)
    if column is None:
        return None
    kind = column.type
    if pa.types.is_dictionary(kind) and is_text(kind.value_type):
        return _dictionary(column)
    if not is_text(kind):
        raise _wrong_type(name, kind, _TEXTS)
    return _spelt(column.chunks)[0] if column.num_chunks == 1 else _all_bytes(column)


def spelt_texts(table: pa.Table, name: str) -> Column:
    """A column of texts that need not be UTF-8, one a row, unless that takes too much."""
    texts = _texts(table, name)
    if texts is None:
        return pa.nulls(table.num_rows, pa.large_string())
    plain = _spelt_out([texts]) if isinstance(texts, pa.DictionaryArray) else texts.cast(pa.large_binary())
    return plain.view(pa.large_string())


def _dictionary(column: Column) -> Column:
    """A dictionary of bytes; the different ones of several chunks become one."""
    indices, dictionaries = _by_dictionary(column)
    chunks = [
        pa.DictionaryArray.from_arrays(own, dictionary, safe=False)
        for own, dictionary in zip(indices, _spelt(dictionaries), strict=True)
    ]
    if len(chunks) == 1:
        return chunks[0]
    if not chunks or any(chunk.dictionary.null_count for chunk in chunks):
        # Arrow cannot unite dictionaries that hold a null.
        return _spelt_out(chunks)
    wide = [pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary) for chunk in chunks]
    return pa.concat_arrays(wide)


def _by_dictionary(column: Column) -> tuple[list[Column], list[Column]]:
    """The dictionaries, and the indices into each: many chunks may share one, and it is to be worked on once."""
    indices, dictionaries = [], []
    for _, sharing in groupby(column.chunks, key=lambda chunk: place_of(chunk.dictionary)):
        chunks = list(sharing)
        indices.append(_joined([chunk.indices for chunk in chunks], column.type.index_type))
        dictionaries.append(chunks[0].dictionary)
    return indices, dictionaries


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
        return _single(column)
    if not is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise _wrong_type("id", kind, f"fixed_size_binary[16], {_TEXTS}")
    return _spelt_out_texts(table, "id")


def _spelt_out_texts(table: pa.Table, name: str) -> Column | None:
    texts = _texts(table, name)
    return _spelt_out([texts]) if isinstance(texts, pa.DictionaryArray) else texts


def contents_of(table: pa.Table, faults: Faults, bytes_max: int) -> tuple[pa.LargeBinaryArray | None, Texts | None]:
    """The data of the columns `data` and `text`, and the media types that it has by default."""
    data, media_type = _data(table, faults, bytes_max)
    text = _column(table, "text")
    if text is None or not table.num_rows:
        return data, _default(data, media_type)
    if not is_text(text.type):
        raise _wrong_type("text", text.type, "utf8, large_utf8 or string_view")
    texts = _utf8(_content(text), "text", faults)
    if data is None:
        return texts, _default(texts, media_types.TEXT)
    faults.add(np.flatnonzero(~nulls_of(data) & ~nulls_of(texts)), "text", "data and text are both there: give one")
    own, others = _default(data, media_type), _default(texts, media_types.TEXT)
    assert others is not None
    missing = np.where(nulls_of(data), -1, 0).astype(np.int32)
    own = Texts.constant(media_types.BYTES, len(data)) if own is None else own
    return pc.coalesce(data, texts), Texts(np.where(missing < 0, missing, own.codes), own.values).filled(others)


def _default(data: Column | None, media_type: str) -> Texts | None:
    """The media type of each, where there is data; None: octets."""
    if data is None or media_type == media_types.BYTES or not len(data):
        return None
    codes = nulls_of(data).astype(np.int32)
    return Texts(codes, string_array([media_type, media_types.BYTES])).compact()


def _data(table: pa.Table, faults: Faults, bytes_max: int) -> tuple[pa.LargeBinaryArray | None, str]:
    """The column `data`, and the media type that its type says."""
    column = _column(table, "data")
    if column is None:
        return None, media_types.BYTES
    kind = column.type
    if is_value_type(kind):
        return json_documents(column, faults, bytes_max), media_types.JSON
    if pa.types.is_fixed_size_binary(kind):
        check_bytes(sum(chunk.nbytes for chunk in column.chunks))
        return _content(column.cast(pa.large_binary())), media_types.BYTES
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return _content(column), media_types.BYTES
    if not is_text(kind):
        raise _wrong_type("data", kind, "binary, utf8, or what JSON can say: struct, list, map, number or boolean")
    is_json = getattr(table.schema.field("data").type, "extension_name", "") == "arrow.json"
    return _utf8(_content(column), "data", faults), media_types.JSON if is_json else media_types.TEXT


def _content(column: pa.ChunkedArray[Any]) -> pa.LargeBinaryArray:
    check_bytes(sum(chunk.nbytes - _VIEW_BYTES * len(chunk) for chunk in column.chunks))
    content: pa.LargeBinaryArray = _all_bytes(column)
    return content


def _utf8(content: pa.LargeBinaryArray, name: str, faults: Faults) -> pa.LargeBinaryArray:
    """The content as texts; texts that are no UTF-8 are faults."""
    try:
        content.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        rows = [row for row, text in enumerate(content.to_pylist()) if text is not None and not is_utf8(text)]
        faults.add(rows, name, f"{name} must be valid UTF-8")
    return content


def _integers(table: pa.Table, name: str) -> NDArray[np.int64] | None:
    column = _column(table, name)
    if column is None:
        return None
    if not pa.types.is_integer(column.type):
        raise _wrong_type(name, column.type, "an integer")
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
    if not (pa.types.is_map(kind) and is_text(kind.key_type) and is_text(kind.item_type)):
        raise _wrong_type("properties", kind, "map<utf8, utf8>")
    maps = _single(column)
    keys, items = _spelt([maps.keys, maps.items])
    return map_array(numbers_of(maps.offsets), keys, items, nulls_of(maps))


def _times(table: pa.Table, name: str) -> NDArray[np.int64] | None:
    column = _column(table, name)
    if column is None:
        return None
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise _wrong_type(name, kind, "timestamp with the time zone UTC, like timestamp[us, tz=UTC]")
    times = _single(column)
    return np.where(nulls_of(times), NEVER, _microseconds(_numbers(times.view(pa.int64())), kind.unit))


def _microseconds(times: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    if unit == "ns":
        return times // 1_000
    if unit == "us":
        return np.minimum(times, NEVER - 1)
    # A time that would overflow is cut to one that is still far outside of the allowed range.
    factor = _MICROSECONDS[unit]
    limit = (NEVER - 1) // factor
    return np.clip(times, -limit, limit) * factor


def _numbers(array: Column) -> NDArray[Any]:
    numbers: NDArray[Any] = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    return numbers
