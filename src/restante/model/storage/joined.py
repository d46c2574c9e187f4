"""Small segments that have the same names, joined into one without taking their messages apart.

Most mailbags of small publishes have the same names. Then a message's record stays as it is but for its place and where its
data lies, and those are numbers of a column. What `handful` makes of the same segments holds the same messages in the same
order; tests hold both to that.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.model.storage.row_formats import DRAWER, RECORD, RecordArray
from restante.model.storage.segment_frame import (
    HEADER_BYTES,
    EncodedSegment,
    check_bytes,
    decode_header,
    encode_frame,
    front_length,
)

_DRAWER = struct.Struct("<QQQqqIIIIIIII")
_LINE_BYTES = 72
_RECORD_BYTES = 64
assert _DRAWER.size == DRAWER.itemsize == _LINE_BYTES
assert RECORD.itemsize == _RECORD_BYTES

_Line = tuple[int, ...]
_Key = tuple[int, int, bytes, int, int]
"""Hashes of recipient and cabinet, recipient, origin and kind."""


class _Parts:
    """The parts of some segments, one after the other."""

    def __init__(self) -> None:
        self.drawers: dict[_Key, list[_Line]] = {}
        """The lines of each cabinet, with rows and places as they are counted over all segments."""
        self.records: list[bytes] = []
        self.properties: list[bytes] = []
        self.data: list[bytes] = []
        self.count = 0
        self.counts: list[int] = []
        self.properties_at: list[int] = []
        self.data_at: list[int] = []
        self._properties_end = self._data_end = 0

    def add(self, content: bytes, names: bytes, shift: int) -> bool:
        """The next segment; False if its names are others."""
        count, drawers, packed, texts, _, ledger, _, frame = decode_header(content)
        if content[HEADER_BYTES : HEADER_BYTES + packed] != names:
            return False
        texts_at = frame + drawers * _LINE_BYTES
        records_at, end = texts_at + texts, frame + ledger
        checks = check_bytes(content[frame:end]) + check_bytes(content[end:])
        if content[HEADER_BYTES + packed : HEADER_BYTES + packed + len(checks)] != checks:
            raise DataDamaged("A segment is not as it was written.")
        begin, rows, found = texts_at, self.count, self.drawers
        for line in _DRAWER.iter_unpack(content[frame:texts_at]):
            (
                recipient_hash,
                cabinet_hash,
                weight,
                expiry,
                published,
                row,
                own,
                first,
                last,
                text_end,
                origin,
                kind,
                _,
            ) = line
            key = (recipient_hash, cabinet_hash, content[begin : texts_at + text_end], origin, kind)
            begin = texts_at + text_end
            lines = found.get(key)
            if lines is None:
                lines = found[key] = []
            lines.append((weight, expiry, published, row + rows, own, first + shift, last + shift))
        properties_at = records_at + count * _RECORD_BYTES
        self.records.append(content[records_at:properties_at])
        self._lie(content[properties_at:end], content[end:])
        self.counts.append(count)
        self.count += count
        return True

    def _lie(self, properties: bytes, data: bytes) -> None:
        self.properties.append(properties)
        self.properties_at.append(self._properties_end)
        self._properties_end += len(properties)
        self.data.append(data)
        self.data_at.append(self._data_end)
        self._data_end += len(data)


def joined(contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
    """Segments as one, in order; `shifts` are what the places of each grow by.

    None if they have different names, or if the hashes of two cabinets collide. `DataDamaged` if one is not as it was written.
    """
    packed = decode_header(contents[0])[2]
    names = contents[0][HEADER_BYTES : HEADER_BYTES + packed]
    parts = _Parts()
    for content, shift in zip(contents, shifts, strict=True):
        if not parts.add(content, names, shift):
            return None
    drawers = sorted(parts.drawers.items())
    if len({key[:2] for key, _ in drawers}) < len(drawers):
        return None
    lines, texts, order = _directory(drawers)
    records, properties, data = _rows(parts, np.array(order, np.int64), np.array(shifts, np.uint32))
    ledger = b"".join([*lines, texts, records.tobytes(), properties])
    lengths = (len(lines), len(texts), len(properties), len(ledger), len(data))
    frame = encode_frame(parts.count, lengths, names, check_bytes(ledger) + check_bytes(data))
    front = front_length(len(lines) * _LINE_BYTES + len(texts), len(ledger))
    rest = (data,) if front == len(ledger) else (ledger[front:], data)
    recipients = frozenset([key[0] for key, _ in drawers])
    length = len(frame) + len(ledger) + len(data)
    return EncodedSegment(group, parts.count, frame + ledger[:front], rest, length, recipients)


def _directory(drawers: Sequence[tuple[_Key, list[_Line]]]) -> tuple[list[bytes], bytes, list[int]]:
    """The lines, the texts of the recipients, and of each row in its new order where it was."""
    lines, texts, order = list[bytes](), bytearray(), list[int]()
    for (recipient_hash, cabinet_hash, recipient, origin, kind), own in drawers:
        weight, expiry, published, row, count, first, last = own[0]
        at = len(order)
        order.extend(range(row, row + count))
        for more in own[1:]:
            weight, expiry, published = weight + more[0], min(expiry, more[1]), min(published, more[2])
            order.extend(range(more[3], more[3] + more[4]))
            last = more[6]
        texts += recipient
        lines.append(
            _DRAWER.pack(
                recipient_hash,
                cabinet_hash,
                weight,
                expiry,
                published,
                at,
                len(order) - at,
                first,
                last,
                len(texts),
                origin,
                kind,
                0,
            )
        )
    return lines, bytes(texts), order


def _rows(parts: _Parts, order: NDArray[np.int64], shifts: NDArray[np.uint32]) -> tuple[RecordArray, bytes, bytes]:
    """The records in their new order, and their properties and data joined."""
    segment = np.repeat(np.arange(len(parts.counts)), parts.counts)[order]
    records = np.frombuffer(b"".join(parts.records), RECORD)[order]
    records["place"] += shifts[segment]
    data = _moved(records, "data", b"".join(parts.data), np.array(parts.data_at, np.int64)[segment])
    properties = _moved(
        records, "properties", b"".join(parts.properties), np.array(parts.properties_at, np.int64)[segment]
    )
    return records, properties, data


def _moved(records: RecordArray, what: str, content: bytes, base: NDArray[np.int64]) -> bytes:
    """Copy the bytes of each record one after the other, and write into the records where they lie now."""
    length = records[f"{what}_length"].astype(np.int64)
    start = records[f"{what}_start"] + base
    records[f"{what}_start"] = np.cumsum(length) - length
    if not content:
        return b""
    return b"".join([content[at:end] for at, end in zip(start.tolist(), (start + length).tolist(), strict=True)])
