"""`Handful` encodes a few messages as one segment, row by row: the same bytes as `segment.encode`, without columns.

A column operation costs about the same for one row as for thousands. Working row by row with plain numbers makes commits
and filing of a few messages cheap. Tests check that both ways give the same result.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import msgspec

from restante.errors import DataDamaged
from restante.limits import ADDRESSES_REMEMBERED_MAX
from restante.model.columns.hashing import combine_one, text_hash
from restante.model.storage.letter import Letter
from restante.model.storage.row_formats import DRAWER, RECORD
from restante.model.storage.segment import Names, decode_names
from restante.model.storage.segment_frame import (
    HEADER_BYTES,
    EncodedSegment,
    check_bytes,
    decode_header,
    encode_frame,
    front_length,
)

_RECORD = struct.Struct("<16sqqIiIIIIIHBB")
_DRAWER = struct.Struct("<QQQqqIIIIIIII")
_LATEST = 2**63 - 1
assert _RECORD.size == RECORD.itemsize
assert _DRAWER.size == DRAWER.itemsize


class _Places(dict[str, int]):
    """Names with their places. Looking up a new name gives it the next place."""

    __slots__ = ()

    def __missing__(self, name: str) -> int:
        place = self[name] = len(self)
        return place


class NameTable:
    """The distinct names of some handfuls with their places, in order of first appearance."""

    __slots__ = ("_key", "document_types", "kinds", "media_types", "origins")

    def __init__(self, key: int) -> None:
        self.origins = _Places()
        self.kinds = _Places()
        self.document_types = _Places()
        self.media_types = _Places()
        self._key = key

    def encoded(self) -> bytes:
        lists = (self.origins, self.kinds, self.document_types, self.media_types)
        return msgspec.msgpack.encode(Names(*(list(names) for names in lists)))

    def cabinet_hash(self, recipient_hash: int, origin: str, kind: str) -> int:
        return _cabinet_hash(recipient_hash, origin, kind, self._key)


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def _cabinet_hash(recipient_hash: int, origin: str, kind: str, key: int) -> int:
    return combine_one(combine_one(recipient_hash, _name_hash(origin, key)), _name_hash(kind, key))


_name_hash = lru_cache(ADDRESSES_REMEMBERED_MAX)(text_hash)


class _Codes(dict[int, int]):
    """Maps the places of another table to places in this one. A name gets its place when a row first uses it."""

    __slots__ = ("_names", "_other")

    def __init__(self, other: list[str], names: _Places) -> None:
        self._other = other
        self._names = names

    def __missing__(self, code: int) -> int:
        own = self[code] = self._names[self._other[code]]
        return own


_Row = tuple[bytes, int, int, int, int, int, int, int, bytes, bytes]
"""Id, expiry, publishing time, place, weight, document type, media type, flags, data, properties."""

_Drawer = tuple[int, int, bytes, int, int, list[_Row]]
"""The hashes of recipient and cabinet, the recipient, the origin, the kind, and the rows of a cabinet."""


class Handful:
    """Rows grouped by cabinet, within each in order of arrival."""

    __slots__ = ("_codes", "_drawers", "_names", "count")

    def __init__(self, names: NameTable) -> None:
        self._names = names
        self._codes: dict[bytes, tuple[_Codes, ...]] = {}
        """The codes of a segment's names, by the encoded names, because most segments have the same names."""
        self._drawers: dict[tuple[bytes, int, int], _Drawer] = {}
        self.count = 0

    def add_letter(self, letter: Letter, own_id: bytes, recipient_hash: int, published_at: int) -> None:
        """Add the message that arrived next."""
        names = self._names
        cabinet = (letter.recipient.encode(), names.origins[letter.origin], names.kinds[letter.kind])
        drawer = self._drawers.get(cabinet)
        if drawer is None:
            own = names.cabinet_hash(recipient_hash, letter.origin, letter.kind)
            drawer = self._drawers[cabinet] = (recipient_hash, own, *cabinet, [])
        row = (
            own_id,
            letter.expires_at,
            published_at,
            self.count,
            letter.weight,
            names.document_types[letter.document_type],
            names.media_types[letter.media_type],
            letter.flags,
            letter.data,
            letter.properties,
        )
        drawer[5].append(row)
        self.count += 1

    def add_segment(self, content: bytes, shift: int) -> None:
        """Add all rows of a later segment, with their places shifted by `shift`.

        Raises `DataDamaged` if a checksum of the segment is wrong.
        """
        count, drawers, packed, texts, _, ledger, _, frame = decode_header(content)
        checks = check_bytes(content[frame : frame + ledger]) + check_bytes(content[frame + ledger :])
        if content[HEADER_BYTES + packed : HEADER_BYTES + packed + len(checks)] != checks:
            raise DataDamaged("A segment is not as it was written.")
        origins, kinds, *types = self._codes_of(content[HEADER_BYTES : HEADER_BYTES + packed])
        texts_at = frame + drawers * _DRAWER.size
        rows = _rows(content, (texts_at + texts, frame + ledger), count, shift, types)
        begin, found = 0, self._drawers
        for line in _DRAWER.iter_unpack(content[frame:texts_at]):
            recipient_hash, cabinet_hash, _, _, _, first, own, _, _, end, origin, kind, _ = line
            cabinet = (content[texts_at + begin : texts_at + end], origins[origin], kinds[kind])
            begin = end
            drawer = found.get(cabinet)
            if drawer is None:
                found[cabinet] = (recipient_hash, cabinet_hash, *cabinet, rows[first : first + own])
            else:
                drawer[5].extend(rows[first : first + own])
        self.count += count

    def _codes_of(self, packed: bytes) -> tuple[_Codes, ...]:
        codes = self._codes.get(packed)
        if codes is None:
            other, own = decode_names(packed), self._names
            codes = self._codes[packed] = (
                _Codes(other.origins, own.origins),
                _Codes(other.kinds, own.kinds),
                _Codes(other.document_types, own.document_types),
                _Codes(other.media_types, own.media_types),
            )
        return codes

    def encoded(self, group: int, names: bytes) -> EncodedSegment | None:
        """The encoded segment; `names` is the complete table of names.

        None if the hashes of two cabinets collide, because ordering them by their texts is left to `segment.encode`.
        """
        drawers = list(self._drawers.values())
        if len(drawers) > 1:
            drawers.sort()
            if len({drawer[1] for drawer in drawers}) < len(drawers):
                return None
        texts = b"".join([drawer[2] for drawer in drawers])
        lines, records, properties, data = _laid(drawers)
        ledger = b"".join([*lines, texts, *records, properties])
        lengths = (len(lines), len(texts), len(properties), len(ledger), len(data))
        frame = encode_frame(len(records), lengths, names, check_bytes(ledger) + check_bytes(data))
        length = len(frame) + len(ledger) + len(data)
        front = front_length(len(lines) * _DRAWER.size + len(texts), len(ledger))
        rest = (data,) if front == len(ledger) else (ledger[front:], data)
        recipients = frozenset([drawer[0] for drawer in drawers])
        return EncodedSegment(group, len(records), frame + ledger[:front], rest, length, recipients)


