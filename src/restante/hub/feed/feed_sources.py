"""`sources` says from which runs the messages of a stretch of the log are read.

Each message is in one visible run. A mailbag, or a shelf of one segment, is read whole and sorted by number. A shelf of
several segments is too large for that, so filing keeps the runs that it was merged from (`feed_runs`). A run kept for the
feed is preferred to a visible run. The feed does not have messages that are only in a large shelf.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from restante.decoders import packed_decoder
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import PARTITION_KEY, Partition, PartitionRow, load_run
from restante.hub.feed.feed_memory import FeedMemory
from restante.model.storage.changes import Space
from restante.model.storage.run import Run, RunRow, in_order


@dataclass(frozen=True, slots=True)
class View:
    """A partition's log at one moment."""

    end: int
    """The visible sequence number. All messages up to it are in the runs."""
    runs: tuple[Run, ...]
    feed_runs: tuple[RunRow, ...]


def view(partition: Partition) -> View:
    """A partition's log at this moment. Call it inside `core.pins.reading()`.

    The order of reads matters. Read the end first, because a commit adds its runs before it moves the end. Read `runs`
    before `feed_runs`, and again if `runs` changed, because filing sets `feed_runs` first: so no message is missing in both.
    """
    end = partition.counters.visible
    while True:
        runs, feed_runs = partition.runs, partition.feed_runs
        if partition.runs is runs:
            return View(end, runs, feed_runs)


def feed_gone(core: Core, partition: Partition) -> int:
    """The last number that retention has removed, as committed. Read it after the rows, to learn whether any were missed."""
    value = core.store.get(partition.number, Space.PARTITION, PARTITION_KEY)
    if value is None:
        return partition.counters.feed_gone
    return max(partition.counters.feed_gone, packed_decoder(PartitionRow).decode(value).feed_gone)


Source = tuple[Run | RunRow, int, int]
"""A run, and the first and last number to take from it."""


def sources(seen: View, low: int, high: int) -> Iterator[Source]:
    """The runs that have the messages from low to high (inclusive), in number order."""
    kept = _from(seen.feed_runs, low, lambda row: row.last)
    runs = _from(seen.runs, low, lambda run: run.row.last)
    one, other = next(kept, None), next(runs, None)
    while low <= high:
        while one is not None and one.last < low:
            one = next(kept, None)
        while other is not None and other.row.last < low:
            other = next(runs, None)
        border = min(high, one.first - 1 if one is not None else high)
        if one is not None and one.first <= low:
            last = min(high, one.last)
            yield one, low, last
        elif other is not None and other.row.first <= low:
            last = min(border, other.row.last)
            if in_order(other.row):
                yield other, low, last
        else:
            last = min(border, other.row.first - 1 if other is not None else high)
        low = last + 1


T = TypeVar("T")


def _from(runs: Sequence[T], low: int, last: Callable[[T], int]) -> Iterator[T]:
    """The runs that do not end below `low`. Runs are in number order."""
    return (runs[index] for index in range(bisect_left(runs, low, key=last), len(runs)))


def loaded(core: Core, partition: int, source: Run | RunRow) -> Run:
    """A run with its directories. Those of `feed_runs` are loaded from the store, and cached."""
    if isinstance(source, Run):
        return source
    key = (partition, tuple([place.blob for place in source.segments]))
    run = core.memory(FeedMemory).runs.get(key)
    if run is None:
        run = load_run(core.store, partition, source)
        core.memory(FeedMemory).runs.put(key, run)
    return run
