"""Large runs that the clerk reads: nothing of them is read here, so they cost the hub's interpreter next to nothing.

A run can be handed over if its numbers are known without reading it: all of them from its first to its last are messages.
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
"""Fewer rows are read here as quickly as they are asked for."""
_ROW_BYTES = 40
"""About how many bytes a row of an answer takes beyond those that are stored of it."""


@dataclass(slots=True)
class HandedRuns:
    """Neighbouring runs that are handed over together."""

    runs: list[Run]
    segments: list[PlacedSegment]
    low: int
    high: int

    def joined_by(self, other: HandedRuns) -> HandedRuns:
        return HandedRuns([*self.runs, *other.runs], [*self.segments, *other.segments], self.low, other.high)

    def group(self) -> SpanRows:
        """The rows, as far as they are known: their numbers, and about how long they are."""
        numbers, sizes = [], []
        for run in self.runs:
            own = np.arange(max(self.low, run.row.first), min(self.high, run.row.last) + 1)
            numbers.append(own)
            sizes.append(np.full(len(own), run.row.length // run.row.rows + _ROW_BYTES))
        of_rows = np.concatenate(numbers)
        return SpanRows((), of_rows, of_rows, np.concatenate(sizes))


def handed(core: Core, run: Run, choice: Choice, low: int, high: int) -> HandedRuns | None:
    """The question to the clerk about a run; None if the run is read here."""
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
    """The rows of handed runs up to a number; None if they have to be read here."""
    moved = (released.number.tolist(), released.old.tolist(), released.at.tolist())
    page = core.clerk.published(
        PageQuestion(runs.segments, runs.low, min(runs.high, last), columns, choice.with_checks, moved)
    )
    if page is not None:
        core.memory(FeedMemory).paces.elsewhere(page.seconds)
    return page
