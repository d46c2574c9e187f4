"""`joined` makes one segment of small segments with the same names, without decoding their messages.

Most mailbags of small publishes have the same names. Then only the place and the offsets of each record change, which are
column operations. `Handful` makes a segment with the same messages in the same order; tests check that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from restante.errors import DataDamaged
from restante.model.storage.row_formats import DRAWER, RECORD
from restante.model.storage.segment_frame import (
    HEADER_BYTES,
    EncodedSegment,
    check_bytes,
    decode_header,
    encode_frame,
    front_length,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from restante.model.storage.row_formats import DrawerArray, RecordArray

_LINE_BYTES = 72
_RECORD_BYTES = 64
assert DRAWER.itemsize == _LINE_BYTES
assert RECORD.itemsize == _RECORD_BYTES


class _Parts:
    """The parts of some segments, one after the other."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.texts: list[bytes] = []
        self.records: list[bytes] = []
        self.properties: list[bytes] = []
        self.data: list[bytes] = []
        self.line_counts: list[int] = []
        self.row_counts: list[int] = []

    def add(self, content: bytes, names: bytes) -> bool:
        """Add the next segment; return False if it has other names."""
        count, drawers, packed, texts, _, ledger, _, frame = decode_header(content)
        checks_at, end = HEADER_BYTES + packed, frame + ledger
        if content[HEADER_BYTES:checks_at] != names:
            return False
        data = content[end:]
        checks = check_bytes(content[frame:end]) + check_bytes(data)
        if content[checks_at : checks_at + len(checks)] != checks:
            raise DataDamaged("A segment is not as it was written.")
        texts_at = frame + drawers * _LINE_BYTES
        records_at = texts_at + texts
        properties_at = records_at + count * _RECORD_BYTES
        self.lines.append(content[frame:texts_at])
        self.texts.append(content[texts_at:records_at])
        self.records.append(content[records_at:properties_at])
        self.properties.append(content[properties_at:end])
        self.data.append(data)
        self.line_counts.append(drawers)
        self.row_counts.append(count)
        return True


