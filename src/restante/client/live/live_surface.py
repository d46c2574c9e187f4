"""`Live` and `LiveSent`, protocols of a followed mailbox: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from restante.model.publishing.message import Message


class LiveSent(Protocol):
    """A message that is on its way."""

    id: str

    def processed(self) -> None:
        """Wait until the message is durable. Raises why, if it is not going to be."""
        ...


class Live(Protocol):
    """A mailbox, followed: each message once and in order. Use it in a `with` statement, or close it."""

    @property
    def position(self) -> int | None:
        """The sequence number of the last message shown, or where following began; None before it is known."""
        ...

    @property
    def gaps_recovered(self) -> int:
        """How often messages that were not pushed were fetched from history."""
        ...

    @property
    def reconnects(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def send(self, message: Message) -> LiveSent: ...
    def collected(self, message: Message | int) -> int:
        """Say that all messages up to this one have been taken; gives how many were collected by that."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
