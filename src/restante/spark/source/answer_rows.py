"""Answers of the hub, as the columns that Spark expects: texts spelt out, ids as texts, and what is not there as null."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from restante.model.columns import media_types
from restante.model.columns.arrow import Column
from restante.model.columns.uuids import uuid_column

STORED = "stored"
TEXT = "text"
_TEXT_IS_OF = ("data", "media_type")
_IDS = ("id", "bundle_id", "batch")
_SNAPSHOT_NAMES = {"at": "published_at", "message_sequence_number": "sequence_number"}
"""How a snapshot calls what a change calls otherwise."""
_ROWS_MAX = 100_000
"""The bound for the rows of a batch that is handed to Spark."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Turns tables of one partition into batches of these columns."""

    names: tuple[str, ...]
    schema: pa.Schema
    since: datetime | None = None
    until: datetime | None = None
    states: frozenset[str] | None = None
    needed: frozenset[str] | None = None
    """The columns that are used; the others are null."""

    @staticmethod
    def of(
        schema: StructType,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        states: frozenset[str] | None = None,
        needed: frozenset[str] | None = None,
    ) -> SourceRows:
        arrow = to_arrow_schema(schema, timezone="UTC")
        return SourceRows(tuple(schema.fieldNames()), arrow, since, until, states, needed)

    def asked_of_feed(self) -> tuple[str, ...]:
        """The columns to ask the feed for."""
        return self._asked({}, ("partition", "state", "collected_at"))

    def asked_of_snapshot(self) -> tuple[str, ...]:
        """The columns to ask a snapshot for."""
        asked = self._asked(_SNAPSHOT_NAMES, ("partition", "change", "bundle_id", "batch", "key"))
        return tuple(dict.fromkeys((*asked, "state"))) if self.states is not None else asked

    def _asked(self, others: dict[str, str], absent: tuple[str, ...]) -> tuple[str, ...]:
        times = ("at",) if self.since is not None or self.until is not None else ()
        used = [name for name in self.names if self.needed is None or name in self.needed]
        texts = ("text_id",) if "id" in used else ()
        used = [own for name in used for own in (_TEXT_IS_OF if name == TEXT else (name,))]
        names = [others.get(name, name) for name in (*used, *texts, *times) if name not in absent]
        return tuple(dict.fromkeys(("sequence_number", *names)))

    def of_feed(self, table: pa.Table, partition: int) -> Iterator[pa.RecordBatch]:
        return self._batches(table, lambda name: _feed_column(table, name, partition))

    def of_snapshot(self, table: pa.Table, partition: int) -> Iterator[pa.RecordBatch]:
        return self._batches(table, lambda name: _snapshot_column(table, name, partition))

    def _batches(self, table: pa.Table, column: Callable[[str], Column | None]) -> Iterator[pa.RecordBatch]:
        arrays = [self._fitting(column(field.name), field, table.num_rows) for field in self.schema]
        whole = pa.Table.from_arrays(arrays, schema=self.schema)
        chosen = self._chosen(column)
        if chosen is not None:
            whole = whole.filter(chosen)
        if whole.num_rows:
            yield from whole.combine_chunks().to_batches(max_chunksize=_ROWS_MAX)

    def _fitting(self, values: Column | None, field: pa.Field[Any], rows: int) -> Column:
        if values is None:
            return pa.nulls(rows, field.type)
        return values if values.type == field.type else values.cast(field.type)

    def _chosen(self, column: Callable[[str], Column | None]) -> Column | None:
        """Which rows fit; None: all of them."""
        masks: list[Column] = []
        at: Any = column("at")
        state: Any = column("state")
        if self.since is not None:
            masks.append(pc.greater_equal(at, pa.scalar(self.since, at.type)))
        if self.until is not None:
            masks.append(pc.less(at, pa.scalar(self.until, at.type)))
        if self.states is not None:
            masks.append(pc.is_in(state.cast(pa.string()), value_set=pa.array(sorted(self.states), pa.string())))
        return reduce(pc.and_, masks) if masks else None


def _feed_column(table: pa.Table, name: str, partition: int) -> Column | None:
    if name == "partition":
        return pa.array(np.full(table.num_rows, partition, np.int32))
    if name == TEXT and set(_TEXT_IS_OF) <= {*table.column_names}:
        return _texts(*map(table.column, _TEXT_IS_OF))
    if name not in table.column_names:
        return None
    column = table.column(name)
    if name not in _IDS:
        return column
    texts: Column = table.column("text_id") if name == "id" and "text_id" in table.column_names else None
    uuids = _id_texts(column)
    return uuids if texts is None or texts.null_count == len(texts) else pc.coalesce(texts, uuids)


def _snapshot_column(table: pa.Table, name: str, partition: int) -> Column | None:
    if name == "change":
        return pa.repeat(pa.scalar(STORED), table.num_rows)
    return _feed_column(table, _SNAPSHOT_NAMES.get(name, name), partition)


def _texts(data: Column, media_type: Column) -> Column:
    """The data that is text, spelt out: of a media type `text/*`, and UTF-8. All other is null."""
    kinds: Column = pc.unique(media_type).cast(pa.string())
    named = pa.array(
        [kind for kind in kinds.to_pylist() if kind is not None and media_types.is_text(kind)], pa.string()
    )
    is_text = pc.is_in(media_type.cast(pa.string()), value_set=named)
    found: Column = pc.if_else(is_text, data, pa.scalar(None, data.type))
    try:
        return found.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(own) for own in found.to_pylist()], pa.large_string())


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _id_texts(column: Column) -> Column:
    """UUIDs of 16 bytes as texts of 36 characters."""
    single = column.combine_chunks()
    if isinstance(single, pa.ChunkedArray):
        single = pa.concat_arrays(single.chunks) if single.num_chunks else pa.array([], column.type)
    words = np.frombuffer(single.buffers()[1] or b"", np.uint64, 2 * len(single), 16 * single.offset).reshape(-1, 2)
    texts: Column = uuid_column(words)
    return pc.if_else(single.is_valid(), texts, pa.scalar(None, pa.string())) if single.null_count else texts
