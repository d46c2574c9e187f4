"""Where the messages of a stretch of the log are read from.

The message of a number lies in one visible run. A mailbag, or a shelf of one segment, is read whole and sorted by number.
A shelf of several segments is too large for that. So filing keeps the runs that became the shelf (`feed_runs`) for the
feed, and the feed reaches back to the first of them. A run kept for the feed is preferred; then comes the visible run.
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
    """The visible sequence. All messages up to it are in the runs."""
    runs: tuple[Run, ...]
    feed_runs: tuple[RunRow, ...]


def view(partition: Partition) -> View:
    """A partition's log at this moment. Call it inside `core.pins.reading()`.

    Read the end before the runs: a commit adds its runs before it moves the end. Then read both kinds of runs: filing sets
    `feed_runs` before `runs`, so each message is in one of the two.
    """
    end = partition.counters.visible
    while True:
        runs, feed_runs = partition.runs, partition.feed_runs
        if partition.runs is runs:
            return View(end, runs, feed_runs)


def feed_gone(core: Core, partition: Partition) -> int:
    """The last number that retention removed, as committed. Read it after the rows, to see whether any were missed."""
    value = core.store.get(partition.number, Space.PARTITION, PARTITION_KEY)
    if value is None:
        return partition.counters.feed_gone
    return max(partition.counters.feed_gone, packed_decoder(PartitionRow).decode(value).feed_gone)


Source = tuple[Run | RunRow, int, int]
"""A run, and the first and last number to be taken from it."""


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
    """Leave out the runs that end below `low`; runs lie in number order."""
    return (runs[index] for index in range(bisect_left(runs, low, key=last), len(runs)))


def loaded(core: Core, partition: int, source: Run | RunRow) -> Run:
    """A run with its directories; those of `feed_runs` are in the store, and the ones used last in memory."""
    if isinstance(source, Run):
        return source
    key = (partition, tuple([place.blob for place in source.segments]))
    run = core.memory(FeedMemory).runs.get(key)
    if run is None:
        run = load_run(core.store, partition, source)
        core.memory(FeedMemory).runs.put(key, run)
    return run
