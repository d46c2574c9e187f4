"""Fronts are the frames and directories of stored segments. They are read on demand, and the last used are cached.

So the memory that runs take, and what opening the hub reads of them, is bounded, however many runs there are. `Lately` is
the cache; the feed uses it too.
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
    """A cache of the values used last, bounded in number and in size."""

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
        """Keep a value, unless it is larger than the whole cache; the least recently used values make room."""
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
    """The cache of fronts."""

    def __init__(self, opening: StoreReader | None = None) -> None:
        self.opening = opening
        """The reader that fronts are loaded through while the hub is being opened; None afterwards."""
        self._lately: Lately[BlobKey, Segment] = Lately(limits.FRONTS_MAX, limits.FRONTS_BYTES_MAX, _size)

    def run(self, store: StoreReader, partition: int, row: RunRow) -> Run:
        """A stored run. Its fronts are read when they are first needed."""
        return Run.of(row, partition, [self._loader(store, partition, place) for place in row.segments])

    def keep(self, partition: int, place: SegmentRow, segment: Segment) -> None:
        """Cache a front that was just written, because it will be read soon."""
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
