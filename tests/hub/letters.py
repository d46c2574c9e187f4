"""Short ways to write messages and to say what came back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from restante.client.surface.surface import Bundle, Hub
from restante.model.publishing.message import Message, State
from restante.settings import OriginGroupSettings, OriginSettings, Settings
from tests.hub.engines import START
from tests.reference.hub import ReferenceHub
from tests.reference.intake import as_time

RETENTION_SECONDS = 100.0
MASTER = {"charges": OriginSettings(group="master"), "points": OriginSettings(group="master")}
SETTINGS = Settings(
    partition_count=2,
    collected_retention_seconds=RETENTION_SECONDS,
    feed_retention_seconds=RETENTION_SECONDS,
    housekeeping_seconds=0,
    filing=False,
    origins=MASTER,
)
STRICT = msgspec.structs.replace(SETTINGS, origin_groups={"master": OriginGroupSettings(strict_order=True)})
ALONE = msgspec.structs.replace(SETTINGS, origins={})


def id_of(number: int) -> str:
    return str(UUID(int=number))


def at(seconds: float) -> datetime:
    """A moment so many seconds after the fake clock's start."""
    return as_time(START) + timedelta(seconds=seconds)


def not_for_the_reference(hub: object, reason: str) -> None:
    """The reference hub need not pass this test."""
    if isinstance(hub, ReferenceHub):
        pytest.skip(reason)


def letter(number: int, recipient: str = "ada", **other: Any) -> Message:
    """A message told apart by its number."""
    data = {"data": f"letter {number}".encode(), **other}
    return Message(recipient=recipient, id=id_of(number), **data)


def claim(number: int, **other: Any) -> Message:
    """A claim check."""
    return letter(number, data=msgspec.UNSET, **other)


def letters(numbers: Iterable[int], **other: Any) -> list[Message]:
    return [letter(number, **other) for number in numbers]


def numbers_of(messages: Iterable[Message]) -> list[int]:
    """What tells the messages apart, in their order."""
    return [UUID(message.id).int for message in messages if message.id is not None]


def peeked(hub: Hub, recipient: str = "ada", **options: Any) -> Bundle:
    """The bundle that must be there."""
    bundle = hub.recipient(recipient).peek(**options)
    assert bundle is not None
    return bundle


def taken(hub: Hub, recipient: str = "ada", **options: Any) -> list[int]:
    """Peek, dequeue, and say which messages it was."""
    bundle = peeked(hub, recipient, **options)
    bundle.dequeue()
    return numbers_of(bundle.messages)


def history(hub: Hub, recipient: str = "ada") -> list[tuple[int, State | None]]:
    """All of a mailbox: what tells each message apart, and its state."""
    messages = hub.recipient(recipient).history(limit=1_000).messages
    return list(zip(numbers_of(messages), [message.state for message in messages], strict=True))


def states(hub: Hub, recipient: str = "ada") -> list[State | None]:
    return [state for _, state in history(hub, recipient)]


def sequence_numbers(messages: Sequence[Message]) -> list[int]:
    return [message.sequence_number or 0 for message in messages]
