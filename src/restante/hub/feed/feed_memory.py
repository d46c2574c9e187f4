"""The memory of the feed: caches of runs and rows, and the positions of named readers."""

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
from restante.model.feed.gathered_messages import Gathered
from restante.model.feed.span_rows import SpanRows
from restante.model.storage.run import Run

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Reader:
    changes: int = 0
    requests: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    """The position of the reader in each partition."""


class NamedReaders:
    """The named readers of the feed, and how far each has read. When there are too many, the least recent reader is forgotten."""

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
    """The wanted rows of a large run, numbered `low` to `high`, in order; and their content, if it was read."""

    low: int
    high: int
    group: SpanRows
    gathered: Gathered | None

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + (0 if self.gathered is None else int(self.group.sizes.sum()))


RunKey = tuple[int, tuple[int, ...]]
"""A partition, and the blobs of a run. A rewritten run has other blobs, so a key never names two different contents."""


class FeedMemory:
    """The feed's memory of one open hub."""

    def __init__(self) -> None:
        self.runs: Lately[RunKey, Run] = Lately(
            limits.FEED_RUNS_REMEMBERED_MAX, limits.FEED_BYTES_REMEMBERED_MAX, _front_bytes
        )
        """The cache of runs kept for the feed, with their directories."""
        self.loaded: Lately[tuple[RunKey, Hashable], LoadedRows] = Lately(
            limits.FEED_ROWS_REMEMBERED_MAX, limits.FEED_BYTES_REMEMBERED_MAX, lambda loaded: loaded.nbytes
        )
        """The cache of rows of large runs that readers take page by page."""
        self.readers = NamedReaders()
        self.paces = Paces(time.monotonic)


def _front_bytes(run: Run) -> int:
    return sum([place.front for place in run.row.segments])
