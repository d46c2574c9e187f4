"""The short way of a request past the application, as a connection sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Headers = Sequence[tuple[bytes, bytes]]
Answered = Callable[[int, bytes, bytes], None]
"""Takes the status of an answer, its headers as they are written, and its body."""


class ShortWay(Protocol):
    """Takes requests of one route that are plainly right, without the application."""

    path: bytes

    def let_in(self, headers: Headers) -> int | None:
        """Take room for a request that may go this way, as far as its headers say: how much; None if it may not."""

    def let_out(self, size: int) -> None:
        """Give the room back of a request that does not go this way."""

    def take(self, headers: Headers, body: bytes, answered: Answered) -> bool:
        """Do what is asked, and have it answered later; False: nothing was done, the long way is to be gone."""


class Answering(Protocol):
    """A connection whose answers leave in the order of its requests."""

    def head_of(self, status: int) -> bytes:
        """The first line of an answer, and the headers that every answer has."""

    def answer_in_turn(self) -> None:
        """An answer is there."""


class ShortAnswer:
    """The answer to a request that went the short way, once it is there."""

    __slots__ = ("_connection", "written")

    def __init__(self, connection: Answering, written: bytes | None = None) -> None:
        self._connection = connection
        self.written = written

    def put(self, status: int, head: bytes, body: bytes) -> None:
        self.written = b"%b%bcontent-length: %d\r\n\r\n%b" % (self._connection.head_of(status), head, len(body), body)
        self._connection.answer_in_turn()


class AnswerDefaults:
    """The headers of every answer as they are written; uvicorn makes others each second, for the date."""

    def __init__(self) -> None:
        self._headers: Headers = ()
        self._written = b""

    def written(self, headers: Headers) -> bytes:
        if headers is not self._headers:
            self._headers, self._written = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._written
