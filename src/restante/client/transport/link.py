"""`Link` and `AsyncLink`: what the surfaces need of a hub. So each surface works in process and over the network."""

from __future__ import annotations

from typing import Protocol

from restante.calls.call import Answer, Call
from restante.wire.live_lines import AsyncLiveDoor, LiveDoor


class ApartLink(Protocol):
    """A separate link to the same hub, for background threads. Calls wait for their answers, and are not retried."""

    def call(self, call: Call[Answer]) -> Answer: ...
    def close(self) -> None: ...


class Link(Protocol):
    """A connection to a hub for synchronous programs: calls wait for their answers."""

    def call(self, call: Call[Answer]) -> Answer:
        """Carry out a call of `restante.calls`."""
        ...

    def live(self, recipient: str, *, client: str | None = None) -> LiveDoor: ...
    def apart(self, *, timeout: float | None = None) -> ApartLink: ...
    def close(self) -> None: ...


def where(link: Link | AsyncLink) -> str:
    """Where the hub of a link is, as text."""
    told: str = getattr(link, "where", "in this process")
    return told


class AsyncLink(Protocol):
    """A connection to a hub for asynchronous programs: answers are awaited."""

    async def call(self, call: Call[Answer]) -> Answer: ...
    def live(self, recipient: str, *, client: str | None = None) -> AsyncLiveDoor: ...
    def apart(self, *, timeout: float | None = None) -> ApartLink: ...
    async def close(self) -> None: ...
