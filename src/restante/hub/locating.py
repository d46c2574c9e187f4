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

_DENSE = 8
"""A segment is mapped whole, instead of searched, when at least one row in so many is asked for."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Which stored messages have these numbers? Question i is of the recipient with hash `hashes[code[i]]`."""

    hashes: Hashes
    code: NDArray[np.int64]
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Found:
    """Stored rows of one segment, ascending, that answer some of the questions."""

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
        if mask.all():
            return self
        return replace(
            self,
            asked=self.asked[mask],
            numbers=self.numbers[mask],
            drawer=self.drawer[mask],
            row=self.row[mask],
            records=self.records[mask],
        )


def locate(store: Store, runs: Sequence[Run], questions: Questions) -> Iterator[Found]:
    """The rows that answer the questions; what is not stored any more is left out."""
    if not runs or not len(questions.numbers):
        return
    numbers = questions.numbers
    firsts, lasts = run_bounds(runs)
    of_run = np.searchsorted(firsts, numbers, side="right") - 1
    inside = (of_run >= 0) & (numbers <= lasts[np.maximum(of_run, 0)])
    for index in np.flatnonzero(np.bincount(of_run[inside])).tolist():
        asked = np.flatnonzero(inside & (of_run == index))
        for stored in runs[index].segments:
            dense = len(asked) * _DENSE >= stored.segment.rows
            found = (_map if dense else _search)(store, stored, asked, questions)
            if found is not None:
                yield found


def _map(store: Store, stored: Stored, asked: Rows, questions: Questions) -> Found | None:
    """Many questions: a table from place to row answers them all at once."""
    segment = stored.segment
    records = read_records(store, stored, 0, segment.rows)
    place = questions.numbers[asked] - stored.base
    low, high = int(place.min()), int(place.max())
    row_of = np.full(high - low + 1, -1, np.int64)
    own = records["place"].astype(np.int64) - low
    within = (own >= 0) & (own < len(row_of))
    row_of[own[within]] = np.flatnonzero(within)
    row = row_of[place - low]
    asked, row = asked[row >= 0], row[row >= 0]
    if not len(row):
        return None
    asked, row = _by_row(asked, row, segment.rows)
    of_row = np.repeat(np.arange(len(segment.drawers)), segment.drawers["count"])
    return _found(stored, asked, questions, of_row[row], row, 0, records)


def _by_row(asked: Rows, row: Rows, rows: int) -> tuple[Rows, Rows]:
    """Questions and answers in the order of the rows, so that what follows reads along."""
    question = np.full(rows, -1, np.int64)
    question[row] = np.arange(len(row))
    found = np.flatnonzero(question >= 0)
    if len(found) < len(row):
        order = np.argsort(row, kind="stable")
        return asked[order], row[order]
    return asked[question[found]], found


def _search(store: Store, stored: Stored, asked: Rows, questions: Questions) -> Found | None:
    """Few questions: the recipient's hash finds the drawers, their numbers the one that may hold it."""
    own = stored.segment.recipient_hash
    hashes = questions.hashes[questions.code[asked]]
    low = np.searchsorted(own, hashes, side="left")
    counts = np.searchsorted(own, hashes, side="right") - low
    drawer, asked = expand(low, counts), np.repeat(asked, counts)
    first, last = drawer_numbers(stored)
    numbers = questions.numbers[asked]
    fits = (numbers >= first[drawer]) & (numbers <= last[drawer])
    drawer, asked = drawer[fits], asked[fits]
    return _bisect(store, stored, asked, questions, drawer) if len(asked) else None


def _bisect(store: Store, stored: Stored, asked: Rows, questions: Questions, drawer: Rows) -> Found | None:
    """Look for (drawer, place) in the rows of the drawers concerned: both ascend together."""
    lines = stored.segment.drawers
    low, high = int(drawer.min()), int(drawer.max())
    first = int(lines["row"][low])
    records = read_records(store, stored, first, int(lines["row"][high]) + int(lines["count"][high]))
    of_row = np.repeat(np.arange(low, high + 1), lines["count"][low : high + 1])
    keys = (of_row << 32) | records["place"]
    wanted = (drawer << 32) | (questions.numbers[asked] - stored.base)
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[row] == wanted
    if not hit.any():
        return None
    order = np.argsort(row[hit], kind="stable")
    asked, drawer, row = asked[hit][order], drawer[hit][order], row[hit][order]
    return _found(stored, asked, questions, drawer, row, first, records)


def _found(
    stored: Stored, asked: Rows, questions: Questions, drawer: Rows, row: Rows, first: int, records: RecordArray
) -> Found:
    low, high = int(row[0]), int(row[-1]) + 1
    neighbours = high - low == len(row) and bool((np.diff(row) == 1).all())
    own = records[low:high] if neighbours else records[row]
    return Found(stored, asked, questions.numbers[asked], drawer, row + first, own, first, records)
