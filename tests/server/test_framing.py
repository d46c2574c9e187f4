"""Where a request ends: the server, another parser, and whoever is passed a request on to agree about it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from restante.server.connections.exchange import Exchange
from restante.server.route_table import Route
from restante.server.serve import ServedHub, Service
from tests.profiles import by_profile
from tests.server.framing import disagreement
from tests.server.test_protection import opened, rest, serving
from tests.server.wire import Wire

STREAMS, STREAMS_LONG = 400, 100_000
ERASE = b"DELETE /v1/recipients/ada HTTP/1.1\r\nhost: localhost\r\n\r\n"
KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
LOOK = b"GET /v1/recipients/ada/explain HTTP/1.1\r\nhost: localhost\r\n"
UPGRADES = {
    "of an unknown kind": LOOK + b"connection: upgrade\r\nupgrade: foo\r\n",
    "to HTTP/2": LOOK + b"connection: keep-alive, Upgrade\r\nupgrade: h2c\r\n",
    "of a sender": b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: foo\r\n"
    b"content-type: application/json\r\n",
    "to a WebSocket": b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    + KEY,
    "named in two headers": LOOK + b"connection: upgrade\r\nconnection: keep-alive\r\nupgrade: websocket\r\n" + KEY,
    "to connect": b"CONNECT /v1/messages HTTP/1.1\r\nhost: localhost\r\n",
}
BODIES = {
    "with a length": b"content-length: %d\r\n\r\n" % len(ERASE) + ERASE,
    "with an odd length": b"content-length: 00%d\r\n\r\n" % len(ERASE) + ERASE,
    "in chunks": b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(ERASE) + ERASE + b"\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", UPGRADES)
@pytest.mark.parametrize("pieces", [1, 2], ids=["in one piece", "in two pieces"])
def test_the_body_of_an_upgrade_is_never_the_next_request(
    running: ServedHub, kind: str, body: str, pieces: int
) -> None:
    wire = Wire(running.url)
    wire.publish({"recipient": "ada", "data": 1})
    head, end, content = BODIES[body].partition(b"\r\n\r\n")
    connection = opened(running, UPGRADES[kind] + head + end + (content if pieces == 1 else b""))
    if pieces == 2:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert connection.recv(1, socket.MSG_PEEK), "it is answered before its body has come"
        connection.sendall(content)
    first = connection.recv(65_536)
    connection.shutdown(socket.SHUT_WR)  # The server waits a while for a client that goes on.
    answer = first + rest(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"has no body" in answer
    assert wire.get("/v1/recipients/ada/peek").headers["restante-message-count"] == "1"


@pytest.mark.parametrize("upgrade", [b"foo", b"h2c"])
def test_a_request_behind_an_upgrade_that_is_not_made_is_answered_too(running: ServedHub, upgrade: bytes) -> None:
    last = b"GET /v1/partitions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = rest(opened(running, LOOK + b"connection: upgrade\r\nupgrade: " + upgrade + b"\r\n\r\n" + last))
    assert answer.count(b"HTTP/1.1 200") == 2


UNREADABLE = {
    "with more headers than the library reads": (b"x: y\r\n" * 130, b"431"),
    "with a longer line than the library reads": (b"x: " + b"y" * 9_000 + b"\r\n", b"431"),
    "without what a handshake needs": (b"", b"426"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_handshake_that_cannot_be_read_is_answered_and_closed(running: ServedHub, kind: str) -> None:
    more, status = UNREADABLE[kind]
    sent = b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n" + more
    answer = rest(opened(running, sent + (b"" if status == b"426" else KEY) + b"\r\n"))
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"restante-correlation-id" in answer.lower()
    assert answer.split(b" ", 2)[1] in (status, b"400")


def test_frames_before_the_answer_of_the_handshake_are_refused(running: ServedHub) -> None:
    sent = (
        b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n" + KEY + b"\r\n"
    )
    answer = rest(opened(running, sent + b"\x81\x80\0\0\0\0"))
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_handshake_that_nobody_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "data", header_seconds=1, drain_seconds=0) as running:

        async def never(_: Route, exchange: Exchange) -> None:
            await asyncio.Event().wait()

        assert isinstance(running.service, Service)
        monkeypatch.setattr(running.service.application, "handle", never)
        sent = (
            b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            + KEY
            + b"\r\n"
        )
        assert rest(opened(running, sent)).startswith(b"HTTP/1.1 503")


def test_readers_agree_where_requests_end() -> None:
    count = by_profile(dev=STREAMS, ci=5 * STREAMS)
    assert [found for found in map(disagreement, range(count)) if found] == []


@pytest.mark.long
@pytest.mark.skipif("RESTANTE_LONG" not in os.environ, reason="takes minutes")
def test_readers_agree_where_requests_end_in_every_stream() -> None:
    assert [found for found in map(disagreement, range(STREAMS_LONG)) if found] == []
