"""Fronts: the frames and directories of stored segments, read when they are asked for; those used last stay in memory.

So what is in memory of runs, and what opening reads of them, is bounded, however many there are.
"""

from __future__ import annotations

from functools import partial

from restante import limits
from restante.hub.engine.lately import Lately
from restante.hub.engine.row_reads import read_front
from restante.model.storage.changes import BlobKey
from restante.model.storage.run import LoadSegment, Run, RunRow, SegmentRow
from restante.model.storage.segment import Segment
from restante.ports.store import StoreReader


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
