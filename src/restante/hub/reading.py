"""Reading rows of messages from blobs, verifying what is touched."""

from __future__ import annotations

import numpy as np

from restante.errors import DataDamaged
from restante.limits import BLOCK_BYTES
from restante.model.changes import BlobKey, Buffer
from restante.model.piece import Piece, check_records, span
from restante.model.rows import RECORD, RecordArray
from restante.model.run import SegmentRow, Stored
from restante.model.segment import Area, Segment, decode
from restante.ports.store import Store


def read_front(store: Store, blob: BlobKey, place: SegmentRow) -> Segment:
    """A segment's directory."""
    try:
        return decode(bytes(store.read_blob(blob, 0, place.front)))
    except DataDamaged as error:
        message = f"Blob {blob.number} of partition {blob.partition} is damaged: {error.message}"
        raise DataDamaged(message, partition=blob.partition, blob=blob.number) from error


def read_records(store: Store, stored: Stored, first: int, last: int) -> RecordArray:
    """The fixed part of rows first to last (exclusive)."""
    at = stored.segment.records_at
    start, stop = at + first * RECORD.itemsize, at + last * RECORD.itemsize
    records = np.frombuffer(_read_area(store, stored, Area.LEDGER, start, stop), RECORD)
    if len(records):
        check_records(stored, records)
    return records


def read_piece(store: Store, stored: Stored, first: int, last: int) -> Piece:
    """Rows first to last (exclusive) with their data and properties."""
    records = read_records(store, stored, first, last)
    return with_data(store, stored, first, records)


def with_data(store: Store, stored: Stored, first: int, records: RecordArray) -> Piece:
    """The piece of these records, which begin with row `first`."""
    if not len(records):
        return Piece(stored, first, records)
    data = _read_area(store, stored, Area.DATA, *span(records, "data"))
    properties: Buffer = b""
    if records["properties_length"].any():
        start, stop = span(records, "properties")
        at = stored.segment.properties_at
        properties = _read_area(store, stored, Area.LEDGER, at + start, at + stop)
    return Piece(stored, first, records, data, properties)


def _read_area(store: Store, stored: Stored, area: Area, start: int, stop: int) -> Buffer:
    segment = stored.segment
    if stop <= start:
        return b""
    if area is Area.LEDGER and stop <= len(segment.front):
        return segment.front[start:stop]
    offset, length, first, _ = segment.block_range(area, start, stop)
    content = store.read_blob(stored.blob, offset, length)
    bad = segment.bad_block(area, first, content)
    if bad is not None:
        raise damaged_block(stored, area, bad)
    begin = start - first * BLOCK_BYTES
    return memoryview(content)[begin : begin + stop - start]


def damaged_block(stored: Stored, area: Area, block: int) -> DataDamaged:
    drawers = stored.segment.drawers_in(area, block)
    return DataDamaged(
        f"Block {block} of the {area.value} of run {stored.blob.number} (partition {stored.blob.partition}) fails its "
        f"checksum; drawers in it: {', '.join(drawers) or 'none'}. Restore the data folder from a backup.",
        partition=stored.blob.partition,
        run=stored.blob.number,
        block=block,
        drawers=drawers,
    )
