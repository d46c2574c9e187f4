"""Rows read from runs: the records of chosen drawers, and the data of exactly the rows that an answer takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import numpy as np

from restante.hub.engine.row_reads import read_data, read_properties, read_records
from restante.limits import BLOCK_BYTES
from restante.model.feed.span_rows import Mask, Rows, Span, SpanRows, first_damaged, gathered_rows
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.gathered import Gathered
from restante.model.storage.merge import DrawerStretch
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD
from restante.model.storage.run import StoredSegment, drawer_numbers
from restante.ports.store import Store

_ROWS_READ_ALONG = BLOCK_BYTES // RECORD.itemsize
"""Two wanted drawers with fewer rows than this between them are read in one go: they share a block, or nearly."""
_BYTES_READ_ALONG = 4 * BLOCK_BYTES


def spans_of(store: Store, stored: StoredSegment, chosen: Mask, *, low: int, high: int) -> Iterator[Span]:
    """The rows of the chosen drawers with numbers from low to high (inclusive)."""
    first, last = drawer_numbers(stored)
    inside = chosen & (first <= high) & (last >= low)
    drawers = np.flatnonzero(inside)
    if not len(drawers):
        return
    lines = stored.segment.drawers
    begin = lines["row"][drawers].astype(np.int64)
    end = begin + lines["count"][drawers]
    borders = np.flatnonzero(begin[1:] - end[:-1] > _ROWS_READ_ALONG) + 1
    whole = bool(((first >= low) & (last <= high))[drawers].all())
    for a, b in zip([0, *borders.tolist()], [*borders.tolist(), len(drawers)], strict=True):
        stretch = DrawerStretch(stored, int(drawers[a]), int(drawers[b - 1]) + 1)
        row = int(begin[a])
        records = read_records(store, stored, row, int(end[b - 1]))
        if whole and stretch.last - stretch.first == b - a:
            yield Span(stretch, row, records, None)
            continue
        counts = lines["count"][stretch.first : stretch.last]
        wanted = np.repeat(inside[stretch.first : stretch.last], counts)
        place = records["place"].astype(np.int64) + stored.base
        yield Span(stretch, row, records, wanted & (place >= low) & (place <= high))


def whole_span(store: Store, stored: StoredSegment) -> Span:
    """All rows of a segment."""
    segment = stored.segment
    if segment.damaged is not None:
        raise damaged_directory(stored, *first_damaged(segment.damaged))
    return Span(DrawerStretch(stored, 0, len(segment.drawers)), 0, read_records(store, stored, 0, segment.rows), None)


def load(store: Store, group: SpanRows, columns: Collection[str]) -> Gathered:
    """The rows of a group, with their data and properties if these columns need them."""
    return gathered_rows(partial(_pieces, store), group, columns)


def _pieces(store: Store, span: Span, rows: Rows, field: str) -> Iterator[SegmentPiece]:
    """Some rows of a span, ascending. Rows that lie near each other are read together."""
    records = span.records
    read = read_data if field == "data" else read_properties
    if len(rows) == len(records):
        yield read(store, span.stretch.stored, span.row, records)
        return
    start = records[f"{field}_start"][rows].astype(np.int64)
    end = start + records[f"{field}_length"][rows]
    borders = np.flatnonzero(start[1:] - end[:-1] > _BYTES_READ_ALONG) + 1
    for a, b in zip([0, *borders.tolist()], [*borders.tolist(), len(rows)], strict=True):
        first, last = int(rows[a]), int(rows[b - 1]) + 1
        yield read(store, span.stretch.stored, span.row + first, records[first:last])
