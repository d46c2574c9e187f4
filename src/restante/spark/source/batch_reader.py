"""A batch read: all that is stored, as of one position of each partition, which is settled when the read is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import MAXYEAR, UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from restante.calls.mailboxes import ListPartitions
from restante.spark.source.answer_rows import STORED, SourceRows
from restante.spark.source.hub_pages import StoredPartition, stored_batches
from restante.spark.source.options import SourceReading, check_partitions, is_too_much

_WISHES = {"recipient": "recipients", "origin": "origins", "kind": "kinds"}
_NEVER_NULL = ("partition", "sequence_number", "change", "at", "id", "recipient", "origin", "kind", "state")
_TICK = timedelta(microseconds=1)


class MessageReader(DataSourceReader):
    """Filters that it can apply are applied by the hub (recipient, origin, kind), or before Spark gets the rows."""

    def __init__(self, reading: SourceReading, schema: StructType) -> None:
        self._reading = reading
        self._schema = schema
        self._partitions: frozenset[int] | None = None
        self._states: frozenset[str] | None = None
        self._none = False
        """Whether the filters leave nothing."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return [own for own in filters if not self._take(own)]

    def partitions(self) -> list[InputPartition]:
        link = self._reading.place.link()
        try:
            ends = {status.partition: status.visible_sequence for status in link.call(ListPartitions())}
        finally:
            link.close()
        check_partitions((*self._reading.partitions, *self._reading.positions), len(ends))
        asked = set(self._reading.partitions or ends)
        if self._partitions is not None:
            asked &= self._partitions
        positions = ends | self._reading.positions
        if self._none:
            return []
        return [StoredPartition(partition, positions[partition]) for partition in sorted(asked) if positions[partition]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StoredPartition):
            return iter(())
        reading = self._reading
        rows = SourceRows.of(self._schema, since=reading.since, until=reading.until, states=self._states)
        return stored_batches(reading, rows, partition)

    def _take(self, own: Filter) -> bool:
        """Whether all rows will fit this filter, so that Spark need not look."""
        match own:
            case IsNotNull((name,)):
                return name in _NEVER_NULL
            case EqualTo((name,), value):
                return self._take_values(name, (value,))
            case In((name,), values):
                return self._take_values(name, values)
            case _:
                return self._take_bound(own)

    def _take_bound(self, own: Filter) -> bool:
        match own:
            case GreaterThan(("at",), datetime() as moment) if moment.year < MAXYEAR:
                self._take_time(since=_in_utc(moment) + _TICK)
            case GreaterThanOrEqual(("at",), datetime() as moment):
                self._take_time(since=_in_utc(moment))
            case LessThan(("at",), datetime() as moment):
                self._take_time(until=_in_utc(moment))
            case LessThanOrEqual(("at",), datetime() as moment) if moment.year < MAXYEAR:
                self._take_time(until=_in_utc(moment) + _TICK)
            case _:
                return False
        return True

    def _take_values(self, name: str, values: Iterable[object]) -> bool:
        wanted = frozenset(values)
        if name == "partition" and all(isinstance(value, int) for value in wanted):
            numbers = frozenset(value for value in wanted if isinstance(value, int))
            self._partitions = numbers if self._partitions is None else self._partitions & numbers
            return True
        if not all(isinstance(value, str) for value in wanted):
            return False
        texts = frozenset(str(value) for value in wanted)
        if is_too_much(texts):
            return False
        if name == "state":
            self._states = texts if self._states is None else self._states & texts
        elif name == "change":
            self._none |= STORED not in texts
        elif name in _WISHES:
            self._take_wish(_WISHES[name], texts)
        else:
            return False
        return True

    def _take_wish(self, field: str, texts: frozenset[str]) -> None:
        """Ask for this beside what was asked for before."""
        filters = self._reading.filters
        before = frozenset(getattr(filters, field))
        left = before & texts if before else texts
        self._none |= not left
        self._reading = replace(self._reading, filters=replace(filters, **{field: tuple(sorted(left))}))

    def _take_time(self, since: datetime | None = None, until: datetime | None = None) -> None:
        reading = self._reading
        if since is not None:
            since = since if reading.since is None else max(since, reading.since)
            self._reading = replace(reading, since=since)
        if until is not None:
            until = until if reading.until is None else min(until, reading.until)
            self._reading = replace(reading, until=until)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
