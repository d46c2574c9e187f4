"""One message for many recipients: said once, and stored as a message for each of them, under the same id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from restante.model.columns import media_types
from restante.model.publishing.message import Message, text_of
from restante.model.publishing.send_bounds import check_bytes, check_count

T = TypeVar("T")
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
    measured = [_measured(message) for message in messages]
    check_bytes(sum(size for _, size in measured))
    return [
        own for message, _ in measured for own in (_each_of(message) if isinstance(message, Broadcast) else (message,))
    ]


def count_of(message: object) -> int:
    """How many messages it becomes."""
    return len(message.recipients) if isinstance(message, Broadcast) else 1


def _each_of(broadcast: Broadcast) -> list[Message]:
    """A message for each recipient. They share their data."""
    fields = {name: getattr(broadcast, name) for name in Message.__struct_fields__}
    del fields["recipient"]
    return [Message(recipient=recipient, **fields) for recipient in broadcast.recipients]


def _measured(message: T) -> tuple[T | Broadcast, int]:
    """A message, and how many bytes of data it becomes. The JSON value of a broadcast is made into bytes here, once."""
    if not isinstance(message, Broadcast):
        return message, _size(message) if isinstance(message, Message) else 0
    encoded = _encoded(message)
    if encoded is None:
        return message, count_of(message) * _size(message)
    size = count_of(message) * len(encoded)
    if message.data is not None and b"null" in encoded:
        return message, size  # The encoder writes null for numbers that JSON does not have: the rules find them.
    return msgspec.structs.replace(message, data=encoded, media_type=message.media_type or media_types.JSON), size


def _encoded(message: Broadcast) -> bytes | None:
    """The data as JSON; None if it is anything else, or cannot be: that is left to the rules."""
    data = message.data
    if data is UNSET or isinstance(data, bytes | bytearray | memoryview) or text_of(message) is not None:
        return None
    try:
        return _encoder.encode(data)
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError):
        return None


def _size(message: Message) -> int:
    data = message.data if message.text is None else message.text
    if isinstance(data, memoryview):
        return data.nbytes
    return len(data) if isinstance(data, bytes | bytearray | str) else 0
