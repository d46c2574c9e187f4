"""A segment is one immutable blob of sorted rows with the directory of its drawers.

    ┌ frame ─────────────────────┐┌ ledger ───────────────────────────────────────────┐┌ data ────────────┐
    │ header │ names │ checksums ││ drawers │ recipients' texts │ records │ properties ││ data of the rows │
    └────────────────────────────┘└───────────────────────────────────────────────────┘└──────────────────┘
                                   16 KiB blocks, a checksum each (xxh3)                 likewise

The *front* (frame, drawers and texts, up to the end of their last block) is read whole, and cached by `Fronts`; the rest is
read in slices. Ledger and data are verified block by block, as they are read, so a flipped bit harms only the rows in its
block. The frame has its own checksum, because nothing can be read without it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from enum import Enum

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.limits import BLOCK_BYTES
from restante.model.columns.arrow import bytes_of, column_of, content_of, offsets_of, strings, strings_of
from restante.model.columns.hashing import Hashes, text_offsets
from restante.model.storage.changes import Buffer
from restante.model.storage.row_formats import DRAWER, RECORD, DrawerArray, RecordArray
from restante.model.storage.rows import FEW_NAMES, Drawers
from restante.model.storage.segment_frame import (
    HEADER_BYTES,
    EncodedSegment,
    block_sums,
    check_bytes,
    decode_header,
    encode_frame,
    front_length,
)


class Area(Enum):
    LEDGER = "ledger"
    DATA = "data"


class Names(msgspec.Struct, frozen=True, array_like=True):
    """The short texts that rows and drawers refer to by index."""

    origins: list[str]
    kinds: list[str]
    document_types: list[str]
    media_types: list[str]


@dataclass(frozen=True, slots=True)
class Segment:
    """The decoded front of a segment."""

    rows: int
    frame_length: int
    texts_at: int
    records_at: int
    properties_at: int
    ledger_length: int
    data_length: int
    names: Names
    checks: NDArray[np.uint64]
    drawers: DrawerArray
    recipient_hash: Hashes
    recipients: pa.StringArray
    front: memoryview
    """The part of the ledger that belongs to the front."""
    damaged: NDArray[np.bool_] | None
    """Drawers whose line or text is in a damaged block; None if none is."""

    def blocks(self, area: Area) -> int:
        return -(-self._length(area) // BLOCK_BYTES)

    def _length(self, area: Area) -> int:
        return self.ledger_length if area is Area.LEDGER else self.data_length

    def block_range(self, area: Area, start: int, stop: int) -> tuple[int, int, int, int]:
        """The range to read for bytes start to stop of an area: offset and length in the blob, first and last block (exclusive)."""
        first, last = start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)
        begin = self.frame_length + (self.ledger_length if area is Area.DATA else 0)
        end = min(last * BLOCK_BYTES, self._length(area))
        return begin + first * BLOCK_BYTES, end - first * BLOCK_BYTES, first, last

    def bad_block(self, area: Area, first: int, content: Buffer) -> int | None:
        """The first block of `content`, which begins with block `first`, that fails its checksum."""
        begin = first + (self.blocks(Area.LEDGER) if area is Area.DATA else 0)
        found = block_checks(content)
        expected = self.checks[begin : begin + len(found)]
        wrong = np.flatnonzero(found != expected)
        return first + int(wrong[0]) if len(wrong) else None

    def drawers_of(self, rows: slice) -> tuple[str, ...]:
        """The cabinets that have some of these rows, as texts for messages."""
        row = self.drawers["row"].astype(np.int64)
        touched = np.flatnonzero((row < rows.stop) & (row + self.drawers["count"] > rows.start))
        return tuple("/".join(self.cabinet(int(drawer))) for drawer in touched)

    def published(self, at: int) -> Segment:
        """This segment with one publishing time for all rows, in place of the stored times."""
        drawers = self.drawers.copy()
        drawers["earliest_published"] = at
        return replace(self, drawers=drawers)

    def cabinet(self, drawer: int) -> tuple[str, str, str]:
        """Recipient, origin and kind of a drawer."""
        line = self.drawers[drawer]
        return (
            self.recipients[drawer].as_py(),
            self.names.origins[int(line["origin"])],
            self.names.kinds[int(line["kind"])],
        )


def block_checks(content: Buffer) -> NDArray[np.uint64]:
    """The checksum of each block."""
    return np.array(block_sums(content), np.uint64)


def encode(laid: Drawers) -> list[EncodedSegment]:
    """The segments of laid-out rows."""
    lines = _drawer_lines(laid)
    recipients = laid.rows.cabinets.recipient.take(column_of(laid.cabinet))
    borders = np.append(np.flatnonzero(np.diff(laid.segment, prepend=-1)), len(laid.segment)).tolist()
    offsets = binary_offsets(laid.rows.data), binary_offsets(laid.rows.properties)
    shared = _shared_names(laid)
    return [
        _encode_one(laid, lines[a:b], recipients.slice(a, b - a), offsets, shared)
        for a, b in itertools.pairwise(borders)
    ]


def _drawer_lines(laid: Drawers) -> DrawerArray:
    """The directory of all segments together. `_encode_one` makes `row` and `recipient_end` relative to their segment."""
    first, cabinets, records = laid.start[:-1], laid.rows.cabinets, laid.rows.records
    lines = np.zeros(len(first), DRAWER)
    lines["recipient_hash"] = cabinets.recipient_hash[laid.cabinet]
    lines["cabinet_hash"] = cabinets.cabinet_hash[laid.cabinet]
    lines["weight"] = np.add.reduceat(records["weight"].astype(np.uint64), first)
    lines["earliest_expiry"] = np.minimum.reduceat(records["expires_at"], first)
    lines["earliest_published"] = np.minimum.reduceat(records["published_at"], first)
    lines["row"] = first
    lines["count"] = np.diff(laid.start)
    lines["first_place"] = records["place"][first]
    lines["last_place"] = records["place"][laid.start[1:] - 1]
    lines["origin"] = laid.rows.cabinets.origin.codes[laid.cabinet]
    lines["kind"] = laid.rows.cabinets.kind.codes[laid.cabinet]
    lines["reserved"] = laid.group
    return lines


def _encode_one(
    laid: Drawers,
    lines: DrawerArray,
    recipients: pa.StringArray,
    offsets: tuple[NDArray[np.int64], NDArray[np.int64]],
    shared: Names | None,
) -> EncodedSegment:
    start = int(lines["row"][0])
    rows = slice(start, int(lines["row"][-1]) + int(lines["count"][-1]))
    group = int(lines["reserved"][0])
    lines["row"] -= start
    lines["reserved"] = 0
    records = laid.rows.records[rows]
    data = _cut(laid.rows.data, offsets[0], rows, records, "data_start")
    properties = _cut(laid.rows.properties, offsets[1], rows, records, "properties_start")
    names = shared or Names(
        _own_names(laid.rows.cabinets.origin.values, lines, "origin"),
        _own_names(laid.rows.cabinets.kind.values, lines, "kind"),
        _own_names(laid.rows.document_types, records, "document_type"),
        _own_names(laid.rows.media_types, records, "media_type"),
    )
    texts = _recipient_texts(recipients, lines)
    ledger = b"".join([_bytes(lines), texts, _bytes(records), properties])
    front = front_length(lines.nbytes + len(texts), len(ledger))
    lengths = (len(lines), len(texts), len(properties), len(ledger), len(data))
    checks = check_bytes(ledger) + check_bytes(data)
    frame = encode_frame(len(records), lengths, msgspec.msgpack.encode(names), checks)
    rest = (memoryview(ledger)[front:], data)
    return EncodedSegment(group, len(records), frame + ledger[:front], rest, len(frame) + len(ledger) + len(data))


def _bytes(table: NDArray[np.void]) -> memoryview:
    """The bytes of a table, without a copy."""
    return table.view(np.uint8).data.cast("B")


def binary_offsets(column: pa.LargeBinaryArray | None) -> NDArray[np.int64]:
    return np.zeros(1, np.int64) if column is None else offsets_of(column).astype(np.int64, copy=False)


def _cut(
    column: pa.LargeBinaryArray | None, offsets: NDArray[np.int64], rows: slice, records: RecordArray, field: str
) -> memoryview:
    """The bytes of some rows of a column, without copying. Sets `field` of the records to the start of each row."""
    if column is None:
        records[field] = 0
        return memoryview(b"")
    records[field] = offsets[rows] - offsets[rows.start]
    return content_of(column)[int(offsets[rows.start]) : int(offsets[rows.stop])]


def _recipient_texts(recipients: pa.StringArray, lines: DrawerArray) -> bytes:
    offsets = text_offsets(recipients)
    lines["recipient_end"] = offsets[1:] - offsets[0]
    return bytes(bytes_of(recipients))


def _shared_names(laid: Drawers) -> Names | None:
    """The names of all segments together if they are few, because renumbering them for each segment would not pay."""
    rows = laid.rows
    columns = (rows.cabinets.origin.values, rows.cabinets.kind.values, rows.document_types, rows.media_types)
    if any(len(values) > FEW_NAMES for values in columns):
        return None
    return Names(*(strings_of(values) for values in columns))


def _own_names(values: pa.StringArray, table: NDArray[np.void], field: str) -> list[str]:
    """The names that this segment uses, renumbered; a short list is kept whole."""
    if len(values) <= FEW_NAMES:
        return strings_of(values)
    used, codes = np.unique(table[field], return_inverse=True)
    table[field] = codes
    return strings_of(values.take(column_of(used)))


def decode(front: bytes, *, trusted: bool = False) -> Segment:
    """Decode a front; `DataDamaged` for any invalid bytes.

    A front that this process has just encoded is `trusted`, and not verified.
    """
    rows, drawers, packed, texts, properties, ledger, data, frame = decode_header(front)
    texts_at, at = drawers * DRAWER.itemsize, HEADER_BYTES + packed
    records_at = texts_at + texts
    blocks = -(-ledger // BLOCK_BYTES) + -(-data // BLOCK_BYTES)
    expected = records_at + rows * RECORD.itemsize + properties
    if ledger != expected or at + 8 * blocks > frame or len(front) != frame + front_length(records_at, ledger):
        raise DataDamaged("A segment's lengths contradict each other.")
    checks = np.frombuffer(front, np.uint64, blocks, at)
    lines = np.frombuffer(front, DRAWER, drawers, frame)
    damaged = None if trusted else _damaged_drawers(memoryview(front)[frame:], checks, lines, texts_at)
    if damaged is not None:
        lines = _without_damage(lines, damaged)
    names = decode_names(front[HEADER_BYTES:at])
    if not trusted:
        _check_lines(lines, names, rows, texts)
    ends = np.append(np.zeros(1, np.int32), lines["recipient_end"].astype(np.int32))
    recipients = strings(ends, memoryview(front)[frame + texts_at : frame + records_at])
    if not trusted:
        _check_texts(recipients)
    hashes = np.ascontiguousarray(lines["recipient_hash"])
    return Segment(
        rows,
        frame,
        texts_at,
        records_at,
        ledger - properties,
        ledger,
        data,
        names,
        checks,
        lines,
        hashes,
        recipients,
        memoryview(front)[frame:],
        damaged,
    )


def unreadable(rows: int) -> Segment:
    """A stand-in for a segment whose front cannot be read: one damaged drawer, of any recipient."""
    lines, empty = np.zeros(1, DRAWER), memoryview(b"")
    names, texts = Names([""], [""], [], []), strings(np.zeros(2, np.int32), b"")
    checks, damaged = np.zeros(0, np.uint64), np.ones(1, np.bool_)
    return Segment(rows, 0, 0, 0, 0, 0, 0, names, checks, lines, np.zeros(1, np.uint64), texts, empty, damaged)


def _check_texts(texts: pa.StringArray) -> None:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataDamaged("A segment's texts make no sense.") from error


def decode_names(packed: bytes) -> Names:
    try:
        return packed_decoder(Names).decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged("A segment's names make no sense.") from error


def _damaged_drawers(
    content: memoryview, checks: NDArray[np.uint64], lines: DrawerArray, texts_at: int
) -> NDArray[np.bool_] | None:
    """The drawers whose line or text is in a damaged block of the directory; None if no block is damaged."""
    wrong = np.flatnonzero((found := block_checks(content)) != checks[: len(found)])
    if not len(wrong):
        return None
    damaged = np.isin(np.arange(len(lines)) * DRAWER.itemsize // BLOCK_BYTES, wrong)
    ends = np.where(damaged, 0, lines["recipient_end"]).astype(np.int64) + texts_at
    starts = np.append(texts_at, ends[:-1])
    for block in wrong.tolist():
        damaged |= (starts < (block + 1) * BLOCK_BYTES) & (ends > block * BLOCK_BYTES)
    damaged[1:] |= damaged[:-1] & (starts[1:] == texts_at)
    return damaged


def _without_damage(lines: DrawerArray, damaged: NDArray[np.bool_]) -> DrawerArray:
    """The lines with the damaged ones made harmless: empty, with the hash of the line before."""
    mended = lines.copy()
    mended[damaged] = np.zeros(1, DRAWER)
    for field in ("recipient_hash", "recipient_end"):
        mended[field] = np.maximum.accumulate(mended[field])
    return mended


def _check_lines(lines: DrawerArray, names: Names, rows: int, texts: int) -> None:
    """Refuse a directory that no encoder wrote, even if its checksums are right."""
    ends, count = lines["recipient_end"].astype(np.int64), lines["count"].astype(np.int64)
    sound = (
        len(lines) > 0
        and bool((np.diff(ends) >= 0).all())
        and int(ends[-1]) <= texts
        and bool((lines["row"] + count <= rows).all())
        and bool((lines["recipient_hash"][1:] >= lines["recipient_hash"][:-1]).all())
        and int(lines["origin"].max()) < max(1, len(names.origins))
        and int(lines["kind"].max()) < max(1, len(names.kinds))
    )
    if not sound:
        raise DataDamaged("A segment's directory makes no sense.")
