"""Columns back into messages, and the Arrow columns that the hub gives out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns import media_types
from restante.model.columns.arrays import Words
from restante.model.columns.arrow import Column, column_of, nulls_of, numbers_of, strings_of, words_of
from restante.model.columns.properties import MAP_TYPE, decode_properties
from restante.model.columns.text_ids import shown_ids, split
from restante.model.columns.texts import Texts
from restante.model.publishing.message import NEVER, Message, MessageColumns, State

__all__ = [
    "MESSAGE_SCHEMA",
    "decode_properties",
    "id_column",
    "time_column",
    "time_of",
    "to_messages",
    "to_table",
    "value_of",
    "with_text_ids",
]

_TEXT = pa.dictionary(pa.int32(), pa.string())
_ID = pa.binary(16)
_TIME = pa.timestamp("us", tz="UTC")

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("sequence_number", pa.int64()),
    ("id", _ID),
    ("text_id", pa.string()),
    ("recipient", _TEXT),
    ("origin", _TEXT),
    ("kind", _TEXT),
    ("document_type", _TEXT),
    ("weight", pa.int32()),
    ("bundleable", pa.bool_()),
    ("data", pa.large_binary()),
    ("media_type", _TEXT),
    ("properties", MAP_TYPE),
    ("expires_at", _TIME),
    ("published_at", _TIME),
    ("collected_at", _TIME),
    ("state", _TEXT),
]
MESSAGE_SCHEMA = pa.schema(_FIELDS)
"""A message that the hub gives out. Null data is a claim check, null properties are none, a null time is not (yet)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Value = TypeVar("_Value")


def to_table(
    columns: MessageColumns,
    *,
    sequence_number: NDArray[np.int64],
    published_at: NDArray[np.int64],
    collected_at: NDArray[np.int64],
    state: Texts,
) -> pa.Table:
    """The messages and what has become of them, by `MESSAGE_SCHEMA`. Times in microseconds, `NEVER` for none."""
    texts, properties = split(columns.properties)
    arrays = [
        column_of(sequence_number),
        id_column(columns.id),
        pa.nulls(len(columns), pa.string()) if texts is None else texts,
        columns.recipient.to_dictionary(),
        columns.origin.to_dictionary(),
        columns.kind.to_dictionary(),
        columns.document_type.to_dictionary(),
        column_of(columns.weight),
        column_of(columns.bundleable),
        _data_column(columns),
        columns.media_type.to_dictionary(),
        decode_properties(properties),
        time_column(columns.expires_at),
        time_column(published_at),
        time_column(collected_at),
        state.to_dictionary(),
    ]
    return pa.Table.from_arrays(arrays, schema=MESSAGE_SCHEMA)


def to_messages(table: pa.Table) -> tuple[Message, ...]:
    """The rows of a table with the columns of `MESSAGE_SCHEMA` as values."""
    rows = zip(
        numbers_of(_column(table, "sequence_number")).tolist(),
        strings_of(shown_ids(words_of(_column(table, "id")), _text_ids(table))),
        _texts(table, "recipient"),
        _texts(table, "origin"),
        _texts(table, "kind"),
        _texts(table, "document_type"),
        numbers_of(_column(table, "weight")).tolist(),
        numbers_of(_column(table, "bundleable")).tolist(),
        _data(table),
        _texts(table, "media_type"),
        _properties(table),
        _times(table, "expires_at"),
        _times(table, "published_at"),
        _times(table, "collected_at"),
        _decoded(table, "state", State),
        _times(table, "visible_at") if "visible_at" in table.column_names else repeat(None, table.num_rows),
        strict=True,
    )
    return tuple(
        Message(
            sequence_number=number or None,
            id=id_text,
            recipient=recipient,
            origin=origin,
            kind=kind,
            document_type=document_type,
            weight=weight,
            bundleable=bundleable,
            data=data,
            text=data if type(data) is str and media_types.is_text(media_type) else None,
            media_type=media_type,
            properties=properties,
            expires_at=expires_at,
            published_at=published_at,
            collected_at=collected_at,
            state=state,
            visible_at=visible_at,
        )
        for (
            number,
            id_text,
            recipient,
            origin,
            kind,
            document_type,
            weight,
            bundleable,
            data,
            media_type,
            properties,
            expires_at,
            published_at,
            collected_at,
            state,
            visible_at,
        ) in rows
    )


