"""Pages of the hub for a task: the next one is on its way while Spark takes the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.client.transport.http_sync import HttpLink
from restante.errors import PositionAhead, PositionGone, RestanteError
from restante.limits import SPARK_PAGE_CHANGES
from restante.model.columns.arrow import numbers_of
from restante.spark.source.answer_rows import SourceRows
from restante.spark.source.narrowed_reads import Narrow
from restante.spark.source.options import HubPlace, SourceReading


@dataclass(frozen=True)
class StoredPartition(InputPartition):
    """The messages that a partition stores as of a position."""

    partition: int
    position: int


@dataclass(frozen=True)
class ChangesPartition(InputPartition):
    """The changes of a partition after `after`, up to and including `until`."""

    partition: int
    after: int
    until: int


def stored_batches(
    reading: SourceReading, rows: SourceRows, part: StoredPartition, narrow: Narrow | None = None
) -> Iterator[pa.RecordBatch]:
    link = _own_link(reading.place)
    if narrow is not None and narrow.only_first:
        yield from _first(_snapshot_pages(link, reading, rows, part, most=1), rows.of_snapshot, part.partition)
        return
    for table in _ahead(_snapshot_pages(link, reading, rows, part)):
        yield from rows.of_snapshot(table, part.partition)


def stretch_batches(
    reading: SourceReading, rows: SourceRows, part: ChangesPartition, narrow: Narrow | None = None
) -> Iterator[pa.RecordBatch]:
    link = _own_link(reading.place)
    if narrow is not None and narrow.only_first:
        yield from _first(_feed_pages(link, reading, rows, part, most=1), rows.of_feed, part.partition)
        return
    for table in _ahead(_feed_pages(link, reading, rows, part)):
        yield from rows.of_feed(_without(table, narrow), part.partition)


@lru_cache(maxsize=4)
def _own_link(place: HubPlace) -> HttpLink:
    """Spark has one process read many parts, one after the other: they share a link, which lives as long as that does."""
    return place.link()


def _first(
    pages: Iterator[pa.Table], batches_of: Callable[[pa.Table, int], Iterator[pa.RecordBatch]], partition: int
) -> Iterator[pa.RecordBatch]:
    """One row, of the first page that has any that fit."""
    for batch in (batch for table in pages for batch in batches_of(table, partition)):
        yield batch.slice(0, 1)
        return


def _without(table: pa.Table, narrow: Narrow | None) -> pa.Table:
    """The table without the changes that `narrow` leaves out, except for the first of them."""
    if narrow is None or not narrow.without:
        return table
    names = table.column("change").cast(pa.string())
    left_out = np.array(pc.is_in(names, value_set=pa.array(narrow.without, pa.string())), np.bool_)
    if not left_out.any():
        return table
    left_out[np.argmax(left_out)] = False
    return table.filter(pa.array(~left_out))


def _snapshot_pages(
    link: HttpLink, reading: SourceReading, rows: SourceRows, part: StoredPartition, *, most: int = SPARK_PAGE_CHANGES
) -> Iterator[pa.Table]:
    wish = reading.filters.wish(rows.asked_of_snapshot())
    after: str | None = None
    while True:
        try:
            answer = link.call(ReadSnapshot(part.partition, after=after, position=part.position, wish=wish, limit=most))
        except PositionGone as error:
            raise _no_longer_as_of(error, part) from error
        yield answer.table
        after = answer.next
        if after is None:
            return


def _feed_pages(
    link: HttpLink, reading: SourceReading, rows: SourceRows, part: ChangesPartition, *, most: int = SPARK_PAGE_CHANGES
) -> Iterator[pa.Table]:
    wish = reading.filters.wish(rows.asked_of_feed())
    after = part.after
    while after < part.until:
        limit = min(part.until - after, most)
        try:
            answer = link.call(ReadFeed(part.partition, after=after, wish=wish, limit=limit, reader=reading.reader))
        except PositionGone as error:
            raise _gone(error, part) from error
        except PositionAhead as error:
            raise _too_short(part, error.details["end"]) from error
        if answer.next <= after:
            raise _too_short(part, answer.end)
        yield _up_to(answer.table, part.until)
        after = answer.next


def _up_to(table: pa.Table, until: int) -> pa.Table:
    """The rows of numbers up to this one: they ascend."""
    numbers = numbers_of(table.column("sequence_number"))
    return table.slice(0, int(np.searchsorted(numbers, until, "right")))


def _too_short(part: ChangesPartition, end: object) -> RestanteError:
    return PositionAhead(
        f"Partition {part.partition} ends at {end}, before position {part.until}, up to which the checkpoint wants it "
        "read. This is not the hub that was read before, or it was restored from an older backup. Start again, with a new "
        "checkpoint.",
        partition=part.partition,
        end=end,
    )


def _gone(error: PositionGone, part: ChangesPartition) -> RestanteError:
    return PositionGone(
        f"Partition {part.partition} no longer has the changes after {part.after}: the hub has removed them after its "
        "retention, before they were read here. Start again: give the stream a new checkpoint, with startingPosition "
        "bootstrap.",
        **error.details,
    )


def _no_longer_as_of(error: PositionGone, part: StoredPartition) -> RestanteError:
    return PositionGone(
        f"Partition {part.partition} can no longer be read as of {part.position}: the hub has removed changes since, after "
        "its retention. Read again, as of now; a stream starts again, with a new checkpoint.",
        **error.details,
    )


def _ahead(pages: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The pages, read one page ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="restante-page") as pool:
        following = pool.submit(next, pages, None)
        while (page := following.result()) is not None:
            following = pool.submit(next, pages, None)
            yield page
