"""Byte streams of requests with every kind of framing, right and wrong, and what three readers make of one.

The readers are the connection of the server, h11, and the server and h11 again with what a node passes on.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import h11
import uvicorn
from uvicorn.server import ServerState

from restante.errors import RestanteError
from restante.limits import HEADER_BYTES_MAX, SEND_BYTES_MAX
from restante.server.access.gate import Gate
from restante.server.access.web_access import WebAccess
from restante.server.connections.bodies import received
from restante.server.connections.exchange import ClientGone, Exchange, Receive, Scope, Send
from restante.server.connections.protocol import HttpConnection
from restante.server.connections.room import Room
from restante.server.connections.socket_protocol import Socket
from restante.server.doors.upstream import head_bytes
from restante.server.health.metrics import Metrics
from restante.settings import ServerSettings

_IDLE_TURNS = 12
"""Turns of the loop after which nothing happens any more by itself: a request takes fewer from one event to the next."""


class Asked(NamedTuple):
    """A request as a reader understood it."""

    method: str
    target: bytes
    body: bytes


@dataclass
class Reading:
    """The whole requests that a reader found, in order, and whether it refused to read on."""

    requests: list[Asked] = field(default_factory=list)
    ended: bool = False
    passed_on: list[bytes] = field(default_factory=list)
    """Each request as a node writes it to the one that it passes it on to."""


# The connection of the server


class _Wire(asyncio.Transport):
    """The connection to a client that has sent all its pieces: each is given when the server reads."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self._pieces = [*pieces]
        self._reads = True
        self._protocol: asyncio.BaseProtocol | None = None
        self.closed = False
        self.written = bytearray()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True

    def is_reading(self) -> bool:
        return self._reads

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def give(self) -> bool:
        """Give the next piece, or as much of it as the reader takes. False if there is none, or nobody reads."""
        if self.closed or not self._reads or not self._pieces:
            return False
        piece, protocol = self._pieces.pop(0), self.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = cast("memoryview", protocol.get_buffer(len(piece)))
            count = min(len(buffer), len(piece))
            buffer[:count] = piece[:count]
            if piece[count:]:
                self._pieces.insert(0, piece[count:])
            protocol.buffer_updated(count)
        else:
            cast("asyncio.Protocol", protocol).data_received(piece)
        return True


