"""The short way of requests past the application, from the view of a connection."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from restante.errors import InvalidRequest
from restante.model.access.access import Grant
from restante.wire import media
from restante.wire.problems import problem_of

HeaderList = Sequence[tuple[bytes, bytes]]


def announces_body(headers: HeaderList) -> bool:
    """Whether the headers of a request say that a body follows."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 \t") != b"")
        for name, value in headers
    )


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
    """Whether later requests of the connection are likely to have the same head."""
    counts: bytes = b""
    """The header, if any, whose value is a number that changes with each request."""


class AdmittedRequest(NamedTuple):
    """A request that was admitted before its body was complete. It has room for its body, if its way takes room."""

    head: PlainHead
    grant: Grant
    at: float


class ShortWay(Protocol):
    """Takes plainly valid requests of one route without the application."""

    def head_of(self, url: bytes, headers: HeaderList) -> PlainHead | None:
        """The parsed head; None if a request with it does not go this way. Equal heads must give equal results."""

    def let_in(self, head: PlainHead) -> AdmittedRequest | None:
        """Admit a request, and take room for it; None if there is no room, or the caller may not make it."""

    def let_out(self, admitted: AdmittedRequest) -> None:
        """Give back the room of an admitted request that does not go this way."""

    def take(self, admitted: AdmittedRequest, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Submit a complete request, whose answer comes later. None, with nothing done, if it must go the long way."""

    def take_whole(self, head: PlainHead, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Admit and submit a complete request. None, with nothing done, if it must go the long way."""


_KNOWN_HEADS_MAX = 8
_KNOWN_HEAD_BYTES_MAX = 1_024
_DIGITS_MAX = 18


class _CountingHead(NamedTuple):
    """A head split around its changing number."""

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
    """The heads of requests that went a short way on one connection, by their exact bytes.

    The parser has already read these bytes at the start of a request, and found a head with a body of known length. So equal
    bytes, followed by a body of that length, need not be parsed again. A counting head may differ in its number.
    """

    __slots__ = ("_counting", "_heads", "any", "latest", "length", "own")

    def __init__(self) -> None:
        self.any = False
        """Whether any head is known."""
        self.own = b""
        self.length = -1
        """The length of the last whole request with a known head: most connections repeat one kind of request of one length."""
        self.latest: PlainHead | None = None
        """The head of a request that begins with `own` and has this length."""
        self._heads: dict[bytes, PlainHead] = {}
        self._counting: _CountingHead | None = None
        """The latest counting head. One is enough, because a connection usually belongs to one producer."""

    def remember(self, data: bytes, head: PlainHead) -> None:
        """Remember the head of a whole request that came in one piece."""
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
        """The head of a whole request, if it is known and `data` has nothing else."""
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
    """Split a head around its number; None if it is not plainly a number."""
    number = head.given[head.counts]
    name = own.lower().find(b"\r\n" + head.counts + b":")
    start = own.find(number, name + len(head.counts) + 3)
    if name < 0 or start < 0 or not number.isdigit() or own[start + len(number) : start + len(number) + 2] != b"\r\n":
        return None
    return _CountingHead(own[:start], own[start + len(number) :], head)


class ShortWays(Protocol):
    """The short ways of a server."""

    def find(self, method: bytes, url: bytes) -> ShortWay | None:
        """The short way for a request with this first line; None if there is none."""


class Answering(Protocol):
    """A connection whose answers leave in the order of its requests."""

    def answer_in_turn(self) -> None:
        """Called when an answer is there."""


class ShortAnswer:
    """The answer to a request that went the short way, which may not be there yet."""

    __slots__ = ("_connection", "body", "head", "status")

    def __init__(self, connection: Answering, refusal: bytes = b"") -> None:
        self._connection = connection
        self.status = 0
        """The status; 0 for a refusal that is written unchanged, or while the answer is not there yet."""
        self.head = b""
        """The encoded headers of the answer."""
        self.body = refusal
        """The body; empty while the answer is not there yet."""

    def put(self, status: int, head: bytes, body: bytes) -> None:
        self.status, self.head, self.body = status, head, body
        self._connection.answer_in_turn()

    def written(self, defaults: bytes) -> bytes:
        """The encoded answer, with the default headers."""
        status, body = self.status, self.body
        if not status:
            return body
        return b"%b%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[status], defaults, self.head, len(body), body)


def refusal(status: int, code: str, detail: str) -> bytes:
    """The whole answer to a request that does not reach the application. The connection ends after it."""
    made = secrets.token_hex(8)
    problem = problem_of(InvalidRequest(detail), correlation_id=made) | {"status": status, "code": code}
    body = msgspec.json.encode(problem)
    head = (
        f"HTTP/1.1 {status} Refused\r\ncontent-type: {media.PROBLEM}\r\ncontent-length: {len(body)}\r\n"
        f"restante-correlation-id: {made}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


class AnswerDefaults:
    """A cache of the encoded default headers, which uvicorn renews each second because of the date."""

    def __init__(self) -> None:
        self._headers: HeaderList = ()
        self._written = b""

    def written(self, headers: HeaderList) -> bytes:
        if headers is not self._headers:
            self._headers, self._written = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._written


class PipelineFlow(FlowControl):
    """Flow control that does not resume reading from a connection while complete requests wait on it.

    Uvicorn resumes after each answer, so a client that pipelines faster than it is answered could fill the memory.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
