"""The link: what the surface needs of a hub, in process or over the network. Each surface is written once, over this."""

from __future__ import annotations

from typing import Protocol

from restante.calls.call import Answer, Call
from restante.wire.live_lines import AsyncLiveDoor, LiveDoor


class ApartLink(Protocol):
    """A link of its own to the same hub, for threads beside the program's: calls wait for their answers, and are tried once."""

    def call(self, call: Call[Answer]) -> Answer: ...
    def close(self) -> None: ...


class Link(Protocol):
    """A connection to a hub that waits for its answers."""

    def call(self, call: Call[Answer]) -> Answer:
        """Have a call carried out: one of those in `restante.calls`."""
        ...

    def live(self, recipient: str, *, client: str | None = None) -> LiveDoor: ...
    def apart(self, *, timeout: float | None = None) -> ApartLink: ...
    def close(self) -> None: ...


def where(link: Link | AsyncLink) -> str:
    """Where the hub of a link is, for people."""
    told: str = getattr(link, "where", "in this process")
    return told


class AsyncLink(Protocol):
    """A connection to a hub for asynchronous programs: its answers are awaited."""

    async def call(self, call: Call[Answer]) -> Answer: ...
    def live(self, recipient: str, *, client: str | None = None) -> AsyncLiveDoor: ...
    def apart(self, *, timeout: float | None = None) -> ApartLink: ...
    async def close(self) -> None: ...
