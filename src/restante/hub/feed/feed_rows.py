"""Reading rows for the feed and for snapshots, in two steps.

`spans_of` (or `whole_span`) reads the records of the chosen drawers: enough to sort rows by number, to add up sizes, and to
decide where an answer ends. `load` then reads data and properties of exactly the rows that the answer takes.

Neighbouring tiny runs are joined by `joined_span` row by row, as filing does, and read as one run: for a follower of single
publishes, opening each run would cost more than reading its rows. A joined span exists only in memory, so it holds all of
its content (`Span.held`).

What must stay true: in a segment, records lie in the order of the drawers, and data and properties in the order of the
records. So drawers next to each other, or rows next to each other, can be read at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np

from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.core import Core
from restante.hub.engine.row_reads import read_data, read_properties, read_records
from restante.limits import BLOCK_BYTES, COMMIT_FEW_BYTES_MAX
from restante.model.columns.arrays import Mask, Rows
from restante.model.feed.gathered_messages import Gathered
from restante.model.feed.span_rows import Span, SpanRows, first_damaged, gathered_rows
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.changes import BlobKey
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.merge import DrawerStretch
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD
from restante.model.storage.run import Run, StoredSegment, drawer_numbers
from restante.model.storage.segment_frame import EncodedSegment
from restante.ports.store import Store

_ROWS_READ_ALONG = BLOCK_BYTES // RECORD.itemsize
"""Two wanted drawers with at most this many rows between them are read together, because their blocks are adjacent."""
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
    # A new read begins where too many unwanted rows lie between two wanted drawers.
    borders = np.flatnonzero(begin[1:] - end[:-1] > _ROWS_READ_ALONG) + 1
    whole = bool(((first >= low) & (last <= high))[drawers].all())
    for a, b in zip([0, *borders.tolist()], [*borders.tolist(), len(drawers)], strict=True):
        stretch = DrawerStretch(stored, int(drawers[a]), int(drawers[b - 1]) + 1)
        row = int(begin[a])
        records = read_records(store, stored, row, int(end[b - 1]))
        # Without a mask, all drawers of the stretch are wanted, with all their rows.
        if whole and stretch.last - stretch.first == b - a:
            yield Span(stretch, row, records, None)
            continue
        counts = lines["count"][stretch.first : stretch.last]
        wanted = np.repeat(inside[stretch.first : stretch.last], counts)
        place = records["place"].astype(np.int64) + stored.base
        yield Span(stretch, row, records, wanted & (place >= low) & (place <= high))


def whole_span(store: Store, stored: StoredSegment) -> Span:
    """The span of all rows of a segment."""
    segment = stored.segment
    if segment.damaged is not None:
        raise damaged_directory(stored, *first_damaged(segment.damaged))
    return Span(DrawerStretch(stored, 0, len(segment.drawers)), 0, read_records(store, stored, 0, segment.rows), None)


def load(store: Store, group: SpanRows, columns: Collection[str]) -> Gathered:
    """The rows of a group, with their data and properties if these columns need them."""
    return gathered_rows(partial(_pieces, store), group, columns)


def _pieces(store: Store, span: Span, rows: Rows, field: str) -> Iterator[SegmentPiece]:
    """Read some ascending rows of a span. Rows that are close together are read at once, with those between them."""
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


_ROWS_MAX = 16
"""Runs with more rows than this are read as columns, which is as fast."""


def is_tiny(run: Run) -> bool:
    """Whether a run is small enough to be joined, and its records say when they were published."""
    row = run.row
    return row.rows <= _ROWS_MAX and row.length <= COMMIT_FEW_BYTES_MAX // _ROWS_MAX and not row.published_at


def joined_span(core: Core, partition: int, runs: Sequence[Run]) -> Span | None:
    """All rows of tiny runs as one span in memory; None if that fails: then the caller reads the runs as columns."""
    names, base = NameTable(core.deed.key), runs[0].row.first
    handful = Handful(names)
    try:
        for run in runs:
            for stored, place in zip(run.segments, run.row.segments, strict=True):
                content = bytes(core.store.read_blob(stored.blob, 0, place.length))
                handful.add_segment(content, stored.base - base)
    except (DataDamaged, FormatUnsupported):
        return None
    encoded = handful.encoded(partition, names.encoded())
    return None if encoded is None else _span(encoded, base)


def _span(encoded: EncodedSegment, base: int) -> Span:
    # The joined segment is in no blob, so blob number 0 is never read: all content is in `held`.
    stored = StoredSegment(BlobKey(encoded.group, 0), base, encoded.front)
    segment, content = stored.segment, memoryview(b"".join(encoded.parts))
    ledger = content[segment.frame_length :]
    records = np.frombuffer(ledger, RECORD, encoded.rows, segment.records_at)
    properties = ledger[segment.properties_at : segment.ledger_length]
    held = SegmentPiece(stored, 0, records, ledger[segment.ledger_length :], properties)
    return Span(DrawerStretch(stored, 0, len(segment.drawers)), 0, records, None, held)
