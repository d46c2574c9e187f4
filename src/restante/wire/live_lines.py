"""A live connection as both of its ends see it: `LiveTaker` follows a mailbox, the other end brings the messages.

A door opens lines to one mailbox, over a network or in this process. A line passes everything that the hub says to its taker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from restante.model.publishing.message import Message
from restante.wire.live import Collected, Connected, Disconnect, Echo, Fate, SendAccepted

Word = Connected | Echo | SendAccepted | Fate | Collected | Disconnect | Mapping[str, Any]
"""The frames of a hub that are not messages; a mapping holds the fields of a problem."""


class LiveTaker(Protocol):
    """The end of a live connection that follows the mailbox."""

    def pushed(self, counter: int, message: Message, size: int) -> bool:
        """Take a message of so many bytes. False: there is no room for more, until the line may go on."""
        ...

    def heard(self, word: Word) -> None: ...
    def unreadable(self, why: str) -> None:
        """The error for a frame that makes no sense. It is not passed over: it may have been a message."""
        ...


class LiveLine(Protocol):
    """One connection, for programs that wait. `pushed` waits for room itself."""

    def run(self) -> str:
        """Bring what comes, until the connection ends; gives the reason."""
        ...

    def send(self, request: int, message: Message) -> None: ...
    def collect(self, sequence_number: int) -> None: ...
    def leave(self) -> None:
        """The hub has said its last word: `run` is to end soon."""
        ...

    def close(self) -> None:
        """End `run`; callable from any thread."""
        ...


class LiveDoor(Protocol):
    """The way to one mailbox."""

    def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> LiveLine:
        """A new line. Raises an error that says whether to try again makes sense."""
        ...

    def pause(self, attempt: int) -> float:
        """Seconds to wait after so many attempts in a row."""
        ...

    def gives_up(self, attempt: int, seconds: float) -> bool:
        """Whether to stop trying, if there was no connection yet."""
        ...


class AsyncLiveLine(Protocol):
    """A live connection for asynchronous programs."""

    async def run(self) -> str: ...
    async def send(self, request: int, message: Message) -> None: ...
    async def collect(self, sequence_number: int) -> None: ...
    def go_on(self) -> None:
        """Go on: there is room again."""
        ...

    def leave(self) -> None: ...
    async def close(self) -> None: ...


class AsyncLiveDoor(Protocol):
    async def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> AsyncLiveLine: ...
    def pause(self, attempt: int) -> float: ...
    def gives_up(self, attempt: int, seconds: float) -> bool: ...
