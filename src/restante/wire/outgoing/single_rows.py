"""Messages as JSON, one by one: the same texts that the columns of `json_columns` become, sooner where there are few.

A column costs about the same for one row as for a hundred.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from restante.model.columns.arrow import words_of
from restante.model.columns.text_ids import unpacked
from restante.model.mailboxes.few_rows import StoredLetter
from restante.model.publishing.message import NEVER
from restante.model.storage.letter import Letter
from restante.model.storage.rows import BUNDLEABLE, INLINE
from restante.wire.outgoing.json_columns import JSON_SHAPE, TEXT_SHAPE, column, shape_of

SINGLE_ROWS_MAX = 64
"""Up to so many rows of a table are written one by one. From about 100 on, columns are quicker."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES_REMEMBERED_MAX = 4_096
_encode = msgspec.json.Encoder().encode


class _Row(NamedTuple):
    """A message as it is written; times in microseconds, or None."""

    id: str
    recipient: str
    origin: str
    kind: str
    document_type: str
    weight: int
    bundleable: bool
    media_type: str
    properties: bytes
    expires_at: int | None
    sequence_number: int
    published_at: int
    collected_at: int | None
    state: str
    data: bytes | None


def letter_json(letter: Letter, own_id: bytes, number: int, published_at: int) -> bytes:
    """A message that has just been stored."""
    text, properties = unpacked(letter.properties)
    return _row_json(
        _Row(
            id=_uuid_text(own_id) if text is None else text,
            recipient=letter.recipient,
            origin=letter.origin,
            kind=letter.kind,
            document_type=letter.document_type,
            weight=letter.weight,
            bundleable=bool(letter.flags & BUNDLEABLE),
            media_type=letter.media_type,
            properties=properties or b"{}",
            expires_at=None if letter.expires_at == NEVER else letter.expires_at,
            sequence_number=number,
            published_at=published_at,
            collected_at=None,
            state="waiting",
            data=letter.data if letter.flags & INLINE else None,
        )
    )


def few_json(letters: Sequence[StoredLetter]) -> bytes:
    """Messages that wait, with commas between them."""
    return b",".join([letter_json(*own) for own in letters])


def table_json(table: pa.Table) -> bytes:
    """The rows of a small table, with commas between them."""
    return b",".join([_row_json(row) for row in _rows(table)])


def _rows(table: pa.Table) -> list[_Row]:
    def values(name: str) -> list[Any]:
        found: list[Any] = column(table, name).to_pylist()
        return found

    def times(name: str) -> list[int | None]:
        found: list[int | None] = column(table, name).view(pa.int64()).to_pylist()
        return found

    shown = zip(words_of(column(table, "id")), values("text_id"), strict=True)
    return [
        _Row(*row)
        for row in zip(
            [_uuid_text(words.tobytes()) if text is None else text for words, text in shown],
            *map(values, ("recipient", "origin", "kind", "document_type", "weight", "bundleable", "media_type")),
            [b"{}" if not pairs else _encode(dict(pairs)) for pairs in column(table, "properties").to_pylist()],
            times("expires_at"),
            values("sequence_number"),
            times("published_at"),
            times("collected_at"),
            values("state"),
            values("data"),
            strict=True,
        )
    ]


def _row_json(row: _Row) -> bytes:
    return (
        b'{"id":%b,"recipient":%b%b,"weight":%d,"bundleable":%b,"media_type":%b,"properties":%b%b,'
        b'"sequence_number":%d%b%b,"state":%b%b}'
    ) % (
        _encode(row.id),
        _encode(row.recipient),
        _names(row.origin, row.kind, row.document_type),
        row.weight,
        b"true" if row.bundleable else b"false",
        _text(row.media_type),
        row.properties,
        _time(b"expires_at", row.expires_at),
        row.sequence_number,
        _time(b"published_at", row.published_at),
        _time(b"collected_at", row.collected_at),
        _text(row.state),
        _data(row.media_type, row.data),
    )


def _data(media_type: str, data: bytes | None) -> bytes:
    if data is None:
        return b""
    shape = shape_of(media_type)
    if shape == JSON_SHAPE:
        return b',"data":' + data
    if shape == TEXT_SHAPE and (text := _utf8(data)) is not None:
        return b',"text":' + _encode(text)
    return b',"data_base64":"%b"' % b64encode(data)


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _uuid_text(own_id: bytes) -> str:
    digits = own_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@lru_cache(_NAMES_REMEMBERED_MAX)
def _names(origin: str, kind: str, document_type: str) -> bytes:
    return b',"origin":%b,"kind":%b,"document_type":%b' % (_encode(origin), _encode(kind), _encode(document_type))


@lru_cache(_NAMES_REMEMBERED_MAX)
def _text(text: str) -> bytes:
    return _encode(text)


@lru_cache(_NAMES_REMEMBERED_MAX)
def _time(key: bytes, microseconds: int | None) -> bytes:
    """RFC 3339 in UTC with microseconds; nothing if there is no time."""
    if microseconds is None:
        return b""
    moment = _EPOCH + timedelta(microseconds=microseconds)
    # Not all systems write four digits for %Y.
    return f',"{key.decode()}":"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond:06}Z"'.encode()
