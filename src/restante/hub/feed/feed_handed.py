"""Large runs that the clerk reads for the feed, so that they cost the hub's interpreter almost nothing.

A run can be handed over if its numbers are known without reading it, because every number from its first to its last is a
message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from restante.hub.engine.core import Core
from restante.hub.feed.feed_memory import FeedMemory
from restante.model.feed.feed import Released
from restante.model.feed.span_rows import Choice, SpanRows
from restante.model.storage.run import Run
from restante.ports.clerk import PageQuestion, PlacedSegment, ReadPage
from restante.ports.store import BlobsInFiles

_ROWS_MIN = 1_024
"""With fewer rows, asking the clerk takes as long as reading them here."""
_ROW_BYTES = 40
"""Estimated bytes of a row in an answer beyond its stored bytes."""


@dataclass(slots=True)
class HandedRuns:
    """Neighbouring runs that the clerk reads together."""

    runs: list[Run]
    segments: list[PlacedSegment]
    low: int
    high: int

    def joined_by(self, other: HandedRuns) -> HandedRuns:
        return HandedRuns([*self.runs, *other.runs], [*self.segments, *other.segments], self.low, other.high)

    def group(self) -> SpanRows:
        """The rows as far as they are known without reading: their numbers and estimated sizes."""
        numbers, sizes = [], []
        for run in self.runs:
            own = np.arange(max(self.low, run.row.first), min(self.high, run.row.last) + 1)
            numbers.append(own)
            sizes.append(np.full(len(own), run.row.length // run.row.rows + _ROW_BYTES))
        of_rows = np.concatenate(numbers)
        return SpanRows((), of_rows, of_rows, np.concatenate(sizes))


def handed(core: Core, run: Run, choice: Choice, low: int, high: int) -> HandedRuns | None:
    """A run to be read by the clerk; None if it must be read here."""
    row, store = run.row, core.store
    if not core.clerk.reads or row.rows < _ROWS_MIN or row.last - row.first + 1 != row.rows:
        return None
    if not choice.everything() or not isinstance(store, BlobsInFiles):
        return None
    segments = []
    for stored, own in zip(run.segments, row.segments, strict=True):
        place = store.blob_place(stored.blob)
        if place is None:
            return None
        segments.append(PlacedSegment(*place, own.front, stored.base, stored.published_at))
    return HandedRuns([run], segments, low, high)


def read_handed(
    core: Core, runs: HandedRuns, choice: Choice, last: int, released: Released, columns: Sequence[str]
) -> ReadPage | None:
    """The rows of handed runs up to number `last`, read by the clerk; None if they must be read here."""
    moved = (released.number.tolist(), released.old.tolist(), released.at.tolist())
    page = core.clerk.published(
        PageQuestion(runs.segments, runs.low, min(runs.high, last), columns, choice.with_checks, moved)
    )
    if page is not None:
        core.memory(FeedMemory).paces.elsewhere(page.seconds)
    return page
