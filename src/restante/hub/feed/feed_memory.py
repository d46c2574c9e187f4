"""The memory of the feed: the runs and rows read last, and how far each reader is."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from restante import limits
from restante.hub.engine.fronts import Lately
from restante.hub.feed.feed_pace import Paces
from restante.model.feed.feed_answers import ReaderStatus
from restante.model.feed.span_rows import SpanRows
from restante.model.storage.gathered import Gathered
from restante.model.storage.run import Run

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Reader:
    changes: int = 0
    requests: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    """Up to where the reader has read, by partition."""


class NamedReaders:
    """How far each named reader is. When there are too many, the reader that has not read for longest is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, _Reader] = OrderedDict()

    def note(self, name: str, partition: int, *, position: int, rows: int) -> None:
        with self._lock:
            reader = self._readers.pop(name, None) or _Reader()
            self._readers[name] = reader
            reader.changes += rows
            reader.requests += 1
            reader.positions[partition] = position
            while len(self._readers) > limits.READERS_REMEMBERED_MAX:
                self._readers.popitem(last=False)

    def status(self, visible: Mapping[int, int]) -> tuple[ReaderStatus, ...]:
        """The known readers, by name; `visible` is the end of each partition's log."""
        with self._lock:
            return tuple(
                ReaderStatus(reader=name, lag=_lag(reader, visible), changes=reader.changes, requests=reader.requests)
                for name, reader in sorted(self._readers.items())
            )


def _lag(reader: _Reader, visible: Mapping[int, int]) -> int:
    return sum(max(0, visible[partition] - position) for partition, position in reader.positions.items())


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """The wanted rows of a large run from one number to another, in order; and what was read of them, if anything."""

    low: int
    high: int
    group: SpanRows
    gathered: Gathered | None

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + (0 if self.gathered is None else int(self.group.sizes.sum()))


RunKey = tuple[int, tuple[int, ...]]
"""Partition and blobs name a run: a run that is rewritten has other blobs."""


class FeedMemory:
    """The feed's memory of one open hub."""

    def __init__(self) -> None:
        self.runs: Lately[RunKey, Run] = Lately(
            limits.FEED_RUNS_REMEMBERED_MAX, limits.FEED_BYTES_REMEMBERED_MAX, _front_bytes
        )
        """Runs kept for the feed, with their directories."""
        self.loaded: Lately[tuple[RunKey, Hashable], LoadedRows] = Lately(
            limits.FEED_ROWS_REMEMBERED_MAX, limits.FEED_BYTES_REMEMBERED_MAX, lambda loaded: loaded.nbytes
        )
        """Large runs of which a reader takes page after page."""
        self.readers = NamedReaders()
        self.paces = Paces(time.monotonic)


def _front_bytes(run: Run) -> int:
    return sum([place.front for place in run.row.segments])
