"""What a client sends: messages as a body, with ids given before the first attempt, so that it may be repeated.

A few messages become JSON, which is quickest for them, and are judged by the hub. What JSON cannot say, and what is
many, goes through the model's own rules into columns and becomes an Arrow stream; so a fault is the same error
wherever it is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Raw, UnsetType
from numpy.typing import NDArray
from pyarrow import ipc

from restante.errors import InvalidRequest
from restante.limits import KIB, SMALL_SEND_MESSAGES_MAX
from restante.model import intake
from restante.model.arrow import Column, column_of
from restante.model.message import NEVER, Message, MessageColumns, State
from restante.model.outtake import to_table
from restante.model.refusals import refusal
from restante.model.texts import Texts
from restante.model.uuids import RANDOM_BYTES_PER_ID, few_uuids
from restante.model.validation import FIELDS
from restante.wire.media import ARROW, JSON

Random = Callable[[int], bytes]
"""Gives so many random bytes."""

_JSON_DATA_BYTES_MAX = 256 * KIB
"""Beyond it base64 costs more than columns do."""
_TEXTS = frozenset({str})
_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_INTEGER = (int, type(None))


class _Making(NamedTuple):
    """What it takes to make ids for those that have none."""

    random: Random
    now_ms: int


class Encoded(NamedTuple):
    """Messages as a body. A publish takes it in place of the messages, so that a repetition need not encode again."""

    content_type: str
    body: bytes


def encode_publish(sent: object, *, random: Random, now_ms: int) -> Encoded:
    """The content type and the body for a message, a sequence of messages, or anything with Arrow columns."""
    return _encode(sent, _Making(random, now_ms))


def encode_stage(sent: object) -> Encoded:
    """The same, without ids for those that have none: a repetition is known by the name of its parcel."""
    return _encode(sent, None)


def _encode(sent: object, making: _Making | None) -> Encoded:
    if isinstance(sent, Encoded):
        return sent
    if isinstance(sent, Message):
        sent = (sent,)
    if isinstance(sent, Sequence) and len(sent) <= SMALL_SEND_MESSAGES_MAX:
        body = _json_body(sent, making)
        if body is not None:
            return Encoded(JSON, body)
    return Encoded(ARROW, _columns_stream(sent, making))


def encode_columns(sent: object, *, random: Random, now_ms: int) -> bytes:
    """A sequence of messages, or anything with Arrow columns, as an Arrow stream of what the rules made of it."""
    return _columns_stream(sent, _Making(random, now_ms))


def _columns_stream(sent: object, making: _Making | None) -> bytes:
    if isinstance(sent, Sequence):
        return _stream(_checked(intake.from_messages(sent, claim_check_origins=None)), making)
    return _stream(_checked(intake.from_arrow(sent, claim_check_origins=None)), making)


def made_ids(count: int, random: Random, now_ms: int) -> list[str]:
    """Ids for a few messages, in ascending order."""
    made = few_uuids(count, now_ms=now_ms, random=random(count * RANDOM_BYTES_PER_ID))
    digits = [own.hex() for own in made]
    return [f"{own[:8]}-{own[8:12]}-{own[12:16]}-{own[16:20]}-{own[20:]}" for own in digits]


class _Out(msgspec.Struct, omit_defaults=True, gc=False):
    recipient: str
    id: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    origin: str = "default"
    kind: str = "default"
    document_type: str | None = None
    weight: int | None = None
    bundleable: bool = True
    media_type: str | None = None
    properties: dict[str, str] = {}
    expires_at: datetime | None = None


_encoder = msgspec.json.Encoder()


def _json_body(messages: Sequence[Any], making: _Making | None) -> bytes | None:
    """The messages in JSON; None if it cannot say them just as they are, or should not."""
    if not all(isinstance(message, Message) and _is_plain(message) for message in messages):
        return None
    missing = sum(message.id is None for message in messages)
    made: Iterator[Any] = repeat(UNSET)
    if making is not None:
        made = iter(made_ids(missing, making.random, making.now_ms))
    try:
        sent = [_out(message, next(made) if message.id is None else message.id) for message in messages]
        if sum(map(_size, sent)) > _JSON_DATA_BYTES_MAX:
            return None
        return _encoder.encode({"messages": sent})
    except (ValueError, TypeError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError):
        return None


def _out(message: Message, message_id: str | UnsetType) -> _Out:
    data = message.data
    is_bytes = type(data) is bytes
    return _Out(
        recipient=message.recipient,
        id=message_id,
        data=UNSET if is_bytes or data is UNSET else _raw(data),
        data_base64=data if is_bytes else UNSET,
        origin=message.origin,
        kind=message.kind,
        document_type=message.document_type,
        weight=message.weight,
        bundleable=message.bundleable,
        media_type=message.media_type,
        properties=message.properties,
        expires_at=message.expires_at,
    )


def _raw(value: object) -> Raw:
    encoded = _encoder.encode(value)
    # A number that JSON does not have is written as null too, so the rules must look at this value.
    if value is not None and b"null" in encoded:
        raise ValueError
    return Raw(encoded)


def _size(sent: _Out) -> int:
    content = sent.data if sent.data is not UNSET else sent.data_base64
    return 0 if content is UNSET else len(bytes(content))


def _is_plain(message: Any) -> bool:  # noqa: ANN401 - annotations do not hold for what a caller gives
    """Whether every field but the data is of the very type that it should be, so that JSON says it as it is."""
    return (
        {type(message.recipient), type(message.origin), type(message.kind)} == _TEXTS
        and type(message.id) in _OPTIONAL_TEXT
        and type(message.document_type) in _OPTIONAL_TEXT
        and type(message.media_type) in _OPTIONAL_TEXT
        and type(message.weight) in _OPTIONAL_INTEGER
        and type(message.bundleable) is bool
        and type(message.properties) is dict
        and _are_texts(message.properties)
        and _is_utc(message.expires_at)
        and not isinstance(message.data, (bytearray, memoryview, Raw))
        and message.sequence_number is message.published_at is message.collected_at is message.state is None
    )


def _are_texts(properties: dict[Any, Any]) -> bool:
    return {*map(type, properties), *map(type, properties.values())} <= _TEXTS


def _is_utc(time: datetime | None) -> bool:
    return time is None or (type(time) is datetime and time.tzinfo is UTC)


def _checked(taken: tuple[MessageColumns, list[Any]]) -> MessageColumns:
    columns, faults = taken
    if faults:
        raise refusal(faults)
    return columns


def _stream(columns: MessageColumns, making: _Making | None) -> bytes:
    """The columns as an Arrow stream; the hub takes them as they are."""
    n, missing = len(columns), int(columns.made_id.sum())
    if making is not None:
        random = making.random(missing * RANDOM_BYTES_PER_ID)
        columns = intake.fill_made_ids(columns, now_ms=making.now_ms, random=random)
    never = np.full(n, NEVER, np.int64)
    state = Texts.constant(State.WAITING.value, n)
    table = to_table(columns, sequence_number=never, published_at=never, collected_at=never, state=state)
    table = table.select(list(FIELDS))
    return stream_bytes(_without_ids(table, columns.made_id) if making is None and missing else table)


def _without_ids(table: pa.Table, absent: NDArray[np.bool_]) -> pa.Table:
    """Null where the sender gave none."""
    place = table.schema.get_field_index("id")
    ids: Column = table.column(place)
    return table.set_column(place, "id", pc.if_else(column_of(~absent), ids, pa.scalar(None, ids.type)))


def stream_bytes(table: pa.Table) -> bytes:
    """A whole Arrow stream."""
    sink = pa.BufferOutputStream()
    try:
        with ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the columns cannot be sent: {error}") from error
    return sink.getvalue().to_pybytes()