class _Recorder:
    """An application that notes each whole request, and what would be passed on of it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._access = WebAccess(ServerSettings(), Gate(None), "http://localhost", free_paths=(b"/",))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        query = scope["query_string"]
        target = exchange.path + (b"?" + query if query else b"")
        if scope["type"] == "websocket":
            self._reading.requests.append(Asked("GET", target, b""))
            await send({"type": "websocket.close"})
            return
        try:
            body = bytes(await received(exchange, None, SEND_BYTES_MAX))
        except ClientGone:
            return
        self._reading.requests.append(Asked(exchange.method, target, body))
        try:
            self._access.check(exchange)
            self._reading.passed_on.append(head_bytes(exchange, body) + body)
        except RestanteError:
            self._reading.passed_on.append(b"")  # The server refuses it.
        await exchange.answer(200, b"")


def read_by_server(pieces: Sequence[bytes]) -> Reading:
    return asyncio.run(_read_by_server(pieces))


async def _read_by_server(pieces: Sequence[bytes]) -> Reading:
    reading, settings = Reading(), ServerSettings()
    kind = type("Connection", (HttpConnection,), {"settings": settings, "metrics": Metrics()})
    socket = type("Socket", (Socket,), {"settings": settings, "room": Room(settings)})
    config = uvicorn.Config(_Recorder(reading), http=kind, ws=socket, lifespan="off", log_config=None, access_log=False)
    config.load()
    connection, wire, state = kind(config=config, server_state=ServerState(), app_state={}), _Wire(pieces), None
    wire.set_protocol(connection)
    connection.connection_made(wire)
    idle = 0
    while idle < _IDLE_TURNS:
        given = wire.give()
        await asyncio.sleep(0)
        now = (len(reading.requests), len(wire.written), wire.closed, wire.is_reading())
        idle, state = (0, now) if given or now != state else (idle + 1, state)
    reading.ended = wire.closed
    wire.closed = True
    cast("asyncio.Protocol", wire.get_protocol()).connection_lost(None)
    for _ in range(_IDLE_TURNS):
        await asyncio.sleep(0)
    return reading


# h11

_ORIGIN = re.compile(rb"^http://[^/]*")
"""The part of an absolute target that the server leaves out, like a fragment."""


def read_by_h11(pieces: Sequence[bytes]) -> Reading:
    reading, connection = Reading(), h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
    request, body = None, b""
    for piece in pieces:
        try:
            connection.receive_data(piece)
            while True:
                event = connection.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED):
                    break
                if isinstance(event, h11.Request):
                    request, body = event, b""
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    assert request is not None
                    target = _ORIGIN.sub(b"", request.target).partition(b"#")[0]
                    reading.requests.append(Asked(request.method.decode(), target, body))
                    connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if connection.our_state is not h11.DONE:
                        reading.ended = True
                        return reading
                    connection.start_next_cycle()
                else:
                    reading.ended = True
                    return reading
        except h11.RemoteProtocolError:
            reading.ended = True
            return reading
    return reading


# What they are given

_SMUGGLED = b"DELETE /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"
_LENGTHS = (b"%d",) * 40 + (b"+%d", b"%d ", b"0%d", b"0x%d", b"%d, %d", b"-%d", b"%d\t", b"\t%d", b" %d", b"")
_CODINGS = (b"chunked",) * 30 + (
    b"Chunked",
    b"gzip, chunked",
    b"chunked, chunked",
    b"identity",
    b" chunked ",
    b"\x0bchunked",
    b"x",
)
_METHODS = (b"GET", b"POST", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"PATCH", b"SEARCH")
_TARGETS = (b"/v1/messages", b"/a?b=c", b"/", b"/%20", b"*", b"http://localhost/a", b"localhost:80", b"/a#b", b"//a")
_OTHERS = (
    b"Upgrade: websocket",
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13",
    b"Upgrade: foo",
    b"Upgrade: h2c",
    b"Connection: Upgrade",
    b"Connection: Upgrade",
    b"Connection: keep-alive, upgrade",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Expect: 100-continue",
    b"Trailer: x-late",
    b"Proxy-Connection: keep-alive",
    b"TE: trailers",
    b"Content_Length: 7",
)
_BAD = (
    b"X-Folded: a\r\n b",
    b"X-Return: a\rb",
    b"X Space: a",
    b"X-Space : a",
    b"Transfer-Encoding : chunked",
    b"Content-Length : 4",
)
_SIZES = (b"%x",) * 30 + (b"%X", b"0%x", b"%x;a=b", b'%x;a="b;c"', b"%x ", b"+%x", b"0x%x")
_TRAILERS = (b"",) * 12 + (b"x-late: 1\r\n", b"content-length: 9\r\n", b"transfer-encoding: chunked\r\n", b"bad\r\n")


def stream(number: int) -> list[bytes]:
    """The pieces of a byte stream. All of it follows from the number."""
    chance = random.Random(number)
    sent = b"".join(_request(chance) for _ in range(chance.randint(1, 4)))
    for _ in range(chance.choice((0, 0, 0, 0, 1, 2))):
        sent = _spoilt(chance, sent)
    if chance.random() < 0.3:
        return [sent]
    cuts = sorted(chance.sample(range(len(sent) + 1), min(chance.randint(1, 6), len(sent))))
    return [piece for piece in map(sent.__getitem__, map(slice, [0, *cuts], [*cuts, None])) if piece]


def _request(chance: random.Random) -> bytes:
    method, target = chance.choice(_METHODS), chance.choice(_TARGETS[:3] if chance.random() < 0.8 else _TARGETS)
    version = b"1.1" if chance.random() < 0.93 else chance.choice((b"1.0", b"1.2", b"2.0", b"0.9"))
    body = chance.choice((b"", b"{}", _SMUGGLED, _SMUGGLED, b"\r\n" + _SMUGGLED, b"x" * chance.randint(0, 300)))
    if chance.random() < 0.02:
        body = b"y" * chance.randint(60_000, 90_000)
    lines = [b"Host: localhost"]
    framing = chance.random()
    if framing < 0.45:
        length = len(body) if chance.random() < 0.9 else chance.choice((0, 1, len(body) + 1, max(0, len(body) - 1)))
        shape = chance.choice(_LENGTHS)
        lines.append(b"Content-Length: " + (shape.replace(b"%d", b"%d" % length)))
    elif framing < 0.8:
        lines.append(b"Transfer-Encoding: " + chance.choice(_CODINGS))
        body = _chunked(chance, body)
    if framing < 0.08 or framing > 0.97:
        lines.append(chance.choice((b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(body), lines[-1])))
    lines += [chance.choice(_OTHERS) for _ in range(chance.choice((0, 0, 1, 2, 3)))]
    lines += [chance.choice(_BAD)] if chance.random() < 0.03 else []
    chance.shuffle(lines)
    return b"\r\n".join([b"%b %b HTTP/%b" % (method, target, version), *lines, b"", b""]) + body


def _chunked(chance: random.Random, body: bytes) -> bytes:
    parts, at = [], 0
    while at < len(body):
        size = min(chance.randint(1, 200), len(body) - at)
        written = chance.choice(_SIZES) % size
        end = b"\r\n" if chance.random() < 0.97 else chance.choice((b"\n", b"", b"\r", b"x\r\n"))
        parts.append(written + b"\r\n" + body[at : at + size] + end)
        at += size
    last = chance.choice((b"0",) * 12 + (b"00", b"0;a", b"-0"))
    trailers = chance.choice(_TRAILERS)
    return b"".join(parts) + last + b"\r\n" + trailers + b"\r\n"


def _spoilt(chance: random.Random, sent: bytes) -> bytes:
    at = chance.randrange(len(sent) + 1)
    match chance.randrange(6):
        case 0:
            return sent[:at] + bytes([chance.randrange(256)]) + sent[at + 1 :]
        case 1:
            return sent[:at] + sent[at + chance.randint(1, 3) :]
        case 2:
            return sent[:at] + chance.choice((b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b"\xff")) + sent[at:]
        case 3:
            return sent[:at] + sent[max(0, at - chance.randint(1, 40)) :]
        case 4:
            ends = sent.split(b"\r\n")
            cut = chance.randrange(len(ends))
            return b"\r\n".join(ends[:cut]) + b"\n" + b"\r\n".join(ends[cut:])
        case _:
            return sent[:at]


def disagreement(number: int) -> str | None:
    """Where the readers of a stream disagree about where a request ends; None if they agree as far as both read."""
    pieces = stream(number)
    own, other = read_by_server(pieces), read_by_h11(pieces)
    short, long = sorted((own, other), key=lambda reading: len(reading.requests))
    if short.requests != long.requests[: len(short.requests)]:
        return f"{number}: {own.requests} and {other.requests}"
    if len(short.requests) < len(long.requests) and not short.ended:
        return f"{number}: one waits after {short.requests}, the other finds {long.requests}"
    for asked, passed in zip(own.requests, own.passed_on, strict=False):
        if not passed:
            continue
        expected = [asked._replace(method="GET") if asked.method == "HEAD" else asked]
        for again in (read_by_server([passed]), read_by_h11([passed])):
            if again.requests != expected:
                return f"{number}: {asked} is passed on as {passed!r}, which is {again.requests}"
    return None