def with_text_ids(table: pa.Table) -> pa.Table:
    """The same columns, with each id as its sender gave it, and no column beside it for those that are no UUIDs."""
    place = table.schema.get_field_index("id")
    if place < 0 or not pa.types.is_fixed_size_binary(table.schema.field(place).type):
        return table
    texts = shown_ids(words_of(_column(table, "id")), _text_ids(table))
    named = table.set_column(place, "id", texts)
    return named.drop_columns(["text_id"]) if "text_id" in named.column_names else named


def _column(table: pa.Table, name: str) -> Column:
    column: Column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _text_ids(table: pa.Table) -> Column | None:
    """The ids that are texts; None: the table is of a hub that knows none."""
    return _column(table, "text_id") if "text_id" in table.column_names else None


def _texts(table: pa.Table, name: str) -> list[str]:
    return _decoded(table, name, str)


def _decoded(table: pa.Table, name: str, meaning: Callable[[str], _Value]) -> list[_Value]:
    """A text column, where each distinct value is looked at once."""
    column = _column(table, name)
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    values = [meaning(text) for text in strings_of(column.dictionary)]
    return [values[code] for code in numbers_of(column.indices).tolist()]


def _data(table: pa.Table) -> list[object]:
    column = _column(table, "data")
    readers = _decoded(table, "media_type", _reader)
    if column.null_count == 0 and not any(readers):
        return list(column.to_pylist())
    return [_value(data, read) for data, read in zip(column.to_pylist(), readers, strict=True)]


def _reader(media_type: str) -> Callable[[bytes], object] | None:
    """The function that makes a value of data of this type; None: it stays as it is."""
    if media_types.is_json(media_type):
        return msgspec.json.decode
    return bytes.decode if media_types.is_text(media_type) else None


def _value(data: bytes | None, read: Callable[[bytes], object] | None) -> object:
    if data is None:
        return msgspec.UNSET
    if read is None:
        return data
    try:
        return read(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # The data is sound, because it was checked when it came, but Python cannot decode it: a number beyond all floats, a
        # nesting that is too deep here, or text in another encoding. One such message must not stand in the way of the others.
        return data


def value_of(data: bytes | None, media_type: str) -> object:
    """The data of one message as a value; unset: it is a claim check."""
    return _value(data, _reader(media_type))


def _properties(table: pa.Table) -> list[dict[str, str]]:
    column = _column(table, "properties")
    if column.null_count == len(column):
        return [{} for _ in range(len(column))]
    return [dict(entries or ()) for entries in column.to_pylist()]


def _times(table: pa.Table, name: str) -> list[datetime | None]:
    """Few times are distinct, so each is made once."""
    column = _column(table, name)
    if column.null_count == len(column):
        return [None] * len(column)
    times = np.where(nulls_of(column), NEVER, numbers_of(column.view(pa.int64()).fill_null(NEVER)))
    distinct, codes = np.unique(times, return_inverse=True)
    values = [time_of(time) for time in distinct.tolist()]
    return [values[code] for code in codes.tolist()]


def time_of(time: int) -> datetime | None:
    """A time in microseconds, `NEVER` for none."""
    return None if time == NEVER else _EPOCH + timedelta(microseconds=time)


def id_column(words: Words) -> Column:
    content: Column = pa.py_buffer(np.ascontiguousarray(words).data)
    return pa.Array.from_buffers(_ID, len(words), [None, content])


def _data_column(columns: MessageColumns) -> Column:
    if columns.inline.all():
        return columns.data
    return pc.if_else(column_of(columns.inline), columns.data, pa.scalar(None, pa.large_binary()))


def time_column(times: NDArray[np.int64]) -> Column:
    never = times == NEVER
    if never.all():
        return pa.nulls(len(times), _TIME)
    return pa.array(times, _TIME, mask=never) if never.any() else column_of(times).view(_TIME)
