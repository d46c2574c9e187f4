"""`Live` and `LiveSent`, protocols of a followed mailbox: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from restante.model.publishing.message import Message


class LiveSent(Protocol):
    """A message that was sent over a live connection."""

    id: str

    def processed(self) -> None:
        """Wait until the message is durable. Raises the reason if it will not be."""
        ...


class Live(Protocol):
    """Follows a mailbox: shows each message once and in order. Use it in a `with` statement, or close it."""

    @property
    def position(self) -> int | None:
        """The sequence number of the last message shown, or the one after which following began; None until it is known."""
        ...

    @property
    def gaps_recovered(self) -> int:
        """How often messages that were not pushed had to be fetched from history."""
        ...

    @property
    def reconnects(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def send(self, message: object) -> LiveSent: ...
    def collected(self, message: Message | int) -> int:
        """Confirm all messages up to this one; return how many were collected by this call."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
