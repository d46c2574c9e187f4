"""A handful of messages as one segment: the bytes that `segment.encode` gives, without a column.

A column costs the same for one row as for thousands. Here everything is done row by row, with plain numbers, so that
a commit of few messages, and the filing of few, cost what their messages cost. Tests hold both ways to the same.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from restante.errors import DataDamaged
from restante.model.hashing import combine_one, fingerprint, text_hash
from restante.model.letter import Letter
from restante.model.rows import DRAWER, RECORD
from restante.model.segment import (
    HEADER_BYTES,
    Encoded,
    Names,
    check_bytes,
    decode_header,
    decode_names,
    encode_frame,
    front_length,
)

_WORDS = struct.Struct("<2Q")
_RECORD = struct.Struct("<16sqqIiIIIIIHBB")
_DRAWER = struct.Struct("<QQQqqIIIIIIII")
assert _RECORD.size == RECORD.itemsize
assert _DRAWER.size == DRAWER.itemsize


class Routed(msgspec.Struct, frozen=True, gc=False):
    """A letter with its id, its recipient's hash, where it goes, and what identifies it."""

    letter: Letter
    id: bytes
    recipient_hash: int
    partition: int
    fingerprint: int


def route(letter: Letter, own_id: bytes, *, recipient_hash: int, partition: int) -> Routed:
    return Routed(letter, own_id, recipient_hash, partition, fingerprint(recipient_hash, *_WORDS.unpack(own_id)))


class NameTable:
    """The distinct names of some handfuls, each with its place, in the order of their first appearance."""

    __slots__ = ("_hashes", "_key", "document_types", "kinds", "media_types", "origins")

    def __init__(self, key: int) -> None:
        self.origins: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.document_types: dict[str, int] = {}
        self.media_types: dict[str, int] = {}
        self._key = key
        self._hashes: dict[str, int] = {}

    def encoded(self) -> bytes:
        lists = (self.origins, self.kinds, self.document_types, self.media_types)
        return msgspec.msgpack.encode(Names(*(list(names) for names in lists)))

    def cabinet_hash(self, recipient_hash: int, origin: str, kind: str) -> int:
        return combine_one(combine_one(recipient_hash, self._hash(origin)), self._hash(kind))

    def _hash(self, name: str) -> int:
        found = self._hashes.get(name)
        if found is None:
            found = self._hashes[name] = text_hash(name, self._key)
        return found


def code_of(name: str, names: dict[str, int]) -> int:
    return names.setdefault(name, len(names))


class _Row(NamedTuple):
    id: bytes
    expires_at: int
    published_at: int
    place: int
    weight: int
    document_type: int
    media_type: int
    flags: int
    data: bytes
    properties: bytes


class _Drawer(NamedTuple):
    """What is alike in all rows of a cabinet, and the rows."""

    recipient_hash: int
    cabinet_hash: int
    recipient: str
    origin: int
    kind: int
    rows: list[_Row]


