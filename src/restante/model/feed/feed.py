"""The feed as columns: messages as published, and the changes to them, in the order of the log.

A change that concerns many messages is many rows with the same sequence number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrays import Numbers, Words
from restante.model.columns.arrow import Column, column_of, numbers_of, string_array
from restante.model.columns.texts import Texts
from restante.model.feed.gathered_messages import Gathered, message_column
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, id_column, time_column
from restante.model.storage.change import ChangeKind, ChangeRecord

_ID = pa.binary(16)
_MESSAGE_COLUMNS = (
    "document_type",
    "weight",
    "bundleable",
    "data",
    "media_type",
    "properties",
    "expires_at",
)
_CABINET_COLUMNS = ("recipient", "origin", "kind")

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("sequence_number", pa.int64()),
    ("change", pa.dictionary(pa.int32(), pa.string())),
    ("at", pa.timestamp("us", tz="UTC")),
    ("message_sequence_number", pa.int64()),
    *((name, MESSAGE_SCHEMA.field(name).type) for name in ("id", "text_id", *_CABINET_COLUMNS, *_MESSAGE_COLUMNS)),
    ("bundle_id", _ID),
    ("batch", _ID),
    ("key", pa.string()),
    ("messages", pa.int64()),
]
FEED_SCHEMA = pa.schema(_FIELDS)
"""A row of the feed. Columns that a kind of change does not have are null."""

ALWAYS = ("sequence_number", "change")
"""The columns that every answer has."""
PUBLISHED = "published"
CHANGES = (PUBLISHED, *(kind.value for kind in ChangeKind))
_CHANGE_TEXTS = string_array(CHANGES)
_CODE = {kind: CHANGES.index(kind.value) for kind in ChangeKind}
_RELEASED = _CODE[ChangeKind.RELEASED]
_RECORD_FIELDS = {
    "recipient": "recipient",
    "origin": "origin",
    "kind": "message_kind",
    "bundle_id": "bundle_id",
    "batch": "batch",
    "key": "key",
}
_SLICES_MAX = 64
"""Up to this many stretches of messages and changes are chained without copying; more are copied."""

NumberedRecord = tuple[int, ChangeRecord]


def feed_columns(asked: Sequence[str]) -> tuple[str, ...]:
    """The columns of an answer, in the order of the schema; all if none are asked for."""
    return tuple(name for name in FEED_SCHEMA.names if not asked or name in asked or name in ALWAYS)


def schema_of(names: Sequence[str]) -> pa.Schema:
    return pa.schema([FEED_SCHEMA.field(name) for name in names])


@dataclass(frozen=True, slots=True)
class Released:
    """Messages released to the end: their new numbers, their old numbers, and the times."""

    number: Numbers
    old: Numbers
    at: NDArray[np.int64]

    @staticmethod
    def of(records: Sequence[NumberedRecord]) -> Released:
        moved = [(number, record.ranges[0].first, record.at) for number, record in records if record.moved]
        number, old, at = np.array(moved, np.int64).reshape(-1, 3).T
        return Released(number, old, at)


def published_table(rows: Gathered, released: Released, names: Sequence[str]) -> pa.Table:
    """Messages in number order, as changes `published`, or `released` if they were released to the end."""
    count = len(rows.numbers)
    codes, old = np.zeros(count, np.int32), rows.numbers
    at = rows.records["published_at"].astype(np.int64)
    if len(released.number):
        place = np.minimum(np.searchsorted(rows.numbers, released.number), count - 1)
        own = rows.numbers[place] == released.number
        place, old = place[own], old.copy()
        codes[place], old[place], at[place] = _RELEASED, released.old[own], released.at[own]

    def column(name: str) -> Column:
        if name == "sequence_number":
            return column_of(rows.numbers)
        if name == "change":
            return Texts(codes, _CHANGE_TEXTS).to_dictionary()
        if name == "at":
            return time_column(at)
        if name == "message_sequence_number":
            return column_of(old)
        if name in MESSAGE_SCHEMA.names:
            return message_column(rows, name)
        return nulls(count, name)

    return pa.Table.from_arrays([column(name) for name in names], schema=schema_of(names))


@dataclass(frozen=True, slots=True)
class Settled:
    """The messages that change records concern. Row i belongs to record `record[i]`; rows are in the order of the records."""

    record: NDArray[np.int64]
    number: Numbers
    """The number of each message; 0 if the record concerns none."""
    id: Words | None
    """The ids of the messages; None if they were not asked for."""
    known: NDArray[np.bool_]
    """Which ids are known."""
    text_id: Column | None = None
    """The texts of ids that are no UUIDs; None if they were not asked for, or there are none."""


def changes_table(records: Sequence[NumberedRecord], rows: Settled, names: Sequence[str]) -> pa.Table:
    """One row for each message that the records concern, and one for each record that concerns none."""

    def column(name: str) -> Column:
        if name == "sequence_number":
            return _each([number for number, _ in records], pa.int64(), rows)
        if name == "change":
            codes = np.array([_CODE[record.kind] for _, record in records], np.int32)
            return Texts(codes[rows.record], _CHANGE_TEXTS).to_dictionary()
        if name == "at":
            return time_column(np.array([record.at for _, record in records], np.int64)[rows.record])
        if name == "message_sequence_number":
            return pa.array(rows.number, pa.int64(), mask=rows.number == 0)
        if name == "id" and rows.id is not None:
            return _masked(id_column(rows.id), rows.known)
        return _record_column(records, rows, name)

    return pa.Table.from_arrays([column(name) for name in names], schema=schema_of(names))


def _record_column(records: Sequence[NumberedRecord], rows: Settled, name: str) -> Column:
    """A column of the records themselves; empty values become null. `messages` is the count of erasures, which list none."""
    if name == "messages":
        return _each([r.count if r.kind is ChangeKind.ERASED else None for _, r in records], pa.int64(), rows)
    if name == "text_id" and rows.text_id is not None:
        return rows.text_id
    field = _RECORD_FIELDS.get(name)
    if field is None:
        return nulls(len(rows.record), name)
    values = [getattr(record, field) or None for _, record in records]
    return _texts(values, rows) if name in _CABINET_COLUMNS else _each(values, FEED_SCHEMA.field(name).type, rows)


def nulls(count: int, name: str) -> Column:
    kind: Column = FEED_SCHEMA.field(name).type
    return pa.nulls(count, kind)


def _each(values: Sequence[object], kind: pa.DataType, rows: Settled) -> Column:
    """A value for each record, repeated for each of its rows."""
    column: Column = pa.array(values, kind)
    return column.take(column_of(rows.record))


def _texts(values: Sequence[str | None], rows: Settled) -> Column:
    encoded: Column = pa.array(values, pa.string()).dictionary_encode()
    indices: Column = encoded.indices.take(column_of(rows.record))
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, safe=False)


def _masked(column: Column, known: NDArray[np.bool_]) -> Column:
    if known.all():
        return column
    places = np.where(known, np.arange(len(known)), 0)
    return column.take(pa.array(places, pa.int64(), mask=~known))


def in_log_order(published: Sequence[pa.Table], changes: pa.Table | None, names: Sequence[str]) -> pa.Table:
    """Messages and changes, each in number order, as one table in number order."""
    messages = pa.concat_tables(published) if published else schema_of(names).empty_table()
    if changes is None or not changes.num_rows:
        return messages
    if not messages.num_rows:
        return changes
    numbers, of_changes = _numbers(messages), _numbers(changes)
    before = np.searchsorted(numbers, of_changes)
    begins = np.flatnonzero(np.diff(before, prepend=-1))
    if len(begins) <= _SLICES_MAX:
        return pa.concat_tables(_slices(messages, changes, before[begins], begins))
    order = np.argsort(np.concatenate([numbers, of_changes]), kind="stable")
    return pa.concat_tables([messages, changes]).unify_dictionaries().take(column_of(order))


def _slices(
    messages: pa.Table, changes: pa.Table, before: NDArray[np.int64], begins: NDArray[np.int64]
) -> list[pa.Table]:
    """The stretches in turn: the messages before each stretch of changes, then those changes, and finally the other messages."""
    slices, taken = [], 0
    ends = np.append(begins[1:], changes.num_rows)
    for upto, begin, end in zip(before.tolist(), begins.tolist(), ends.tolist(), strict=True):
        slices += [messages.slice(taken, upto - taken), changes.slice(begin, end - begin)]
        taken = upto
    slices.append(messages.slice(taken))
    return [table for table in slices if table.num_rows]


def _numbers(table: pa.Table) -> Numbers:
    column: Column = table.column("sequence_number")
    return numbers_of(column)
