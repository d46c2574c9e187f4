"""The short way of a request past the application, as a connection sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from restante.model.access.access import Grant

Headers = Sequence[tuple[bytes, bytes]]
Answered = Callable[[int, bytes, bytes], None]
"""Takes the status of an answer, its headers as they are written, and its body."""


class AdmittedRequest(NamedTuple):
    """A request that was let in, before its body had come."""

    way: ShortWay
    size: int
    """The room that it has taken."""
    grant: Grant
    place: tuple[str, ...]
    """The names in its path."""
    at: float


class ShortWay(Protocol):
    """Takes requests of one route that are plainly right, without the application."""

    def let_in(self, url: bytes, headers: Headers) -> AdmittedRequest | None:
        """Take room for a request that may go this way, as far as its head says; None if it may not."""

    def let_out(self, admitted: AdmittedRequest) -> None:
        """Give the room back of a request that does not go this way."""

    def take(self, admitted: AdmittedRequest, headers: Headers, body: bytes, answered: Answered) -> bool:
        """Do what is asked, and have it answered later; False: nothing was done, the long way is to be gone."""


class ShortWays(Protocol):
    """The short ways of a server."""

    def find(self, method: bytes, url: bytes) -> ShortWay | None:
        """The way that a request may go, as far as its first line says; None if there is none."""


class Answering(Protocol):
    """A connection whose answers leave in the order of its requests."""

    def answer_in_turn(self) -> None:
        """An answer is there."""


class ShortAnswer:
    """The answer to a request that went the short way, once it is there."""

    __slots__ = ("_connection", "body", "head", "status")

    def __init__(self, connection: Answering, refusal: bytes = b"") -> None:
        self._connection = connection
        self.status = 0
        """0: it is not there yet, or it is a refusal that is written as it stands."""
        self.head = b""
        self.body = refusal

    @property
    def is_there(self) -> bool:
        return bool(self.body)

    def put(self, status: int, head: bytes, body: bytes) -> None:
        self.status, self.head, self.body = status, head, body
        self._connection.answer_in_turn()

    def written(self, defaults: bytes) -> bytes:
        """The answer as it goes out, with the headers that every answer has."""
        if not self.status:
            return self.body
        length = len(self.body)
        return b"%b%b%bcontent-length: %d\r\n\r\n%b" % (
            STATUS_LINE[self.status],
            defaults,
            self.head,
            length,
            self.body,
        )


class AnswerDefaults:
    """The headers of every answer as they are written; uvicorn makes others each second, for the date."""

    def __init__(self) -> None:
        self._headers: Headers = ()
        self._written = b""

    def written(self, headers: Headers) -> bytes:
        if headers is not self._headers:
            self._headers, self._written = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._written


class PipelineFlow(FlowControl):
    """Reads nothing more of a connection while requests wait on it that have come whole.

    Uvicorn reads on after each answer. Who pipelines faster than it is answered would fill the memory with requests.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
