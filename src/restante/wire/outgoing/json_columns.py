"""Messages as JSON, made from columns with Arrow's string functions: no value becomes a Python object on its way.

For each field there is a function that gives the text of some rows, like `,"kind":"letter"`: one text if all rows say
the same, else a column. The texts of a row, one after another, are the message. The functions look at the distinct
values of a column once, and escape them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.limits import ANSWER_BYTES_TARGET, ANSWER_ROWS_MAX
from restante.model.columns import media_types
from restante.model.columns.arrow import (
    Column,
    binaries_of,
    bytes_of,
    column_of,
    content_of,
    nulls_of,
    offsets_of,
    strings,
    strings_of,
    words_of,
)
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.properties import joined, json_texts
from restante.model.columns.text_ids import shown_ids
from restante.model.columns.texts import Texts
from restante.model.columns.uuids import uuid_column
from restante.model.publishing.intake_properties import encode_properties
from restante.model.publishing.validation import Faults
from restante.wire.outgoing.base64_columns import base64_texts

_TYPES_REMEMBERED_MAX = 4_096
Text = str | Column
"""One text for all rows, or one for each."""
FieldWriter = Callable[[slice], Sequence[Text]]
"""The texts of one field for some rows, to be put one after another."""


def column(table: pa.Table, name: str) -> Column:
    found: Column = table.column(name)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def data_bytes(table: pa.Table) -> int:
    """How many bytes the data of all rows has. Asking the table for all of its bytes takes thirty times as long."""
    ends = offsets_of(column(table, "data"))
    return int(ends[-1] - ends[0])


def rows_json(table: pa.Table, writers: Sequence[FieldWriter]) -> Iterator[bytes]:
    """The rows as JSON objects with commas between them, some thousand at a time."""
    first = True
    for rows in _slices(table):
        content = bytes_of(_lines(rows, writers))
        yield content[1:].tobytes() if first else content.tobytes()
        first = False


def row_lines(table: pa.Table, writers: Sequence[FieldWriter]) -> Column:
    """Each row as a JSON object of its own, as a column of texts: for tables that are not large."""
    lines = [_lines(rows, writers, begin="{") for rows in _slices(table)]
    return lines[0] if len(lines) == 1 else pa.concat_arrays(lines)


def row_bytes(table: pa.Table, writers: Sequence[FieldWriter]) -> NDArray[np.int64]:
    """How many bytes each row takes, with the comma before it. It is made for that, and thrown away."""
    sizes = [np.diff(offsets_of(_lines(rows, writers))).astype(np.int64) for rows in _slices(table)]
    return np.concatenate(sizes) if sizes else np.zeros(0, np.int64)


def _slices(table: pa.Table) -> Iterator[slice]:
    """Rows that are made at a time: not too many, nor too much data."""
    start, n = 0, table.num_rows
    ends = offsets_of(column(table, "data")) if "data" in table.column_names else np.zeros(n + 1, np.int64)
    while start < n:
        reach = int(np.searchsorted(ends, ends[start] + ANSWER_BYTES_TARGET, side="right")) - 1
        stop = min(n, start + ANSWER_ROWS_MAX, max(reach, start + 1))
        yield slice(start, stop)
        start = stop


def _lines(rows: slice, writers: Sequence[FieldWriter], *, begin: str = ",{") -> Column:
    """Each row, with a comma before it. Texts that are the same for all rows are put together first."""
    parts: list[Text] = [begin]
    for writer in writers:
        for text in writer(rows):
            if isinstance(text, str) and isinstance(parts[-1], str):
                parts[-1] += text
            else:
                parts.append(text)
    return joined(*parts, "}", "")


def same(text: str) -> FieldWriter:
    return lambda _rows: (text,)


def sparse(writer: FieldWriter, present: NDArray[np.bool_]) -> FieldWriter:
    """A field that only some rows have, from the writer for just these rows."""
    if present.all():
        return writer
    before = np.concatenate(([0], np.cumsum(present)))

    def write(rows: slice) -> Sequence[Text]:
        first, last = int(before[rows.start]), int(before[rows.stop])
        texts = writer(slice(first, last)) if last > first else ()
        return _spread(texts, present[rows]) if texts else ()

    return write


def _spread(texts: Sequence[Text], present: NDArray[np.bool_]) -> Sequence[Text]:
    """The texts of the rows that have any, and nothing for the others."""
    if present.all():
        return texts
    if all(isinstance(text, str) for text in texts):
        same_for_all = pa.scalar("".join(text for text in texts if isinstance(text, str)))
        return (pc.if_else(column_of(present), same_for_all, pa.scalar("")),)
    lines = pa.concat_arrays([joined(*texts, ""), pa.array([""], pa.string())])
    return (lines.take(column_of(np.where(present, np.cumsum(present) - 1, len(lines) - 1))),)


def id_writer(table: pa.Table) -> FieldWriter:
    """The first field of each message: its id as its sender gave it."""
    words = words_of(column(table, "id"))
    texts = column(table, "text_id") if "text_id" in table.column_names else None
    if texts is None or texts.null_count == len(texts):
        return lambda rows: ('"id":"', uuid_column(words[rows]), '"')
    return lambda rows: ('"id":', json_texts(shown_ids(words[rows], texts[rows])))


def uuid_writer(table: pa.Table, name: str, *, key: str) -> FieldWriter:
    words = words_of(column(table, name))
    return lambda rows: (f',"{key}":"', uuid_column(words[rows]), '"')


def first_number_writer(table: pa.Table, name: str, *, key: str) -> FieldWriter:
    """A number as the first field."""
    values = column(table, name)
    return lambda rows: (f'"{key}":', values[rows].cast(pa.string()))


def text_writer(table: pa.Table, name: str, *, key: str) -> FieldWriter:
    texts = Texts.encode(column(table, name))
    values = joined(f',"{key}":', json_texts(texts.values), "") if len(texts) else texts.values
    if len(values) == 1:
        return same(values[0].as_py())
    return lambda rows: (values.take(column_of(texts.codes[rows])),)


def number_writer(table: pa.Table, name: str, *, key: str) -> FieldWriter:
    values = column(table, name)
    least, most = pc.min(values).as_py(), pc.max(values).as_py()
    if least == most:
        return same(f',"{key}":{msgspec.json.encode(least).decode()}')
    return lambda rows: (f',"{key}":', values[rows].cast(pa.string()))


def time_writer(table: pa.Table, name: str, *, key: str) -> FieldWriter:
    """RFC 3339 in UTC with microseconds; nothing where there is no time."""
    times = column(table, name)
    if times.null_count == len(times):
        return same("")
    # Often all were published together.
    distinct = times.null_count or pc.min(times) != pc.max(times)
    if not distinct:
        return same(_time_texts(times[:1], key)[0].as_py())
    encoded = times.view(pa.int64()).dictionary_encode()
    if 2 * len(encoded.dictionary) > len(times):
        return lambda rows: (_time_texts(times[rows], key),)
    texts, codes = _time_texts(encoded.dictionary.view(times.type), key), encoded.indices
    return lambda rows: (texts.take(codes[rows]).fill_null(""),)


def _time_texts(times: Column, key: str) -> Column:
    # Without its zone a time is written as it is: in UTC, and without asking for the rules of zones.
    texts = pc.utf8_replace_slice(times.view(pa.timestamp("us")).cast(pa.string()), 10, 11, "T")
    return joined(f',"{key}":"', texts, 'Z"', "").fill_null("")


def properties_writer(table: pa.Table) -> FieldWriter:
    maps = column(table, "properties")
    if maps.null_count == len(maps):
        return same(',"properties":{}')

    def write(rows: slice) -> Sequence[Text]:
        some = maps[rows]
        objects: Column = encode_properties(some, len(some), Faults()).view(pa.string())
        empty = column_of(np.diff(offsets_of(objects)) == 0)
        return ',"properties":', pc.if_else(empty, pa.scalar("{}"), objects)

    return write


def data_writer(table: pa.Table, *, text_key: str = "text") -> FieldWriter:
    """JSON as it is, text as text (under the key that is given), other data in base64, nothing for a claim check."""
    data = column(table, "data")
    types = Texts.encode(column(table, "media_type"))
    shapes = np.array([shape_of(text) for text in strings_of(types.values)], np.int8)
    shape = np.where(nulls_of(data), _ABSENT, shapes[types.codes])
    return lambda rows: _data_texts(data[rows], shape[rows], text_key)


_ABSENT, JSON_SHAPE, TEXT_SHAPE, _BYTES = range(4)


@lru_cache(_TYPES_REMEMBERED_MAX)
def shape_of(media_type: str) -> int:
    """How data of this type is shown, if it is what its type says."""
    if media_types.is_json(media_type):
        return JSON_SHAPE
    return TEXT_SHAPE if media_types.is_text(media_type) else _BYTES


def _data_texts(data: Column, shape: NDArray[np.int8], text_key: str) -> Sequence[Text]:
    if (shape == TEXT_SHAPE).any():
        shape = _readable(data, shape)
    shapes = np.unique(shape).tolist()
    if len(shapes) == 1:
        return _shown_data(data, shapes[0], text_key)
    place, parts, before = np.empty(len(shape), np.int64), [], 0
    for own in shapes:
        rows = shape == own
        texts = _shown_data(data.filter(column_of(rows)), own, text_key)
        parts.append(joined(*texts, "") if texts else pa.array([""], pa.string()))
        place[rows] = before + (np.arange(rows.sum()) if texts else 0)
        before += len(parts[-1])
    return (pa.concat_arrays(parts).take(column_of(place)),)


def _readable(data: Column, shape: NDArray[np.int8]) -> NDArray[np.int8]:
    """The shapes, where what is called text and is no UTF-8 is shown as bytes."""
    rows = np.flatnonzero(shape == TEXT_SHAPE)
    texts = data.take(column_of(rows))
    try:
        texts.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        broken = [not is_utf8(text) for text in binaries_of(texts)]
        shape = shape.copy()
        shape[rows[broken]] = _BYTES
    return shape


def _shown_data(data: Column, shape: int, text_key: str) -> Sequence[Text]:
    if shape == JSON_SHAPE:
        return ',"data":', _as_texts(data)
    if shape == TEXT_SHAPE:
        return f',"{text_key}":', json_texts(_as_texts(data))
    return _base64_data(data) if shape == _BYTES else ()


def _as_texts(data: Column) -> pa.StringArray:
    """The bytes of a few megabytes of rows as texts, for which smaller offsets are enough."""
    ends = offsets_of(data)
    start, stop = int(ends[0]), int(ends[-1])
    return strings((ends - start).astype(np.int32), content_of(data)[start:stop])


def _base64_data(data: Column) -> Sequence[Text]:
    return ',"data_base64":"', base64_texts(data), '"'
