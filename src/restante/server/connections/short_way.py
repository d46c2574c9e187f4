"""The short way of a request past the application, as a connection sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from restante.model.access.access import Grant

Headers = Sequence[tuple[bytes, bytes]]


class PlainHead(NamedTuple):
    """The head of a request that may go a short way."""

    way: ShortWay
    size: int
    """The length of the body."""
    place: tuple[str, ...]
    """The names in its path."""
    given: Mapping[bytes, bytes]
    """The headers of the request."""
    authorization: str | None
    recurs: bool
    """Whether other requests of the connection are likely to have the same one."""
    counts: bytes = b""
    """The header, if any, whose value is a number that is another each time."""


class AdmittedRequest(NamedTuple):
    """A request that was let in, before its body had come. It has taken room for its body, if its way takes any."""

    head: PlainHead
    grant: Grant
    at: float


class ShortWay(Protocol):
    """Takes requests of one route that are plainly right, without the application."""

    def head_of(self, url: bytes, headers: Headers) -> PlainHead | None:
        """The parsed head; None if a request with it does not go this way. The same head says the same."""

    def let_in(self, head: PlainHead) -> AdmittedRequest | None:
        """Take room for a request, if there is any, and its caller may do what it asks for."""

    def let_out(self, admitted: AdmittedRequest) -> None:
        """Give the room back of a request that does not go this way."""

    def take(self, admitted: AdmittedRequest, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Do what is asked; its answer comes later. None: nothing was done, the long way is to be gone."""

    def take_whole(self, head: PlainHead, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Let a request in that has come whole, and take it. None: nothing was done, the long way is to be gone."""


_KNOWN_HEADS_MAX = 8
_KNOWN_HEAD_BYTES_MAX = 1_024
_DIGITS_MAX = 18


class _CountingHead(NamedTuple):
    """A head around the number in it."""

    before: bytes
    behind: bytes
    head: PlainHead

    def head_of(self, data: bytes) -> PlainHead | None:
        start = len(self.before)
        end = data.find(b"\r", start, start + _DIGITS_MAX + 1)
        if end < 0 or not data.startswith(self.before) or not data.startswith(self.behind, end):
            return None
        number, head = data[start:end], self.head
        if not number.isdigit() or len(data) != end + len(self.behind) + head.size:
            return None
        return head._replace(given={**head.given, head.counts: number})


class KnownHeads:
    """The heads of requests that went a short way on one connection, by their very bytes.

    The parser has read these bytes, between two requests as now, and found the head of a request with a body of known
    length. So bytes that are equal, with just as long a body behind them, need not be parsed once more. Of a head that counts
    all bytes are equal but the digits of its number.
    """

    __slots__ = ("_counting", "_heads", "any", "latest", "length", "own")

    def __init__(self) -> None:
        self.any = False
        """Whether a head was remembered."""
        self.own = b""
        self.length = -1
        """The length of the whole request whose head was found last: most connections have one kind of request, of one length."""
        self.latest: PlainHead | None = None
        """The head of a request that begins with `own` and is just so long."""
        self._heads: dict[bytes, PlainHead] = {}
        self._counting: _CountingHead | None = None
        """The latest: a connection is one producer's, as a rule."""

    def remember(self, data: bytes, head: PlainHead) -> None:
        """Remember the head of a whole request that came at once."""
        own = data[: len(data) - head.size]
        if not head.recurs or own in self._heads or len(own) > _KNOWN_HEAD_BYTES_MAX:
            return
        self.any = True
        if head.counts in head.given:
            self._counting = _counting(own, head)
            return
        if len(self._heads) >= _KNOWN_HEADS_MAX:
            self._heads.clear()
            self.length = -1
        self._heads[own] = head

    def head_of(self, data: bytes) -> PlainHead | None:
        """The head of a whole request, if it is known and nothing else came with it."""
        end = data.find(b"\r\n\r\n") + 4
        own = data[:end]
        head = self._heads.get(own)
        if head is None:
            return None if self._counting is None else self._counting.head_of(data)
        if len(data) != end + head.size:
            return None
        self.own, self.length, self.latest = own, len(data), head
        return head


def _counting(own: bytes, head: PlainHead) -> _CountingHead | None:
    """A head around its number; None if that is not plainly one."""
    number = head.given[head.counts]
    name = own.lower().find(b"\r\n" + head.counts + b":")
    start = own.find(number, name + len(head.counts) + 3)
    if name < 0 or start < 0 or not number.isdigit() or own[start + len(number) : start + len(number) + 2] != b"\r\n":
        return None
    return _CountingHead(own[:start], own[start + len(number) :], head)


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
        """0: it is a refusal that is written as it stands, or it is not there yet."""
        self.head = b""
        """The headers of the answer, as they are written."""
        self.body = refusal
        """The body, or nothing: it is not there yet."""

    def put(self, status: int, head: bytes, body: bytes) -> None:
        self.status, self.head, self.body = status, head, body
        self._connection.answer_in_turn()

    def written(self, defaults: bytes) -> bytes:
        """The answer as it goes out, with the headers that every answer has."""
        status, body = self.status, self.body
        if not status:
            return body
        return b"%b%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[status], defaults, self.head, len(body), body)


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
    """A flow control that reads nothing more of a connection while whole requests wait on it.

    Uvicorn reads on after each answer. Who pipelines faster than it is answered would fill the memory with requests.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