def _laid(drawers: list[_Drawer]) -> tuple[list[bytes], list[bytes], bytes, bytes]:
    """The directory's lines, the records, and the properties and data of all rows joined."""
    lines, records, contents, properties = list[bytes](), list[bytes](), list[bytes](), list[bytes]()
    pack, pack_line, start, more, at, text_end = _RECORD.pack, _DRAWER.pack, 0, 0, 0, 0
    for recipient_hash, cabinet_hash, recipient, origin, kind, rows in drawers:
        weights, expiry, published, place = 0, _LATEST, _LATEST, 0
        for own_id, expires_at, published_at, place, weight, document_type, media_type, flags, data, own in rows:
            length, size = len(data), len(own)
            records.append(
                pack(
                    own_id,
                    expires_at,
                    published_at,
                    place,
                    weight,
                    start,
                    length,
                    more,
                    document_type,
                    media_type,
                    size,
                    flags,
                    0,
                )
            )
            contents.append(data)
            start += length
            if size:
                properties.append(own)
                more += size
            weights += weight
            expiry = min(expiry, expires_at)
            published = min(published, published_at)
        count, text_end, first = len(rows), text_end + len(recipient), rows[0][3]
        lines.append(
            pack_line(
                recipient_hash,
                cabinet_hash,
                weights,
                expiry,
                published,
                at,
                count,
                first,
                place,
                text_end,
                origin,
                kind,
                0,
            )
        )
        at += count
    return lines, records, b"".join(properties), b"".join(contents)


def _rows(content: bytes, areas: tuple[int, int], count: int, shift: int, types: list[_Codes]) -> list[_Row]:
    """The rows of a segment with their new places and name codes. `areas` are the offsets of records and data."""
    records_at, data_at = areas
    document_types, media_types = types
    properties_at = records_at + count * _RECORD.size
    rows = []
    for record in _RECORD.iter_unpack(content[records_at:properties_at]):
        own_id, expires_at, published_at, place, weight, start, length, more, document_type, media_type = record[:10]
        start += data_at
        more += properties_at
        row = (
            own_id,
            expires_at,
            published_at,
            place + shift,
            weight,
            document_types[document_type],
            media_types[media_type],
            record[11],
            content[start : start + length],
            content[more : more + record[10]],
        )
        rows.append(row)
    return rows
