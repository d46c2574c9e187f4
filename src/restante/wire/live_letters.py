"""A few messages as JSON, each the same text that the columns of `restante.wire.outgoing.outgoing` would become."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from restante.model.columns import media_types
from restante.model.columns.text_ids import unpacked
from restante.model.publishing.letter import Letter
from restante.model.publishing.message import NEVER
from restante.model.storage.rows import BUNDLEABLE, INLINE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES_REMEMBERED_MAX = 4_096
_encode = msgspec.json.Encoder().encode


def letter_json(letter: Letter, own_id: bytes, number: int, published_at: int) -> bytes:
    """A message that has just been stored."""
    text, properties = unpacked(letter.properties)
    digits = own_id.hex()
    expires = b"" if letter.expires_at == NEVER else b',"expires_at":"%b"' % _time(letter.expires_at)
    return (
        b'{"id":%b,"recipient":%b%b,"weight":%d,"bundleable":%b,"media_type":%b,"properties":%b%b,'
        b'"sequence_number":%d,"published_at":"%b","state":"waiting"%b}'
    ) % (
        _encode(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}" if text is None else text),
        _encode(letter.recipient),
        _names(letter.origin, letter.kind, letter.document_type),
        letter.weight,
        b"true" if letter.flags & BUNDLEABLE else b"false",
        _text(letter.media_type),
        properties or b"{}",
        expires,
        number,
        _time(published_at),
        _data(letter),
    )


def _data(letter: Letter) -> bytes:
    if not letter.flags & INLINE:
        return b""
    if letter.media_type is media_types.JSON or media_types.is_json(letter.media_type):
        return b',"data":' + letter.data
    if media_types.is_text(letter.media_type) and (text := _utf8(letter.data)) is not None:
        return b',"text":' + _encode(text)
    return b',"data_base64":"%b"' % b64encode(letter.data)


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


@lru_cache(_NAMES_REMEMBERED_MAX)
def _names(origin: str, kind: str, document_type: str) -> bytes:
    return b',"origin":%b,"kind":%b,"document_type":%b' % (_encode(origin), _encode(kind), _encode(document_type))


@lru_cache(_NAMES_REMEMBERED_MAX)
def _text(text: str) -> bytes:
    return _encode(text)


@lru_cache(_NAMES_REMEMBERED_MAX)
def _time(microseconds: int) -> bytes:
    """RFC 3339 in UTC with microseconds."""
    moment = _EPOCH + timedelta(microseconds=microseconds)
    # Not all systems write four digits for %Y.
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond:06}Z".encode()
