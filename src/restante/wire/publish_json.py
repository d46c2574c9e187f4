"""A few messages as JSON, which is quickest for them, and needs no columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.limits import KIB
from restante.model.publishing.broadcast import Broadcast, has_broadcast
from restante.model.publishing.few_or_many import EncodedPublish
from restante.model.publishing.message import Message, text_of
from restante.model.uuid_text import Random, made_ids
from restante.wire.media import JSON

_JSON_DATA_BYTES_MAX = 256 * KIB
"""Beyond it base64 costs more than columns do."""
_TEXTS = frozenset({str})
_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_INTEGER = (int, type(None))


class Making(NamedTuple):
    """The parts that make ids for messages that have none."""

    random: Random
    now_ms: int


def encode_few(messages: Sequence[Any], making: Making | None) -> EncodedPublish | None:
    """A few messages, or broadcasts; None if some are no messages, or JSON cannot say them just as they are."""
    body = _json_body(messages, making)
    return None if body is None else EncodedPublish(JSON, body)


class _Out(msgspec.Struct, omit_defaults=True, gc=False):
    recipient: str | UnsetType = UNSET
    recipients: tuple[str, ...] | UnsetType = UNSET
    id: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    origin: str = "default"
    kind: str = "default"
    document_type: str | None = None
    weight: int | None = None
    bundleable: bool = True
    media_type: str | None = None
    properties: dict[str, str] = {}
    expires_at: datetime | None = None
    visible_at: datetime | None = None
    source_position: int | None = None


_encoder = msgspec.json.Encoder()


def _json_body(messages: Sequence[Any], making: Making | None) -> bytes | None:
    """The messages in JSON; None if it cannot say them just as they are, or should not."""
    if not all(isinstance(message, Message) and _is_plain(message) for message in messages):
        return None
    missing = sum(message.id is None for message in messages)
    made: Iterator[Any] = repeat(UNSET)
    if making is not None:
        made = iter(made_ids(missing, making.random, making.now_ms))
    try:
        sent = [_out(message, next(made) if message.id is None else message.id) for message in messages]
        if sum(map(_size, sent)) > _JSON_DATA_BYTES_MAX and not has_broadcast(messages):
            return None
        return _encoder.encode({"messages": sent})
    except (ValueError, TypeError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError):
        return None


def _out(message: Message, message_id: str | UnsetType) -> _Out:
    data, text = message.data, text_of(message)
    is_bytes = type(data) is bytes
    if text is not None and data is not UNSET and data != text:
        raise ValueError
    return _Out(
        recipient=UNSET if isinstance(message, Broadcast) else message.recipient,
        recipients=message.recipients if isinstance(message, Broadcast) else UNSET,
        id=message_id,
        data=UNSET if is_bytes or data is UNSET or text is not None else _raw(data),
        text=UNSET if text is None else text,
        data_base64=data if is_bytes else UNSET,
        origin=message.origin,
        kind=message.kind,
        document_type=message.document_type,
        weight=message.weight,
        bundleable=message.bundleable,
        media_type=message.media_type,
        properties=message.properties,
        expires_at=message.expires_at,
        visible_at=message.visible_at,
        source_position=message.source_position,
    )


def _raw(value: object) -> Raw:
    encoded = _encoder.encode(value)
    # A number that JSON does not have is written as null too, so the rules must look at this value.
    if value is not None and b"null" in encoded:
        raise ValueError
    return Raw(encoded)


def _size(sent: _Out) -> int:
    if sent.text is not UNSET:
        return len(sent.text)
    content = sent.data if sent.data is not UNSET else sent.data_base64
    return 0 if content is UNSET else len(bytes(content))


def _is_plain(message: Any) -> bool:  # noqa: ANN401 - annotations do not hold for what a caller gives
    """Whether every field but the data is of the very type that it should be, so that JSON says it as it is."""
    return (
        {type(message.recipient), type(message.origin), type(message.kind)} == _TEXTS
        and type(message.id) in _OPTIONAL_TEXT
        and type(message.text) in _OPTIONAL_TEXT
        and type(message.document_type) in _OPTIONAL_TEXT
        and type(message.media_type) in _OPTIONAL_TEXT
        and type(message.weight) in _OPTIONAL_INTEGER
        and type(message.source_position) in _OPTIONAL_INTEGER
        and type(message.bundleable) is bool
        and type(message.properties) is dict
        and _are_texts(message.properties)
        and _is_utc(message.expires_at)
        and _is_utc(message.visible_at)
        and not isinstance(message.data, (bytearray, memoryview, Raw))
        and (not isinstance(message, Broadcast) or {*map(type, message.recipients)} == _TEXTS)
        and message.sequence_number is message.published_at is message.collected_at is message.state is None
    )


def _are_texts(properties: dict[Any, Any]) -> bool:
    return {*map(type, properties), *map(type, properties.values())} <= _TEXTS


def _is_utc(time: datetime | None) -> bool:
    return time is None or (type(time) is datetime and time.tzinfo is UTC)
