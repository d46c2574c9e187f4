"""The bytes of a segment: that each block is as it was written, and whose mail lies in one that is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from restante.hub.doctor.doctor_findings import named
from restante.limits import BLOCK_BYTES
from restante.model.storage.changes import Buffer
from restante.model.storage.piece import span
from restante.model.storage.row_formats import DRAWER, RECORD, RecordArray
from restante.model.storage.segment import Area, Segment, block_checks

_DRAWERS_NAMED_MAX = 10


class Damage(NamedTuple):
    """A block that fails its checksum."""

    area: Area
    block: int
    drawers: str


def damaged_blocks(segment: Segment, content: Buffer) -> list[Damage]:
    """All damaged blocks of a segment, with the drawers that have something in them."""
    begin = segment.frame_length + segment.ledger_length
    areas = (
        (Area.LEDGER, memoryview(content)[segment.frame_length : begin], segment.checks[: segment.blocks(Area.LEDGER)]),
        (Area.DATA, memoryview(content)[begin:], segment.checks[segment.blocks(Area.LEDGER) :]),
    )
    wrong = [(area, block) for area, part, checks in areas for block in _wrong(part, checks)]
    if not wrong:
        return []
    records = None if any(_in_records(segment, *place) for place in wrong) else records_in(segment, content)
    return [Damage(area, block, _drawers(segment, area, block, records)) for area, block in wrong]


def _in_records(segment: Segment, area: Area, block: int) -> bool:
    start, stop = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES
    return area is Area.LEDGER and start < segment.properties_at and stop > segment.records_at


def _wrong(content: Buffer, checks: NDArray[np.uint64]) -> list[int]:
    found = block_checks(content)
    return [int(block) for block in np.flatnonzero(found != checks[: len(found)])]


def records_in(segment: Segment, content: Buffer) -> RecordArray:
    return np.frombuffer(content, RECORD, segment.rows, segment.frame_length + segment.records_at)


def _drawers(segment: Segment, area: Area, block: int, records: RecordArray | None) -> str:
    start, stop = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES
    if area is Area.DATA:
        return _listed(segment, _of_rows(segment, _rows_with(segment, records, "data", start, stop)))
    found = np.zeros(len(segment.drawers), np.bool_)
    lines = ""
    if start < segment.records_at and segment.damaged is not None:
        found |= segment.damaged
        lines = _unreadable_lines(segment, start, stop)
    if start < segment.properties_at and stop > segment.records_at:
        first, last = max(0, start - segment.records_at), stop - segment.records_at
        found |= _of_rows(segment, range(first // RECORD.itemsize, -(-last // RECORD.itemsize)))
    if stop > segment.properties_at:
        begin = max(0, start - segment.properties_at)
        rows = _rows_with(segment, records, "properties", begin, stop - segment.properties_at)
        found |= _of_rows(segment, rows)
    return lines + _listed(segment, found)


def _unreadable_lines(segment: Segment, start: int, stop: int) -> str:
    first, last = start // DRAWER.itemsize, min(-(-stop // DRAWER.itemsize), len(segment.drawers)) - 1
    return f"lines {first} to {last} of the directory are in it; " if first <= last else ""


def _rows_with(segment: Segment, records: RecordArray | None, field: str, start: int, stop: int) -> range:
    """The rows that have something of a field between these places; all of them, if the records are damaged too."""
    if records is None:
        return range(segment.rows)
    begins = records[f"{field}_start"].astype(np.int64)
    ends = begins + records[f"{field}_length"]
    return range(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(begins, stop, side="left")))


def _of_rows(segment: Segment, rows: range) -> NDArray[np.bool_]:
    """Which drawers have rows among these."""
    first = segment.drawers["row"].astype(np.int64)
    touched: NDArray[np.bool_] = (first < rows.stop) & (first + segment.drawers["count"] > rows.start)
    return touched


def _listed(segment: Segment, drawers: NDArray[np.bool_]) -> str:
    found = np.flatnonzero(drawers).tolist()
    names = ", ".join(dict.fromkeys(drawer_name(segment, drawer) for drawer in found[:_DRAWERS_NAMED_MAX]))
    more = f" and {len(found) - _DRAWERS_NAMED_MAX} more" if len(found) > _DRAWERS_NAMED_MAX else ""
    return f"mailboxes in it: {names}{more}" if found else "no mailbox has messages in it"


def drawer_name(segment: Segment, drawer: int) -> str:
    if segment.damaged is not None and segment.damaged[drawer]:
        return f"drawer {drawer} (unreadable)"
    try:
        return named(segment.cabinet(drawer))
    except (UnicodeDecodeError, IndexError):
        return f"drawer {drawer}"


def span_faults(segment: Segment, records: RecordArray) -> Iterator[str]:
    """Data and properties of the rows fill their areas, one after another, without a gap."""
    lengths = {"data": segment.data_length, "properties": segment.ledger_length - segment.properties_at}
    for field, length in lengths.items():
        sizes = records[f"{field}_length"].astype(np.int64)
        wrong = np.flatnonzero(records[f"{field}_start"] != np.cumsum(sizes) - sizes)
        if len(wrong):
            yield f"The {field} of row {int(wrong[0])} does not begin where that of the row before ends."
        elif span(records, field)[1] != length:
            yield f"The {field} of all rows end at {span(records, field)[1]}, not at {length}."
