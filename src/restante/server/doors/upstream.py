"""Requests of one shard, passed on as they came to its own server, and its answers, passed back as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import httptools

from restante.cluster.places import LinePlace
from restante.errors import OutcomeUnknown, Unavailable
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.server.connections.exchange import ClientGone, Event, Exchange, Receive, Send

_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"expect", b"upgrade", b"proxy-connection", b"te"})
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"trailer"})
"""The client's own framing of a body. A request is passed on with the length of the body that is there."""
_ABOUT_A_BODY = frozenset({b"content-type", b"content-encoding"})
_OURS = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server", b"x-content-type-options"})
"""Headers of an answer that this server gives itself."""
_KEPT_MAX = 64
_BUFFER_BYTES = 256 * 1024
_PAUSE_SECONDS = 0.05
_SAFE = frozenset({"GET", "HEAD"})
"""Asked again if the shard went away: a peek gives the same bundle again."""


class _SurplusAnswer(Exception):
    """The error for more bytes from a shard than the answer that it was asked for."""


class UpstreamAnswer(asyncio.Protocol):
    """One connection to the server of a shard: one request after another."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._woken = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self.begin()

    def begin(self) -> None:
        """Begin with the next request."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = self.whole = self.keeps = False
        self.lost = self._asked = self._early = False
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are of no class of asyncio.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._asked:
            self.abort()  # Bytes that nobody asked for, after the end of the answer before.
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.lost = True
            self.abort()
        self._woken.set()

    def on_message_begin(self) -> None:
        if self.whole:
            raise _SurplusAnswer  # The answer to a request that was never made: later answers would go to the wrong callers.

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        self.lost = True
        self._writable.set()
        self._woken.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status, self.has_head = self._parser.get_status_code(), True
        self._early = self.transport is None or self.transport.get_write_buffer_size() > 0

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._bytes += len(body)
        if self._bytes > _BUFFER_BYTES and self.transport is not None:
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            # A far end that answered before it had the whole request may take the rest of it for the next one.
            self.whole, self.keeps = True, self._parser.should_keep_alive() and not self._early
        else:
            self.has_head, self.headers = False, []

    @property
    def closing(self) -> bool:
        return self.lost or self.transport is None or self.transport.is_closing()

    async def ask(self, head: bytes, body: bytes = b"") -> None:
        """Write a whole request."""
        assert self.transport is not None
        if len(body) < _BUFFER_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(body)
        self._asked = True
        await self._writable.wait()

    async def head(self) -> bool:
        """Wait for the status and the headers; False if the connection was lost before."""
        while not self.has_head and not self.lost:
            self._woken.clear()
            await self._woken.wait()
        return self.has_head

    async def piece(self) -> bytes | None:
        """The next piece of the body that has come; None at its end."""
        while not self._pieces and not self.whole and not self.lost:
            self._woken.clear()
            await self._woken.wait()
        if not self._pieces:
            if not self.whole:
                raise ClientGone  # The answer cannot be finished, and must not seem whole.
            return None
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._bytes = 0
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        return piece

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Upstream:
    """The server of one shard, and the connections to it that are kept."""

    def __init__(self, place: LinePlace, name: str) -> None:
        self.place = place
        self.name = name
        self._kept: list[UpstreamAnswer] = []

    async def open(self, protocol: type[asyncio.Protocol]) -> asyncio.Protocol:
        """A new connection; a shard that is just starting is waited for."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SHARD_PATIENCE_SECONDS
        while True:
            try:
                found = await self.place.connect(protocol)
            except OSError as error:
                if loop.time() > deadline:
                    text = f"{self.name} does not answer ({error.strerror or error}). Try again."
                    raise self.place.away(text) from error
            else:
                return found
            await asyncio.sleep(_PAUSE_SECONDS)

    async def take(self) -> tuple[UpstreamAnswer, bool]:
        """A connection, and whether it is a new one."""
        while self._kept:
            kept = self._kept.pop()
            if not kept.closing:
                kept.begin()
                return kept, False
        return await self.fresh(), True

    async def fresh(self) -> UpstreamAnswer:
        """A connection of its own, which its user ends."""
        found = await self.open(UpstreamAnswer)
        assert isinstance(found, UpstreamAnswer)
        return found

    def keep(self, connection: UpstreamAnswer) -> None:
        if connection.keeps and not connection.closing and len(self._kept) < _KEPT_MAX:
            self._kept.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        for connection in self._kept:
            connection.abort()
        self._kept.clear()


def head_bytes(exchange: Exchange, body: bytes | None = None) -> bytes:
    """The request line and the headers as they came, less those about the connection; they end with an empty line.

    The length that they state is that of `body`, and never what the client said. Without one, they say nothing of a body:
    else the shard would wait for a body, and take the next request on this connection for it.

    A HEAD is passed on as a GET, so that the parser finds the end of the answer; the server of the door leaves the body out.
    HTTP/1.0 may come without a Host, which is judged here already, and is passed on as HTTP/1.1, which may not.
    """
    scope = exchange.scope
    method = "GET" if exchange.method == "HEAD" else exchange.method
    target = exchange.path + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target)]
    if exchange.raw(b"host") is None:
        lines.append(b"host: localhost")
    left_out = _HOP_BY_HOP | _FRAMING if body is not None else _HOP_BY_HOP | _FRAMING | _ABOUT_A_BODY
    lines += [b"%b: %b" % header for header in scope["headers"] if header[0] not in left_out]
    if body is not None:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join([*lines, b"", b""])


async def forward(upstream: Upstream, exchange: Exchange, body: bytes, receive: Receive, send: Send) -> None:
    """Have a request answered by the server of a shard."""
    head = head_bytes(exchange, body)
    while True:
        connection, fresh = await upstream.take()
        try:
            await connection.ask(head, body)
            if await _unless_gone(connection, receive):
                await _pass_back(connection, exchange, send)
                upstream.keep(connection)
                return
        except BaseException:
            connection.abort()
            raise
        connection.abort()
        if fresh and exchange.method not in _SAFE:
            raise OutcomeUnknown(f"{upstream.name} ended before it answered. It may have been carried out.")
        if fresh:
            await asyncio.sleep(_PAUSE_SECONDS)


async def _unless_gone(connection: UpstreamAnswer, receive: Receive) -> bool:
    """Whether the answer has begun; `ClientGone` as soon as the client has."""
    if connection.has_head:
        return True
    answered, gone = asyncio.ensure_future(connection.head()), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((answered, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise ClientGone
        return answered.result()
    finally:
        answered.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pass_back(connection: UpstreamAnswer, exchange: Exchange, send: Send) -> None:
    exchange.status = connection.status
    headers = [header for header in connection.headers if header[0] not in _OURS]
    start: Event = {"type": "http.response.start", "status": connection.status, "headers": headers}
    await send(start)
    while (piece := await connection.piece()) is not None:
        exchange.sent_bytes += len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def fetch(
    upstream: Upstream, exchange: Exchange, path: bytes | None = None, header: bytes = b""
) -> tuple[int, bytes]:
    """The status and the body of what a shard answers to a request without a body, or to the same for another path.

    `header` is one more line.
    """
    head = head_bytes(exchange)
    if header:
        head = head.removesuffix(b"\r\n") + header + b"\r\n\r\n"
    if path is not None:
        _, _, rest = head.partition(b"\r\n")
        head = b"GET %b HTTP/1.1\r\n%b" % (path, rest)
    while True:
        connection, fresh = await upstream.take()
        try:
            await connection.ask(head)
            if await connection.head():
                pieces = []
                while (piece := await connection.piece()) is not None:
                    pieces.append(piece)
                upstream.keep(connection)
                return connection.status, b"".join(pieces)
        except ClientGone as error:
            raise Unavailable(f"{upstream.name} ended before it answered. Try again.") from error
        except BaseException:
            connection.abort()
            raise
        connection.abort()
        if fresh:
            await asyncio.sleep(_PAUSE_SECONDS)
