"""Fronts: the frames and directories of stored segments, read when they are asked for; those used last stay in memory.

So what is in memory of runs, and what opening reads of them, is bounded, however many there are. `Lately` is the bounded memory of
values used last; the feed has others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from restante import limits
from restante.hub.engine.row_reads import read_front
from restante.model.storage.changes import BlobKey
from restante.model.storage.run import LoadSegment, Run, RunRow, SegmentRow
from restante.model.storage.segment import Segment
from restante.ports.store import StoreReader

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lately(Generic[K, V]):
    """The values used last, bounded in number and in size."""

    def __init__(self, count_max: int, bytes_max: int, size: Callable[[V], int]) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._size = size
        self._bytes = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Remember a value, unless it is too large; those used longest ago go."""
        size = self._size(value)
        with self._lock:
            self._drop(key)
            if size > self._bytes_max:
                return
            self._values[key] = value
            self._bytes += size
            while len(self._values) > self._count_max or self._bytes > self._bytes_max:
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def drop(self, key: K) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._bytes -= self._size(value)


class Fronts:
    """The fronts that were used last."""

    def __init__(self, opening: StoreReader | None = None) -> None:
        self.opening = opening
        """The reader for as long as the hub is opened."""
        self._lately: Lately[BlobKey, Segment] = Lately(limits.FRONTS_MAX, limits.FRONTS_BYTES_MAX, _size)

    def run(self, store: StoreReader, partition: int, row: RunRow) -> Run:
        """A stored run, of which nothing is read yet."""
        return Run.of(row, partition, [self._loader(store, partition, place) for place in row.segments])

    def keep(self, partition: int, place: SegmentRow, segment: Segment) -> None:
        """Keep a front that was just written: it will be read soon."""
        self._lately.put(BlobKey(partition, place.blob), segment)

    def clear(self) -> None:
        self._lately.clear()

    def _loader(self, store: StoreReader, partition: int, place: SegmentRow) -> LoadSegment:
        return partial(self._load, store, BlobKey(partition, place.blob), place)

    def _load(self, store: StoreReader, blob: BlobKey, place: SegmentRow) -> Segment:
        found = self._lately.get(blob)
        if found is None:
            found = read_front(self.opening or store, blob, place)
            self._lately.put(blob, found)
        return found


def _size(segment: Segment) -> int:
    return segment.frame_length + len(segment.front) + segment.recipient_hash.nbytes
