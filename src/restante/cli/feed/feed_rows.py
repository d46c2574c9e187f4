"""The rows that `restante feed` gives out: changes of all partitions, and what a snapshot found, under the same columns.

A row of the feed has its partition in front. A message of a snapshot is a row too: its change is `stored`, and it has two
columns more, `state` and `collected_at`, which changes leave empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from restante.errors import InvalidRequest
from restante.model.columns.arrow import Column, column_of, numbers_of
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA

STORED = "stored"
"""The change of what a snapshot found."""
_ALWAYS = ("sequence_number", "change")
_ONLY_STORED = ("state", "collected_at")
_IN_SNAPSHOTS = {"at": "published_at", "message_sequence_number": "sequence_number"}
"""Columns of the feed that have another name there."""
_PARTITION = pa.field("partition", pa.int32())


class RowLook(NamedTuple):
    """The columns of the rows that a command shows, of changes and of a snapshot before them."""

    schema: pa.Schema
    columns: tuple[str, ...]
    """The columns as the hub is asked for them; empty: all."""

    @property
    def snapshot_columns(self) -> tuple[str, ...]:
        """The columns that are asked of a snapshot for the same rows."""
        names = (_IN_SNAPSHOTS.get(name, name) for name in self.schema.names)
        return tuple(dict.fromkeys(name for name in names if name in MESSAGE_SCHEMA.names))

    def of_changes(self, table: pa.Table, partition: int) -> pa.Table:
        return self._table({name: table.column(name) for name in table.column_names}, partition, table.num_rows)

    def of_stored(self, table: pa.Table, partition: int) -> pa.Table:
        found: dict[str, Column] = {name: table.column(name) for name in table.column_names}
        found |= {name: found[other] for name, other in _IN_SNAPSHOTS.items() if other in found}
        found["change"] = pa.repeat(pa.scalar(STORED), table.num_rows)
        return self._table(found, partition, table.num_rows)

    def _table(self, found: dict[str, Column], partition: int, count: int) -> pa.Table:
        found["partition"] = column_of(np.full(count, partition, np.int32))
        arrays = [
            _cast(found[field.name], field.type) if field.name in found else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def written_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are written of rows that have more than were asked for; empty: all."""
    return (*columns, _PARTITION.name, *_ONLY_STORED) if columns else ()


def rows_of(columns: Sequence[str], *, bootstrap: bool) -> RowLook:
    """The rows with these columns of the feed, or with all of them."""
    unknown = [name for name in columns if name not in FEED_SCHEMA.names]
    if unknown:
        known = ", ".join(FEED_SCHEMA.names)
        raise InvalidRequest(f"The feed has no column {unknown[0]!r}. It has {known}.")
    wanted = {*columns, *_ALWAYS} if columns else set(FEED_SCHEMA.names)
    fields = [field for field in FEED_SCHEMA if field.name in wanted]
    more = [MESSAGE_SCHEMA.field(name) for name in _ONLY_STORED] if bootstrap else []
    return RowLook(pa.schema([_PARTITION, *fields, *more]), tuple(field.name for field in fields if columns))


def change_count(table: pa.Table) -> int:
    """Count the changes in a table: the rows of one change have the same number, and stand together."""
    numbers = _numbers(table)
    return int(np.count_nonzero(np.diff(numbers))) + 1 if len(numbers) else 0


def first_changes(table: pa.Table, count: int) -> pa.Table:
    """The first rows of a table: so many changes, each whole."""
    numbers = _numbers(table)
    ends = np.flatnonzero(np.diff(numbers)) + 1
    return table if count > len(ends) else table.slice(0, int(ends[count - 1]))


def last_number(table: pa.Table) -> int:
    return int(_numbers(table)[-1])


def first_number(table: pa.Table) -> int:
    return int(_numbers(table)[0])


def _numbers(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    column: Column = table.column("sequence_number")
    return numbers_of(column.combine_chunks())


def _cast(column: Column, kind: pa.DataType) -> Column:
    return column if column.type == kind else column.cast(kind)
