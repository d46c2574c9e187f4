"""The wanted rows of segments, in number order, as columns for answers.

Runs are sorted by cabinet, but readers want number order. So the records of the chosen drawers are read first (`Span`) and
sorted by number (`in_number_order`). Then `gathered_rows` asks for the data of exactly the rows that an answer takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrays import Mask, Numbers, Rows
from restante.model.columns.arrow import Column, column_of
from restante.model.columns.texts import Texts
from restante.model.feed.gathered_messages import Gathered
from restante.model.publishing.message import HEALTH_ORIGIN
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.merge import DrawerStretch, cabinets_of, united
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.rows import TEXT_ID
from restante.model.storage.run import Run, StoredSegment

_HEALTH = frozenset({HEALTH_ORIGIN})

_ROW_BYTES = 100
"""Estimated bytes of a row in an answer besides its data and properties."""
_SCATTERED = 8
"""Numbers are sorted with a table as long as their range, unless the range is this many times their count."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The drawers that a reader asks for. An empty set means all."""

    origins: frozenset[str]
    kinds: frozenset[str]
    recipients: frozenset[str]
    hashes: frozenset[int]
    """The hashes of `recipients`."""
    with_checks: bool = False
    """Whether messages of the hub's own health checks are included, which only workers ask for."""

    def everything(self) -> bool:
        return not (self.origins or self.kinds or self.recipients)

    def is_whole(self, run: Run) -> bool:
        """Whether all messages of a run are surely wanted. A run that may have health checks is not."""
        return self.everything() and not any(stored.may_have_origin(HEALTH_ORIGIN) for stored in run.segments)

    def may_have(self, run: Run) -> bool:
        """Whether a run may have chosen messages, judged without reading its directory."""
        return not self.recipients or run.recipients is None or not run.recipients.isdisjoint(self.hashes)

    def of(self, stored: StoredSegment) -> Mask:
        """The chosen drawers of a segment."""
        segment = stored.segment
        if segment.damaged is not None:
            raise damaged_directory(stored, *first_damaged(segment.damaged))
        chosen = np.ones(len(segment.drawers), np.bool_)
        if HEALTH_ORIGIN in segment.names.origins and not self.with_checks:
            chosen &= ~_named(segment.drawers["origin"], segment.names.origins, _HEALTH)
        if self.origins:
            chosen &= _named(segment.drawers["origin"], segment.names.origins, self.origins)
        if self.kinds:
            chosen &= _named(segment.drawers["kind"], segment.names.kinds, self.kinds)
        if self.recipients:
            chosen &= np.isin(segment.recipient_hash, np.fromiter(self.hashes, np.uint64, len(self.hashes)))
            for drawer in np.flatnonzero(chosen).tolist():
                chosen[drawer] = segment.recipients[drawer].as_py() in self.recipients
        return chosen


