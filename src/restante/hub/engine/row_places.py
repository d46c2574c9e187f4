"""`locate` finds the stored rows of sequence numbers.

If a segment is damaged, questions that its sound part can answer are answered; the others are reported as `Lost`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.engine.damage import sound_records
from restante.hub.engine.partitions import run_bounds
from restante.hub.engine.row_reads import read_records
from restante.model.columns.arrays import Numbers, Rows
from restante.model.columns.hashing import Hashes
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.identity import expand
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.run import Run, StoredSegment, drawer_numbers, drawer_of_rows
from restante.ports.store import Store

_DENSE = 8
"""A segment is mapped whole instead of searched when at least one row in `_DENSE` is asked for."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Asks for stored messages by number. Question i asks for `numbers[i]` of the recipient with hash `hashes[code[i]]`."""

    hashes: Hashes
    code: NDArray[np.int64]
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Stored rows of one segment, ascending, that answer some of the questions."""

    stored: StoredSegment
    asked: Rows
    """The index of the question that each row answers."""
    numbers: Numbers
    drawer: Rows
    row: Rows
    records: RecordArray
    span_row: int
    span: RecordArray
    """All records that were read, the first of which is row `span_row`."""

    def only(self, mask: NDArray[np.bool_]) -> FoundRows:
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


@dataclass(frozen=True, slots=True)
class Lost:
    """Questions whose answers may be in damaged blocks."""

    asked: Rows
    error: DataDamaged


def locate(store: Store, runs: Sequence[Run], questions: Questions) -> Iterator[FoundRows | Lost]:
    """The rows that answer the questions. Messages that are no longer stored are left out."""
    if not runs or not len(questions.numbers):
        return
    numbers = questions.numbers
    firsts, lasts = run_bounds(runs)
    of_run = np.searchsorted(firsts, numbers, side="right") - 1
    inside = (of_run >= 0) & (numbers <= lasts[np.maximum(of_run, 0)])
    for index in np.flatnonzero(np.bincount(of_run[inside])).tolist():
        asked = np.flatnonzero(inside & (of_run == index))
        for segment, stored in enumerate(runs[index].segments):
            try:
                found = _locate_in(store, stored, asked, questions)
            except DataDamaged as error:
                yield from _around(store, stored, _near(runs[index], segment, asked, questions), questions, error)
            else:
                if found is not None:
                    yield found


def _locate_in(store: Store, stored: StoredSegment, asked: Rows, questions: Questions) -> FoundRows | None:
    if stored.segment.damaged is not None:
        first = int(np.argmax(stored.segment.damaged))
        raise damaged_directory(stored, first, first + 1)
    dense = len(asked) * _DENSE >= stored.segment.rows
    return (_map if dense else _search)(store, stored, asked, questions)


def _map(store: Store, stored: StoredSegment, asked: Rows, questions: Questions) -> FoundRows | None:
    """Many questions: build a table from place to row, and look all of them up in it."""
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
    of_row = drawer_of_rows(stored)
    return _found(stored, asked, questions, of_row[row], row, 0, records)


def _by_row(asked: Rows, row: Rows, rows: int) -> tuple[Rows, Rows]:
    """Questions and answers sorted by row, so that later steps read the segment in order."""
    question = np.full(rows, -1, np.int64)
    question[row] = np.arange(len(row))
    found = np.flatnonzero(question >= 0)
    if len(found) < len(row):
        order = np.argsort(row, kind="stable")
        return asked[order], row[order]
    return asked[question[found]], found


def _search(store: Store, stored: StoredSegment, asked: Rows, questions: Questions) -> FoundRows | None:
    """Few questions: the recipient's hash leads to the drawers, and their number ranges to those that may hold the row."""
    drawer, asked = _drawers_of(stored, asked, questions)
    if not len(asked):
        return None
    lines = stored.segment.drawers
    low, high = int(drawer.min()), int(drawer.max())
    first = int(lines["row"][low])
    records = read_records(store, stored, first, int(lines["row"][high]) + int(lines["count"][high]))
    of_row = np.repeat(np.arange(low, high + 1), lines["count"][low : high + 1])
    return _bisect(stored, asked, questions, drawer, first, records, of_row)


