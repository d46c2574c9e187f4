"""One message for many recipients: said once, and stored as a message for each of them, under the same id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from restante.model.columns import media_types
from restante.model.publishing.message import Message, text_of
from restante.model.publishing.send_bounds import check_bytes, check_count

_encoder = msgspec.json.Encoder()


class Broadcast(Message, frozen=True, kw_only=True, gc=False):
    """A message whose recipients are `recipients`; its `recipient` says nothing."""

    recipient: str = ""
    recipients: tuple[str, ...] = ()


def has_broadcast(messages: Sequence[object]) -> bool:
    return any(isinstance(message, Broadcast) for message in messages)


def spread(messages: Sequence[Any]) -> Sequence[Any]:
    """The same messages, each broadcast as one message for each of its recipients, in their order.

    How many they become, and how much, is bounded before any of them is made.
    """
    if not has_broadcast(messages):
        return messages
    check_count(sum(count_of(message) for message in messages))
    check_bytes(sum(_size(message) for message in messages))
    return [own for message in messages for own in (each_of(message) if isinstance(message, Broadcast) else (message,))]


def count_of(message: object) -> int:
    """How many messages it becomes."""
    return len(message.recipients) if isinstance(message, Broadcast) else 1


def each_of(broadcast: Broadcast) -> list[Message]:
    """A message for each recipient. They share their data, which is made into bytes once."""
    fields = {name: getattr(broadcast, name) for name in Message.__struct_fields__}
    fields |= _encoded(broadcast)
    del fields["recipient"]
    return [Message(recipient=recipient, **fields) for recipient in broadcast.recipients]


def _encoded(message: Message) -> dict[str, object]:
    """A value of JSON as bytes; what is anything else, or no JSON, is left to the rules."""
    data = message.data
    if data is UNSET or isinstance(data, bytes | bytearray | memoryview) or text_of(message) is not None:
        return {}
    try:
        encoded = _encoder.encode(data)
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError):
        return {}
    if data is not None and b"null" in encoded:
        return {}  # The encoder writes null for numbers that JSON does not have.
    return {"data": encoded, "media_type": message.media_type or media_types.JSON}


def _size(message: Message) -> int:
    data = message.data if message.text is None else message.text
    return count_of(message) * len(data) if isinstance(data, bytes | str) else 0
