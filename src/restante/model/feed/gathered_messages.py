"""`Gathered`: stored messages from many segments, in some order, as columns for answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns.arrays import Numbers
from restante.model.columns.arrow import Column, column_of
from restante.model.columns.properties import MAP_TYPE, decode_properties
from restante.model.columns.text_ids import split
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import id_column, time_column
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.rows import BUNDLEABLE, INLINE, TEXT_ID, ids_of


@dataclass(frozen=True, slots=True)
class Gathered:
    """Row i is in drawer `line[i]`, which gives its recipient, origin and kind. Texts may hold values that no row uses."""

    numbers: Numbers
    records: RecordArray
    line: NDArray[np.int64]
    recipient: Texts
    """The recipient of each drawer; `origin` and `kind` are also per drawer."""
    origin: Texts
    kind: Texts
    document_types: pa.StringArray
    media_types: pa.StringArray
    data: pa.LargeBinaryArray | None
    """The data of the rows; None if it was not asked for."""
    properties: pa.LargeBinaryArray | None
    """The properties of the rows; None if they were not asked for, or there are none."""

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, first: int, last: int) -> Gathered:
        """Rows first to last (exclusive), without a copy."""
        if first == 0 and last >= len(self):
            return self
        count = last - first
        return Gathered(
            self.numbers[first:last],
            self.records[first:last],
            self.line[first:last],
            self.recipient,
            self.origin,
            self.kind,
            self.document_types,
            self.media_types,
            None if self.data is None else self.data.slice(first, count),
            None if self.properties is None else self.properties.slice(first, count),
        )


def message_column(rows: Gathered, name: str) -> Column:
    """A column of the messages themselves, with its type in `MESSAGE_SCHEMA`."""
    make = _COLUMNS.get(name)
    return time_column(rows.records[name].astype(np.int64)) if make is None else make(rows)


def _of_drawer(texts: Texts, rows: Gathered) -> Column:
    return _text_column(texts.codes[rows.line], texts.values)


def _data(rows: Gathered) -> Column:
    """Null where a message is a claim check."""
    assert rows.data is not None, "the data was not asked for"
    inline = (rows.records["flags"] & INLINE) != 0
    if inline.all():
        return rows.data
    return pc.if_else(column_of(inline), rows.data, pa.scalar(None, pa.large_binary()))


def _properties(rows: Gathered) -> Column:
    if rows.properties is None:
        return pa.nulls(len(rows), MAP_TYPE)
    stored: Column = rows.properties
    return decode_properties(split(stored.cast(pa.binary()))[1])


def _text_ids(rows: Gathered) -> Column:
    if rows.properties is None or not (rows.records["flags"] & TEXT_ID).any():
        return pa.nulls(len(rows), pa.string())
    stored: Column = rows.properties
    return split(stored.cast(pa.binary()))[0]


def _text_column(codes: NDArray[np.int32], values: pa.StringArray) -> Column:
    """A dictionary column. Values that no row uses are dropped if they are many, or each page would carry them along."""
    texts = Texts(codes, values)
    return (texts.compact() if len(values) > len(codes) else texts).to_dictionary()


_COLUMNS: dict[str, Callable[[Gathered], Column]] = {
    "id": lambda rows: id_column(ids_of(rows.records)),
    "text_id": _text_ids,
    "recipient": lambda rows: _of_drawer(rows.recipient, rows),
    "origin": lambda rows: _of_drawer(rows.origin, rows),
    "kind": lambda rows: _of_drawer(rows.kind, rows),
    "document_type": lambda rows: _text_column(rows.records["document_type"].astype(np.int32), rows.document_types),
    "media_type": lambda rows: _text_column(rows.records["media_type"].astype(np.int32), rows.media_types),
    "weight": lambda rows: column_of(rows.records["weight"].astype(np.int32)),
    "bundleable": lambda rows: column_of((rows.records["flags"] & BUNDLEABLE) != 0),
    "data": _data,
    "properties": _properties,
}
"""The function that makes each column. All columns that are not listed are times."""
