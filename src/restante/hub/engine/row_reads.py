"""Reading rows of messages from blobs. The checksum of every block that is read is verified."""

from __future__ import annotations

import logging

import numpy as np

from restante.errors import DataDamaged
from restante.limits import BLOCK_BYTES
from restante.model.storage.changes import BlobKey, Buffer
from restante.model.storage.piece import SegmentPiece, check_records, span
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.run import SegmentRow, StoredSegment
from restante.model.storage.segment import Area, Segment, decode, unreadable
from restante.ports.store import StoreReader

_log = logging.getLogger(__name__)
_DRAWERS_LISTED = 10


def read_front(store: StoreReader, blob: BlobKey, place: SegmentRow) -> Segment:
    """A segment's directory; if it cannot be read, an `unreadable` one, so that reads of other segments still work."""
    try:
        return decode(bytes(store.read_blob(blob, 0, place.front)))
    except DataDamaged as error:
        _log.error("Blob %d of partition %d is damaged: %s", blob.number, blob.partition, error.message)
        return unreadable(place.rows)


def read_records(store: StoreReader, stored: StoredSegment, first: int, last: int) -> RecordArray:
    """The fixed part of rows first to last (exclusive)."""
    at = stored.segment.records_at
    start, stop = at + first * RECORD.itemsize, at + last * RECORD.itemsize
    records = np.frombuffer(_read_area(store, stored, Area.LEDGER, start, stop), RECORD)
    if stored.published_at:
        records = records.copy()
        records["published_at"] = stored.published_at
    if len(records):
        check_records(stored, records)
    return records


def read_piece(store: StoreReader, stored: StoredSegment, first: int, last: int) -> SegmentPiece:
    """Rows first to last (exclusive) with their data and properties."""
    records = read_records(store, stored, first, last)
    return with_data(store, stored, first, records)


def with_data(store: StoreReader, stored: StoredSegment, first: int, records: RecordArray) -> SegmentPiece:
    """These records, the first of which is row `first`, with their data and properties."""
    if not len(records):
        return SegmentPiece(stored, first, records)
    data = _read_area(store, stored, Area.DATA, *span(records, "data"))
    properties: Buffer = b""
    if records["properties_length"].any():
        start, stop = span(records, "properties")
        at = stored.segment.properties_at
        properties = _read_area(store, stored, Area.LEDGER, at + start, at + stop)
    return SegmentPiece(stored, first, records, data, properties)


def read_data(store: StoreReader, stored: StoredSegment, first: int, records: RecordArray) -> SegmentPiece:
    """These records, the first of which is row `first`, with their data and without properties."""
    data = _read_area(store, stored, Area.DATA, *span(records, "data")) if len(records) else b""
    return SegmentPiece(stored, first, records, data)


def read_properties(store: StoreReader, stored: StoredSegment, first: int, records: RecordArray) -> SegmentPiece:
    """These records, the first of which is row `first`, with their properties and without data."""
    start, stop = span(records, "properties") if len(records) else (0, 0)
    at = stored.segment.properties_at
    return SegmentPiece(
        stored, first, records, properties=_read_area(store, stored, Area.LEDGER, at + start, at + stop)
    )


def _read_area(store: StoreReader, stored: StoredSegment, area: Area, start: int, stop: int) -> Buffer:
    segment = stored.segment
    if stop <= start:
        return b""
    # The front was verified when it was read. If part of it is damaged, read the block again, to raise for just that part.
    if area is Area.LEDGER and stop <= len(segment.front) and segment.damaged is None:
        return segment.front[start:stop]
    offset, length, first, _ = segment.block_range(area, start, stop)
    content = store.read_blob(stored.blob, offset, length)
    bad = segment.bad_block(area, first, content)
    if bad is not None:
        raise damaged_block(store, stored, area, bad)
    begin = start - first * BLOCK_BYTES
    return memoryview(content)[begin : begin + stop - start]


def damaged_block(store: StoreReader, stored: StoredSegment, area: Area, block: int) -> DataDamaged:
    """The error for a damaged block. It lists the drawers in the block."""
    drawers = stored.segment.drawers_of(_rows_in(store, stored, area, block))
    listed = ", ".join(drawers[:_DRAWERS_LISTED]) + (", …" if len(drawers) > _DRAWERS_LISTED else "")
    return DataDamaged(
        f"Block {block} of the {area.value} of run {stored.blob.number} (partition {stored.blob.partition}) fails its "
        f"checksum; mailboxes in it: {listed or 'none'}. Restore the data folder from a backup.",
        partition=stored.blob.partition,
        run=stored.blob.number,
        block=block,
        drawers=drawers,
    )


def _rows_in(store: StoreReader, stored: StoredSegment, area: Area, block: int) -> slice:
    """The rows that have bytes in a block; all rows, if the index of the block is damaged too."""
    segment = stored.segment
    start, stop = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES
    if area is Area.LEDGER and start < segment.properties_at:
        at, size = segment.records_at, RECORD.itemsize
        return slice(max(0, (start - at) // size), max(0, min(segment.rows, -(-(stop - at) // size))))
    field, begin = ("data", 0) if area is Area.DATA else ("properties", segment.properties_at)
    try:
        records = read_records(store, stored, 0, segment.rows)
    except DataDamaged:
        return slice(0, segment.rows)
    first = records[f"{field}_start"].astype(np.int64) + begin
    inside = np.flatnonzero((first < stop) & (first + records[f"{field}_length"] > start))
    return slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 0)
