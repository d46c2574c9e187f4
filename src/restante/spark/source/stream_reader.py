"""A stream read: the feed, in micro-batches whose bounds are sequence numbers of each partition.

An offset holds for each partition the number up to which all was read; `UNREAD` before the bootstrap. The bounds alone say
what a micro-batch holds: the same bounds give the same changes again, and a bootstrap, as of its end, the same messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import ListPartitions
from restante.client.transport.http_sync import HttpLink
from restante.errors import InvalidOperation, PositionAhead
from restante.limits import SPARK_IDLE_SECONDS
from restante.spark.source.answer_rows import SourceRows
from restante.spark.source.group_positions import GroupSeat
from restante.spark.source.hub_pages import ChangesPartition, StoredPartition, stored_batches, stretch_batches
from restante.spark.source.narrowed_reads import narrow_of_task
from restante.spark.source.options import (
    BOOTSTRAP,
    EARLIEST,
    LATEST,
    PartitionPositions,
    SourceReading,
    check_partitions,
)

UNREAD = -1
"""The position of a partition of which nothing was read: it begins with what is stored."""
Offset = dict[str, int]
"""Positions, as Spark keeps them in its checkpoint."""


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver, reads in the tasks."""

    def __init__(self, reading: SourceReading, schema: StructType) -> None:
        self._reading = reading
        self._schema = schema
        self._target: PartitionPositions | None = None
        """Where a query ends that takes what is available now."""
        self._link: HttpLink | None = None
        self._seat: GroupSeat | None = None
        """The seat of the reader in its group, if it has one."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_link": None, "_seat": None}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        ends, start = self._ends(), self._reading.start
        if self._reading.group is not None:
            return _offset(self._own_seat(ends).positions())
        if isinstance(start, dict):
            check_partitions(start, self._count)
            missing = [partition for partition in ends if partition not in start]
            if missing:
                raise InvalidOperation(
                    f"startingPosition names no position for partitions {_listed(missing)}. Name all that are read: 0 for "
                    "the start of the feed.",
                    partitions=missing,
                )
            return _offset({partition: start[partition] for partition in ends})
        return _offset({BOOTSTRAP: dict.fromkeys(ends, UNREAD), EARLIEST: self._starts(ends), LATEST: ends}[start])

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        ends, read = self._ends(), _positions(start)
        self._write(read)
        if self._target is not None:
            ends = {partition: min(end, self._target.get(partition, end)) for partition, end in ends.items()}
        _check_not_behind(ends, read)
        bound = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        following = admitted(read, ends, bound)
        if following == read and self._target is None:
            # Spark asks again at once, but for a query that ends with what there is; a hub without news should not hear that
            # hundreds of times a second.
            time.sleep(SPARK_IDLE_SECONDS)
        return _offset(following)

    def commit(self, end: Offset) -> None:
        self._write(_positions(end))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        per_trigger = self._reading.per_trigger
        return ReadAllAvailable() if per_trigger is None else ReadMaxRows(per_trigger)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return _offset(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._ends()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, until = _positions(start), _positions(end)
        return [part for partition in until for part in self._parts(partition, before[partition], until[partition])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        narrow = narrow_of_task()
        needed = None if narrow is None else frozenset(narrow.columns)
        rows = SourceRows.of(self._schema, since=self._reading.since, until=self._reading.until, needed=needed)
        if isinstance(partition, StoredPartition):
            found, name = stored_batches(self._reading, rows, partition, narrow), f"stored-{partition.partition}"
        else:
            assert isinstance(partition, ChangesPartition)
            found = stretch_batches(self._reading, rows, partition, narrow)
            name = f"feed-{partition.partition}-{partition.until}"
        return found if narrow is None else narrow.made_of(found, name)

    def stop(self) -> None:
        if self._seat is not None:
            self._seat.leave()
        if self._link is not None:
            self._link.close()

    def _parts(self, partition: int, before: int, until: int) -> Iterator[InputPartition]:
        if before == UNREAD:
            if until > 0:
                yield StoredPartition(partition, until)
            return
        for after in range(before, until, self._reading.range_size):
            yield ChangesPartition(partition, after, min(after + self._reading.range_size, until))

    def _ends(self) -> PartitionPositions:
        """The last number of each partition that is read."""
        statuses = self._own_link().call(ListPartitions())
        self._count = len(statuses)
        check_partitions(self._reading.partitions, self._count)
        asked = frozenset(self._reading.partitions or range(self._count))
        return {own.partition: own.visible_sequence for own in statuses if own.partition in asked}

    def _starts(self, ends: PartitionPositions) -> PartitionPositions:
        """Where the feed begins: earlier changes were removed after their retention."""
        link = self._own_link()
        return {partition: link.call(ReadFeed(partition, limit=1)).start - 1 for partition in ends}

    def _write(self, positions: PartitionPositions) -> None:
        """Write positions of the group. All up to them is in Spark's checkpoint: Spark plans a batch when the one before is done."""
        if self._reading.group is not None:
            self._own_seat(positions).write(positions)

    def _own_seat(self, partitions: Iterable[int]) -> GroupSeat:
        if self._seat is None:
            self._seat = GroupSeat(self._reading, partitions)
        return self._seat

    def _own_link(self) -> HttpLink:
        if self._link is None:
            self._link = self._reading.place.link()
        return self._link


def admitted(read: Mapping[int, int], ends: Mapping[int, int], bound: int | None) -> PartitionPositions:
    """How far the next micro-batch goes: at most so many numbers, shared out by how far each partition is behind.

    A partition's bootstrap can't be cut: it comes as a whole, and at least one of them whatever the bound.
    """
    unread = [partition for partition, position in read.items() if position == UNREAD]
    if unread:
        return _with_bootstraps(read, ends, unread, bound)
    behind = {partition: ends[partition] - position for partition, position in read.items()}
    total = sum(behind.values())
    if bound is None or total <= bound:
        return {partition: ends[partition] for partition in read}
    shares = {partition: own * bound // total for partition, own in behind.items()}
    left = bound - sum(shares.values())
    for partition in sorted(behind, key=lambda own: (shares[own] - behind[own], own))[:left]:
        shares[partition] += 1
    return {partition: position + shares[partition] for partition, position in read.items()}


def _with_bootstraps(
    read: Mapping[int, int], ends: Mapping[int, int], unread: Sequence[int], bound: int | None
) -> PartitionPositions:
    following, room = dict(read), bound
    for partition in unread:
        if room is not None and room <= 0:
            break
        following[partition] = ends[partition]
        room = None if room is None else room - ends[partition]
    return following


def _check_not_behind(ends: PartitionPositions, read: PartitionPositions) -> None:
    differing = sorted(read.keys() ^ ends.keys())
    if differing:
        raise InvalidOperation(
            f"The checkpoint and the option partitions differ in {_listed(differing)}. Name the same partitions as before, "
            "or start again with a new checkpoint.",
            partitions=differing,
        )
    for partition, position in read.items():
        if ends[partition] < position:
            raise PositionAhead(
                f"Partition {partition} ends at {ends[partition]}, before position {position}, up to which it was read. "
                "This is not the hub that was read before, or it was restored from an older backup. Start again, with a "
                "new checkpoint.",
                partition=partition,
                end=ends[partition],
            )


def _offset(positions: PartitionPositions) -> Offset:
    """The offset as Spark keeps it: in the order of partitions, for Spark compares offsets as texts."""
    return {str(partition): positions[partition] for partition in sorted(positions)}


def _positions(offset: Offset) -> PartitionPositions:
    return {int(partition): position for partition, position in offset.items()}


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))