def _drawers_of(stored: StoredSegment, asked: Rows, questions: Questions) -> tuple[Rows, Rows]:
    """Pairs of (drawer, question) where the drawer may hold the answer."""
    low, high = _lines_of(stored, asked, questions)
    drawer, asked = expand(low, high - low), np.repeat(asked, high - low)
    first, last = drawer_numbers(stored)
    numbers = questions.numbers[asked]
    fits = (numbers >= first[drawer]) & (numbers <= last[drawer])
    return drawer[fits], asked[fits]


def _lines_of(stored: StoredSegment, asked: Rows, questions: Questions) -> tuple[Rows, Rows]:
    """First and last (exclusive) of the directory lines with the recipient hash of each question."""
    own, hashes = stored.segment.recipient_hash, questions.hashes[questions.code[asked]]
    return np.searchsorted(own, hashes, side="left"), np.searchsorted(own, hashes, side="right")


def _bisect(
    stored: StoredSegment,
    asked: Rows,
    questions: Questions,
    drawer: Rows,
    first: int,
    records: RecordArray,
    of_row: Rows,
) -> FoundRows | None:
    """Look for (drawer, place) in neighbouring rows that begin with row `first`. Rows are sorted by these pairs."""
    keys = (of_row << 32) | records["place"]
    wanted = (drawer << 32) | (questions.numbers[asked] - stored.base)
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[row] == wanted
    if not hit.any():
        return None
    order = np.argsort(row[hit], kind="stable")
    asked, drawer, row = asked[hit][order], drawer[hit][order], row[hit][order]
    return _found(stored, asked, questions, drawer, row, first, records)


def _near(run: Run, segment: int, asked: Rows, questions: Questions) -> Rows:
    """The questions about recipients whose mail may be in this segment of the run."""
    hashes = questions.hashes[questions.code[asked]]
    first = np.searchsorted(run.first_hash, hashes, side="left") - 1
    last = np.searchsorted(run.first_hash, hashes, side="right")
    return asked[(segment >= np.maximum(first, 0)) & (segment < last)]


def _around(
    store: Store, stored: StoredSegment, asked: Rows, questions: Questions, error: DataDamaged
) -> Iterator[FoundRows | Lost]:
    """The answers from the sound part of a damaged segment, stretch by stretch; then the questions that may be lost."""
    drawer, candidates = _drawers_of(stored, asked, questions)
    of_row = drawer_of_rows(stored)
    unread, answered = of_row >= 0, [np.zeros(0, np.int64)]
    for first, records in sound_records(store, stored, 0, stored.segment.rows) if len(asked) else ():
        last = first + len(records)
        unread[first:last] = False
        for begin, end in _known_stretches(of_row[first:last]):
            found = _bisect(
                stored,
                candidates,
                questions,
                drawer,
                first + begin,
                records[begin:end],
                of_row[first + begin : first + end],
            )
            if found is not None:
                answered.append(found.asked)
                yield found
    holed = np.bincount(of_row[unread], minlength=len(stored.segment.drawers)) > 0
    lost = np.concatenate([candidates[holed[drawer]], asked[_hidden(stored, asked, questions)]])
    lost = np.setdiff1d(lost, np.concatenate(answered))
    if len(lost):
        yield Lost(lost, error)


def _known_stretches(of_row: Rows) -> Iterator[tuple[int, int]]:
    """Stretches of neighbouring rows whose drawers are known: first, and last (exclusive)."""
    border = np.flatnonzero(np.diff(of_row >= 0, prepend=False, append=False))
    return zip(border[::2].tolist(), border[1::2].tolist(), strict=True)


def _hidden(stored: StoredSegment, asked: Rows, questions: Questions) -> NDArray[np.bool_]:
    """Which questions concern a recipient whose directory line may be damaged: among its own lines, or just before them."""
    damaged = stored.segment.damaged
    if damaged is None:
        return np.zeros(len(asked), np.bool_)
    low, high = _lines_of(stored, asked, questions)
    before = np.append(0, np.cumsum(damaged))
    return before[high] > before[np.maximum(low - 1, 0)]


def _found(
    stored: StoredSegment, asked: Rows, questions: Questions, drawer: Rows, row: Rows, first: int, records: RecordArray
) -> FoundRows:
    low, high = int(row[0]), int(row[-1]) + 1
    neighbours = high - low == len(row) and bool((np.diff(row) == 1).all())
    own = records[low:high] if neighbours else records[row]
    return FoundRows(stored, asked, questions.numbers[asked], drawer, row + first, own, first, records)
