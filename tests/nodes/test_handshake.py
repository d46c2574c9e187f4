"""Nodes greet each other: who does not know the secret gets nothing, and holds nobody up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from restante.cluster.nodes import peer_server
from restante.cluster.nodes.handshake import HELLO_BYTES, REPLY_BYTES, Hello, Purpose, proof
from restante.cluster.nodes.peer_connection import connect_peer, tell_peer
from restante.cluster.nodes.peer_server import PeerServer, Taker
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.server.serve import listening_socket, url_of

TRUST = PeerTrust(b"a secret of the cluster")


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(data)


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.heard.set_result(data)


@asynccontextmanager
async def listening(asked: list[tuple[Purpose, int]]) -> AsyncIterator[str]:
    def welcome(purpose: Purpose, shard: int) -> Taker | bool:
        asked.append((purpose, shard))
        return Echo if shard == 3 else purpose is Purpose.NUDGE

    bound = listening_socket("127.0.0.1", 0)
    server = PeerServer(bound, TRUST, welcome)
    await server.start()
    try:
        yield url_of(bound).removeprefix("http://")
    finally:
        server.close()


def test_who_knows_the_secret_is_connected_to_the_shard() -> None:
    async def run() -> None:
        asked: list[tuple[Purpose, int]] = []
        async with listening(asked) as address:
            line = await connect_peer(address, TRUST, Purpose.CALLS, 3, Heard)
            assert await line.heard == b"hello"
            line.transport.abort()
            await tell_peer(address, TRUST, Purpose.NUDGE)
            with pytest.raises(ConnectionRefusedError):
                await connect_peer(address, TRUST, Purpose.REQUESTS, 4, Heard)
        assert asked == [(Purpose.CALLS, 3), (Purpose.NUDGE, 0), (Purpose.REQUESTS, 4)]

    asyncio.run(run())


def test_another_secret_is_refused_on_both_sides() -> None:
    async def run() -> None:
        asked: list[tuple[Purpose, int]] = []
        async with listening(asked) as address:
            with pytest.raises(ConnectionRefusedError):
                await connect_peer(address, PeerTrust(b"another secret, as long"), Purpose.CALLS, 3, Heard)
        assert asked == []

    asyncio.run(run())


async def _said(address: str, *pieces: bytes) -> bytes:
    """All that is answered to these pieces, until the other side hangs up."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def _hello() -> bytes:
    return Hello(Purpose.CALLS, 3, os.urandom(32)).encode()


@pytest.mark.parametrize(
    ("name", "length"),
    [("nothing like it", 0), ("another version", 0), ("an unknown purpose", 0), ("too much at once", REPLY_BYTES)],
)
def test_garbage_is_hung_up_on(name: str, length: int) -> None:
    hello = _hello()
    garbage = {
        "nothing like it": b"GET / HTTP/1.1\r\nHost: nobody\r\nAuthorization: Bearer token\r\n\r\n",
        "another version": hello[:8] + b"\x09" + hello[9:],
        "an unknown purpose": hello[:9] + b"x" + hello[10:],
        "too much at once": hello + bytes(100),
    }[name]

    async def run() -> None:
        asked: list[tuple[Purpose, int]] = []
        async with listening(asked) as address:
            assert len(await _said(address, garbage)) <= length
        assert asked == []

    asyncio.run(run())


def test_a_proof_that_was_seen_elsewhere_is_none() -> None:
    async def run() -> None:
        asked: list[tuple[Purpose, int]] = []
        async with listening(asked) as address:
            hello = _hello()
            assert len(hello) == HELLO_BYTES
            answered = await _said(address, hello, proof(TRUST.secret, b"client", hello, bytes(32)))
            assert len(answered) <= REPLY_BYTES
        assert asked == []

    asyncio.run(run())


def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_server, "_GREETING_SECONDS", 0.05)

    async def run() -> None:
        async with listening([]) as address:
            assert await _said(address) == b""

    asyncio.run(run())
