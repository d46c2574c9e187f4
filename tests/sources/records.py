"""Records of a log elsewhere, and what a hub has of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from restante import Message
from restante.client.surface.surface import Hub

RECIPIENTS = tuple(f"r{number}" for number in range(6))


def record(position: int, *, recipient: str | None = None) -> Message:
    """The record of a log at a position. It says where it stands, so that nothing can be mistaken for another."""
    return Message(recipient=recipient or RECIPIENTS[position % 6], data=position, source_position=position)


def records(positions: Iterable[int]) -> list[Message]:
    return [record(position) for position in positions]


def stored(hub: Hub, recipients: Sequence[str] = RECIPIENTS) -> dict[str, list[object]]:
    """What each mailbox has, in order."""
    return {
        name: [message.data for message in hub.recipient(name).history(limit=1_000).messages] for name in recipients
    }


def expected(positions: Iterable[int]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {name: [] for name in RECIPIENTS}
    for position in positions:
        found[RECIPIENTS[position % 6]].append(position)
    return found