def joined(contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
    """Join segments in order. `shifts` says by how much the places of each are shifted.

    None if their names differ, or the hashes of two cabinets collide. Raises `DataDamaged` if a checksum is wrong.
    """
    packed = decode_header(contents[0])[2]
    names = contents[0][HEADER_BYTES : HEADER_BYTES + packed]
    parts = _Parts()
    for content in contents:
        if not parts.add(content, names):
            return None
    shift = np.array(shifts, np.uint32)
    directory = _directory(parts, shift)
    if directory is None:
        return None
    lines, texts, order = directory
    records, properties, data = _rows(parts, order, shift)
    ledger = b"".join([lines.tobytes(), texts, records.tobytes(), properties])
    lengths = (len(lines), len(texts), len(properties), len(ledger), len(data))
    frame = encode_frame(len(records), lengths, names, check_bytes(ledger) + check_bytes(data))
    front = front_length(lines.nbytes + len(texts), len(ledger))
    rest = (data,) if front == len(ledger) else (ledger[front:], data)
    recipients = frozenset(lines["recipient_hash"].tolist())
    length = len(frame) + len(ledger) + len(data)
    return EncodedSegment(group, len(records), frame + ledger[:front], rest, length, recipients)


def _directory(parts: _Parts, shift: NDArray[np.uint32]) -> tuple[DrawerArray, bytes, NDArray[np.int64]] | None:
    """The joined lines, the recipients' texts, and the old row of each new row; None if hashes collide."""
    table = np.frombuffer(b"".join(parts.lines), DRAWER)
    segment = np.repeat(np.arange(len(parts.lines)), parts.line_counts)
    # The sort is stable, so lines of one cabinet stay in the order of their segments.
    order = np.lexsort((table["cabinet_hash"], table["recipient_hash"]))
    lines, segment = table.view(f"V{_LINE_BYTES}")[order].view(DRAWER), segment[order]
    first = np.flatnonzero(_begins(lines))
    last = np.append(first[1:], len(lines)) - 1
    texts = _texts(parts, table, order)
    if not _are_alike(lines, texts, first):
        return None
    lines["first_place"] += shift[segment]
    lines["last_place"] += shift[segment]
    order = _expanded(lines["row"] + _before(parts.row_counts)[segment], lines["count"].astype(np.int64))
    drawers, own = lines[first], [texts[line] for line in first.tolist()]
    drawers["weight"] = np.add.reduceat(lines["weight"], first)
    drawers["earliest_expiry"] = np.minimum.reduceat(lines["earliest_expiry"], first)
    drawers["earliest_published"] = np.minimum.reduceat(lines["earliest_published"], first)
    drawers["count"] = np.add.reduceat(lines["count"], first)
    drawers["row"] = np.cumsum(drawers["count"]) - drawers["count"]
    drawers["last_place"] = lines["last_place"][last]
    drawers["recipient_end"] = np.cumsum([len(text) for text in own])
    return drawers, b"".join(own), order


def _begins(lines: DrawerArray) -> NDArray[np.bool_]:
    """For each line, whether its hashes differ from those of the line before, so that a new cabinet begins."""
    begins = np.ones(len(lines), np.bool_)
    recipient, cabinet = lines["recipient_hash"], lines["cabinet_hash"]
    begins[1:] = (recipient[1:] != recipient[:-1]) | (cabinet[1:] != cabinet[:-1])
    return begins


def _texts(parts: _Parts, table: DrawerArray, order: NDArray[np.int64]) -> list[bytes]:
    """The recipients of the lines, in this order."""
    begins, counts = _before([len(texts) for texts in parts.texts]), np.array(parts.line_counts)
    end = table["recipient_end"] + np.repeat(begins, counts)
    start = np.empty_like(end)
    start[1:] = end[:-1]
    start[np.cumsum(counts) - counts] = begins
    content = b"".join(parts.texts)
    return [content[at:until] for at, until in zip(start[order].tolist(), end[order].tolist(), strict=True)]


def _are_alike(lines: DrawerArray, texts: list[bytes], first: NDArray[np.int64]) -> bool:
    """Whether lines with equal hashes belong to one cabinet, so that no hashes collide."""
    head = np.repeat(first, np.diff(first, append=len(lines)))
    same = (lines["origin"] == lines["origin"][head]) & (lines["kind"] == lines["kind"][head])
    return bool(same.all()) and texts == [texts[line] for line in head.tolist()]


def _before(lengths: Sequence[int]) -> NDArray[np.int64]:
    """The offset of each item when items of these lengths are placed one after another."""
    own = np.array(lengths, np.int64)
    return np.cumsum(own) - own


def _expanded(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, … of each (start, count), one after another."""
    ends = np.cumsum(counts)
    steps: NDArray[np.int64] = np.arange(ends[-1])
    steps += np.repeat(starts - (ends - counts), counts)
    return steps


def _rows(parts: _Parts, order: NDArray[np.int64], shifts: NDArray[np.uint32]) -> tuple[RecordArray, bytes, bytes]:
    """The records in their new order, and their properties and data joined."""
    segment = np.repeat(np.arange(len(parts.row_counts)), parts.row_counts)[order]
    records = np.frombuffer(b"".join(parts.records), f"V{_RECORD_BYTES}")[order].view(RECORD)
    records["place"] += shifts[segment]
    data = _moved(records, "data", parts.data, segment)
    properties = _moved(records, "properties", parts.properties, segment)
    return records, properties, data


def _moved(records: RecordArray, what: str, contents: Sequence[bytes], segment: NDArray[Any]) -> bytes:
    """Copy the bytes of each record in the new order, and set their new offsets in the records."""
    content = b"".join(contents)
    if not content:
        return b""
    length = records[f"{what}_length"].astype(np.int64)
    start = records[f"{what}_start"] + _before([len(own) for own in contents])[segment]
    records[f"{what}_start"] = np.cumsum(length) - length
    return b"".join([content[at:end] for at, end in zip(start.tolist(), (start + length).tolist(), strict=True)])