def _named(codes: NDArray[np.uint32], names: Sequence[str], asked: frozenset[str]) -> Mask:
    wanted = np.array([name in asked for name in names] or [False], np.bool_)
    return wanted[codes]


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring drawers of a segment, the records of all their rows, and which rows are wanted (None: all)."""

    stretch: DrawerStretch
    row: int
    records: RecordArray
    wanted: Mask | None
    held: SegmentPiece | None = None
    """The whole segment, if it is in memory."""

    @property
    def numbers(self) -> Numbers:
        return self.records["place"].astype(np.int64) + self.stretch.stored.base


def first_damaged(damaged: Mask) -> tuple[int, int]:
    first = int(np.argmax(damaged))
    return first, first + 1


PiecesOf = Callable[[Span, Rows, str], Iterable[SegmentPiece]]
"""Reads the data (or properties) of some ascending rows of a span. The pieces may have more rows."""


def held_span(held: SegmentPiece, choice: Choice, *, low: int, high: int) -> Span:
    """The chosen rows of a whole segment with numbers from low to high (inclusive)."""
    stored, numbers = held.stored, held.numbers
    chosen, lines = choice.of(stored), stored.segment.drawers
    wanted = (numbers >= low) & (numbers <= high)
    if not chosen.all():
        wanted &= np.repeat(chosen, lines["count"])
    return Span(DrawerStretch(stored, 0, len(lines)), 0, held.records, None if wanted.all() else wanted, held)


@dataclass(frozen=True, slots=True)
class SpanRows:
    """The wanted rows of some spans, in order. `rows` are indices into the joined records of all spans."""

    spans: tuple[Span, ...]
    rows: Rows
    numbers: Numbers
    sizes: NDArray[np.int64]
    """Estimated bytes of each row in an answer."""

    def part(self, first: int, last: int) -> SpanRows:
        if first == 0 and last >= len(self.rows):
            return self
        return SpanRows(self.spans, self.rows[first:last], self.numbers[first:last], self.sizes[first:last])

    @property
    def nbytes(self) -> int:
        return sum([span.records.nbytes for span in self.spans]) + 24 * len(self.rows)


def in_number_order(spans: Sequence[Span], *, data: bool, properties: bool) -> SpanRows:
    """The wanted rows of spans, sorted by number, with their estimated sizes in an answer."""
    numbers = joined_arrays([span.numbers for span in spans])
    rows = None
    if any(span.wanted is not None for span in spans):
        rows = np.flatnonzero(joined_arrays([mask_of(span) for span in spans]))
        numbers = numbers[rows]
    order = _order(numbers)
    if order is not None:
        numbers = numbers[order]
        rows = order if rows is None else rows[order]
    elif rows is None:
        rows = np.arange(len(numbers))
    return SpanRows(tuple(spans), rows, numbers, row_sizes(spans, rows, data=data, properties=properties))


def row_sizes(spans: Sequence[Span], rows: Rows, *, data: bool, properties: bool) -> NDArray[np.int64]:
    """Estimated bytes of each of these rows in an answer."""
    sizes = np.full(len(rows), _ROW_BYTES, np.int64)
    for field, asked in (("data_length", data), ("properties_length", properties)):
        if asked:
            sizes += joined_arrays([span.records[field] for span in spans])[rows]
    return sizes


def mask_of(span: Span) -> Mask:
    return np.ones(len(span.records), np.bool_) if span.wanted is None else span.wanted


def _order(numbers: Numbers) -> Rows | None:
    """The order that sorts distinct numbers; None if they are sorted already."""
    if bool((numbers[1:] > numbers[:-1]).all()):
        return None
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= _SCATTERED * len(numbers):
        return np.argsort(numbers, kind="stable")
    place = np.full(high - low + 1, -1, np.int64)
    place[numbers - low] = np.arange(len(numbers))
    return place[place >= 0] if len(place) > len(numbers) else place


def gathered_rows(pieces: PiecesOf, group: SpanRows, columns: Collection[str]) -> Gathered:
    """The rows of a group, with their data and properties if these columns need them."""
    spans, rows = group.spans, group.rows
    stretches = [span.stretch for span in spans]
    cabinets = cabinets_of(stretches)
    names = [stretch.stored.segment.names for stretch in stretches]
    # Copying records as opaque values takes a fifth of the time of field by field.
    records = joined_arrays([span.records.view("V64") for span in spans])[rows].view(RECORD)
    documents, medias = [own.document_types for own in names], [own.media_types for own in names]
    document_types = united([span.records["document_type"] for span in spans], documents)
    media_types = united([span.records["media_type"] for span in spans], medias)
    if len(spans) > 1:
        records["document_type"], records["media_type"] = document_types.codes[rows], media_types.codes[rows]
    has_properties = "properties" in columns and bool(records["properties_length"].any())
    has_properties |= "text_id" in columns and bool((records["flags"] & TEXT_ID).any())
    return Gathered(
        group.numbers,
        records,
        lines_of(stretches)[rows],
        Texts.encode(cabinets.recipient),
        cabinets.origin,
        cabinets.kind,
        document_types.values,
        media_types.values,
        _content(pieces, group, "data") if "data" in columns else None,
        _content(pieces, group, "properties") if has_properties else None,
    )


def lines_of(stretches: Sequence[DrawerStretch]) -> Rows:
    """The drawer of each row, as an index into the drawers of all stretches."""
    counts = joined_arrays([s.stored.segment.drawers["count"][s.first : s.last] for s in stretches])
    return np.repeat(np.arange(len(counts)), counts)


def _content(pieces: PiecesOf, group: SpanRows, field: str) -> pa.LargeBinaryArray:
    """The data (or properties) of the rows of a group, in their order."""
    starts = np.cumsum([0] + [len(span.records) for span in group.spans])
    ascending = np.sort(group.rows)
    borders = np.searchsorted(ascending, starts).tolist()
    position = np.empty(int(starts[-1]), np.int64)
    parts: list[Column] = []
    read = 0
    for span, start, a, b in zip(group.spans, starts.tolist(), borders, borders[1:], strict=False):
        for piece in _of_span(pieces, span, ascending[a:b] - start, field):
            begin, count = start + piece.row - span.row, len(piece.records)
            position[begin : begin + count] = np.arange(read, read + count)
            read += count
            parts.append(piece.data_column() if field == "data" else piece.properties_column())
    joined: Column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    places = position[group.rows]
    if len(places) < len(joined) or not bool((places[1:] > places[:-1]).all()):
        joined = joined.take(column_of(places))
    content: pa.LargeBinaryArray = joined
    return content


def _of_span(pieces: PiecesOf, span: Span, rows: Rows, field: str) -> Iterable[SegmentPiece]:
    if not len(rows):
        return ()
    return (span.held,) if span.held is not None else pieces(span, rows, field)


def joined_arrays(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
