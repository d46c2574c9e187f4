"""From sequence numbers to stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from restante.hub.partitions import run_bounds
from restante.hub.reading import read_records
from restante.model.hashing import Hashes
from restante.model.head import Numbers
from restante.model.identity import expand
from restante.model.rows import RecordArray
from restante.model.run import Run, Stored, drawer_numbers
from restante.ports.store import Store

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """Stored rows of one segment that answer some of the questions asked."""

    stored: Stored
    asked: Rows
    """Which question each answers."""
    numbers: Numbers
    drawer: Rows
    row: Rows
    records: RecordArray
    span_row: int
    span: RecordArray
    """All records that were read, from row `span_row` on."""

    def only(self, mask: NDArray[np.bool_]) -> Found:
        return replace(
            self,
            asked=self.asked[mask],
            numbers=self.numbers[mask],
            drawer=self.drawer[mask],
            row=self.row[mask],
            records=self.records[mask],
        )


def locate(store: Store, runs: Sequence[Run], hashes: Hashes, numbers: Numbers) -> Iterator[Found]:
    """The rows with these numbers, of recipients with these hashes; what is not stored any more is left out."""
    if not runs:
        return
    firsts, lasts = run_bounds(runs)
    of_run = np.searchsorted(firsts, numbers, side="right") - 1
    inside = (of_run >= 0) & (numbers <= lasts[np.maximum(of_run, 0)])
    for index in np.unique(of_run[inside]).tolist():
        asked = np.flatnonzero(inside & (of_run == index))
        for stored in runs[index].segments:
            found = _locate_in(store, stored, asked, hashes, numbers)
            if found is not None:
                yield found


def _locate_in(store: Store, stored: Stored, asked: Rows, hashes: Hashes, numbers: Numbers) -> Found | None:
    own = stored.segment.recipient_hash
    within = (hashes[asked] >= own[0]) & (hashes[asked] <= own[-1])
    asked = asked[within]
    low = np.searchsorted(own, hashes[asked], side="left")
    counts = np.searchsorted(own, hashes[asked], side="right") - low
    drawer, asked = expand(low, counts), np.repeat(asked, counts)
    first, last = drawer_numbers(stored)
    fits = (numbers[asked] >= first[drawer]) & (numbers[asked] <= last[drawer])
    drawer, asked = drawer[fits], asked[fits]
    return _rows_of(store, stored, asked, drawer, numbers[asked]) if len(asked) else None


def _rows_of(store: Store, stored: Stored, asked: Rows, drawer: Rows, numbers: Numbers) -> Found | None:
    """Bisect for (drawer, place) in the rows of the drawers concerned: both ascend together."""
    lines = stored.segment.drawers
    low, high = int(drawer.min()), int(drawer.max())
    first = int(lines["row"][low])
    records = read_records(store, stored, first, int(lines["row"][high]) + int(lines["count"][high]))
    of_row = np.repeat(np.arange(low, high + 1), lines["count"][low : high + 1])
    keys = (of_row << 32) | records["place"]
    wanted = (drawer << 32) | (numbers - stored.base)
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[row] == wanted
    if not hit.any():
        return None
    row = row[hit]
    return Found(stored, asked[hit], numbers[hit], drawer[hit], row + first, records[row], first, records)