class Handful:
    """Rows by cabinet, those of each in the order in which they came."""

    __slots__ = ("_drawers", "_names", "count")

    def __init__(self, names: NameTable) -> None:
        self._names = names
        self._drawers: dict[tuple[str, str, str], _Drawer] = {}
        self.count = 0

    def add_letter(self, routed: Routed, published_at: int) -> None:
        """The next one to arrive."""
        letter, names = routed.letter, self._names
        cabinet = (letter.recipient, letter.origin, letter.kind)
        drawer = self._drawers.get(cabinet)
        if drawer is None:
            own = names.cabinet_hash(routed.recipient_hash, letter.origin, letter.kind)
            drawer = self._open(cabinet, routed.recipient_hash, own)
        row = _Row(
            routed.id,
            letter.expires_at,
            published_at,
            self.count,
            letter.weight,
            code_of(letter.document_type, names.document_types),
            code_of(letter.media_type, names.media_types),
            letter.flags,
            letter.data,
            letter.properties,
        )
        drawer.rows.append(row)
        self.count += 1

    def add_segment(self, content: bytes, shift: int) -> None:
        """All rows of a segment that comes after those before it; `shift` is what their places grow by.

        `DataDamaged` if it is not as it was written.
        """
        count, drawers, packed, texts, _, ledger, _, frame = decode_header(content)
        checks = check_bytes(content[frame : frame + ledger]) + check_bytes(content[frame + ledger :])
        if content[HEADER_BYTES + packed : HEADER_BYTES + packed + len(checks)] != checks:
            raise DataDamaged("A segment is not as it was written.")
        names = decode_names(content[HEADER_BYTES : HEADER_BYTES + packed])
        texts_at = frame + drawers * _DRAWER.size
        rows = _rows(content, texts_at + texts, frame + ledger, count)
        begin = 0
        for line in _DRAWER.iter_unpack(content[frame:texts_at]):
            recipient_hash, cabinet_hash, _, _, _, first, own, _, _, end, origin, kind, _ = line
            recipient = content[texts_at + begin : texts_at + end].decode()
            begin = end
            cabinet = (recipient, names.origins[origin], names.kinds[kind])
            drawer = self._drawers.get(cabinet) or self._open(cabinet, recipient_hash, cabinet_hash)
            drawer.rows.extend([self._moved(row, names, shift) for row in rows[first : first + own]])
        self.count += count

    def _moved(self, row: _Row, names: Names, shift: int) -> _Row:
        """A row of another segment with its place and its names as they are here."""
        own = self._names
        return row._replace(
            place=row.place + shift,
            document_type=code_of(names.document_types[row.document_type], own.document_types),
            media_type=code_of(names.media_types[row.media_type], own.media_types),
        )

    def _open(self, cabinet: tuple[str, str, str], recipient_hash: int, cabinet_hash: int) -> _Drawer:
        recipient, origin, kind = cabinet
        origin_code, kind_code = code_of(origin, self._names.origins), code_of(kind, self._names.kinds)
        drawer = _Drawer(recipient_hash, cabinet_hash, recipient, origin_code, kind_code, [])
        self._drawers[cabinet] = drawer
        return drawer

    def encoded(self, group: int, names: bytes) -> Encoded | None:
        """The segment, once all names are known.

        None if the hashes of two cabinets collide: then the texts decide their order, which is not done here.
        """
        drawers = sorted(self._drawers.values())
        if len(drawers) > 1 and len({drawer[:2] for drawer in drawers}) < len(drawers):
            return None
        lines, records = list[bytes](), list[bytes]()
        texts, properties, data = bytearray(), bytearray(), bytearray()
        for drawer in drawers:
            texts += drawer.recipient.encode()
            lines.append(_line(drawer, len(records), len(texts)))
            for row in drawer.rows:
                records.append(_record(row, len(data), len(properties)))
                data += row.data
                properties += row.properties
        ledger = b"".join([*lines, texts, *records, properties])
        front = front_length(len(lines) * _DRAWER.size + len(texts), len(ledger))
        lengths = (len(lines), len(texts), len(properties), len(ledger), len(data))
        frame = encode_frame(len(records), lengths, names, check_bytes(ledger) + check_bytes(data))
        rest = (ledger[front:], data)
        length = len(frame) + len(ledger) + len(data)
        recipients = frozenset([drawer.recipient_hash for drawer in drawers])
        return Encoded(group, len(records), frame + ledger[:front], rest, length, recipients)


def _line(drawer: _Drawer, row: int, recipient_end: int) -> bytes:
    """The directory's line about a drawer."""
    recipient_hash, cabinet_hash, _, origin, kind, rows = drawer
    first, weight, expires_at, published_at = rows[0], rows[0].weight, rows[0].expires_at, rows[0].published_at
    for other in rows[1:]:
        weight += other.weight
        expires_at = min(expires_at, other.expires_at)
        published_at = min(published_at, other.published_at)
    return _DRAWER.pack(
        recipient_hash,
        cabinet_hash,
        weight,
        expires_at,
        published_at,
        row,
        len(rows),
        first.place,
        rows[-1].place,
        recipient_end,
        origin,
        kind,
        0,
    )


def _record(row: _Row, data_start: int, properties_start: int) -> bytes:
    own_id, expires_at, published_at, place, weight, document_type, media_type, flags, data, properties = row
    return _RECORD.pack(
        own_id,
        expires_at,
        published_at,
        place,
        weight,
        data_start,
        len(data),
        properties_start,
        document_type,
        media_type,
        len(properties),
        flags,
        0,
    )


def _rows(content: bytes, records_at: int, data_at: int, count: int) -> list[_Row]:
    """The rows of a segment in full."""
    properties_at = records_at + count * _RECORD.size
    rows = []
    for record in _RECORD.iter_unpack(content[records_at:properties_at]):
        own_id, expires_at, published_at, place, weight, start, length, more, document_type, media_type = record[:10]
        data = content[data_at + start : data_at + start + length]
        properties = content[properties_at + more : properties_at + more + record[10]]
        row = _Row(
            own_id,
            expires_at,
            published_at,
            place,
            weight,
            document_type,
            media_type,
            record[11],
            data,
            properties,
        )
        rows.append(row)
    return rows
