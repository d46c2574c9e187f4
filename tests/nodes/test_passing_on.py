"""What a node passes on to the owner of a shard: one request is one request, and strangers are turned away before it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from restante.errors import Unavailable
from restante.limits import MIB, REQUEST_BYTES_MAX, SEND_BYTES_MAX
from restante.model.access.access import Role
from restante.server.access.tokens import FILE_NAME, TokenFile
from restante.server.doors.tunnel import Tunnel
from restante.server.doors.upstream import Upstream
from tests.nodes.test_nodes import shared_out
from tests.nodes.threaded import SETTINGS, ThreadedNode, founded
from tests.postgresql_server import schema_address
from tests.server.test_framing import BODIES, KEY, UPGRADES
from tests.server.test_protection import rest
from tests.server.wire import Wire
from tests.waiting import wait_until

P = TypeVar("P", bound=asyncio.Protocol)

NAMES = [f"r{number}" for number in range(12)]
"""Recipients of several shards, of either node."""


def started(folder: Path) -> list[ThreadedNode]:
    address = founded(schema_address(folder))
    settings = msgspec.structs.replace(SETTINGS, server=msgspec.structs.replace(SETTINGS.server, header_seconds=1))
    nodes = [ThreadedNode(address, name, folder / name, settings) for name in "ab"]
    wait_until(lambda: shared_out(*nodes), "both nodes have shards")
    return nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ThreadedNode]]:
    nodes = started(tmp_path_factory.mktemp("nodes"))
    Wire(nodes[0].url).publish(*({"recipient": name, "data": 1} for name in NAMES))
    yield nodes
    for node in nodes:
        node.stop()


def opened(node: ThreadedNode, sent: bytes) -> socket.socket:
    connection = socket.create_connection(Wire(node.url).address, timeout=30)
    connection.sendall(sent)
    return connection


def answered(connection: socket.socket) -> bytes:
    """What the node answers first; it waits a while for a client that goes on, which is left out here."""
    with connection:
        return connection.recv(65_536)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", UPGRADES)
def test_the_body_of_an_upgrade_does_not_reach_the_next_caller(nodes: list[ThreadedNode], kind: str, body: str) -> None:
    wire = Wire(nodes[0].url)
    for name in NAMES[:4]:
        sent = (UPGRADES[kind] + BODIES[body]).replace(b"/ada", b"/" + name.encode(), 1)
        assert answered(opened(nodes[0], sent)).startswith(b"HTTP/1.1 400")
        assert wire.get(f"/v1/recipients/{name}/explain").json()["reason"] == "ready"
    assert [wire.get(f"/v1/recipients/{name}/explain").json()["reason"] for name in NAMES] == ["ready"] * len(NAMES)


def test_a_body_is_passed_on_with_the_length_that_it_has(nodes: list[ThreadedNode]) -> None:
    purge = b'{"all": true, "dry_run": true}'
    chunks = (
        b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in (purge[:7], purge[7:])) + b"0\r\nx-late: 1\r\n\r\n"
    )
    for name in NAMES:
        head = (
            b"POST /v1/recipients/%b/purge HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            % name.encode()
        )
        last = b"GET /v1/recipients/%b/explain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % name.encode()
        answer = rest(opened(nodes[0], head + b"transfer-encoding: chunked\r\ntrailer: x-late\r\n\r\n" + chunks + last))
        assert answer.count(b"HTTP/1.1 200") == 2, answer
        assert b'{"messages":1}' in answer


class _FarEnd:
    """A server that answers what each connection sends by a function of the test."""

    def __init__(self, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._answer = answer
        self.connections = 0
        self._port = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._taken, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return Upstream(self, "The far end")

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks)

    def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.append(asyncio.ensure_future(self._talk(reader, writer)))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._answer(reader, writer)
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def connect(self, made: Callable[[], P]) -> P:
        _, protocol = await asyncio.get_running_loop().create_connection(made, "127.0.0.1", self._port)
        return protocol

    def away(self, text: str) -> Unavailable:
        return Unavailable(text)


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


async def _asked(upstream: Upstream, body: bytes = b"") -> bytes:
    """The body of what the far end answers. The connection is kept if it may be."""
    connection, _ = await upstream.take()
    await connection.ask(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body), body)
    assert await connection.head()
    found = b""
    while (piece := await connection.piece()) is not None:
        found += piece
    upstream.keep(connection)
    return found


@pytest.mark.parametrize("surplus", [WHOLE, b"HTTP/1.1 200 OK\r\n", b"x", b"\r\nHTTP/1.1 204 No Content\r\n\r\n"])
def test_a_far_end_that_says_more_than_its_answer_is_asked_no_more(surplus: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(WHOLE + surplus)

    async def run() -> None:
        far = _FarEnd(answer)
        async with far as upstream:
            for asked in range(3):
                assert await _asked(upstream) == b"{}"
                assert far.connections == asked + 1
            upstream.close()

    asyncio.run(run())


def test_a_far_end_that_answers_before_it_has_the_whole_request_is_asked_no_more() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(WHOLE)
            await reader.readexactly(int(head.rpartition(b":")[2]))

    async def run() -> None:
        far = _FarEnd(answer)
        async with far as upstream:
            for asked in range(2):
                connection, _ = await upstream.take()
                size = 64 * MIB
                asking = asyncio.ensure_future(
                    connection.ask(
                        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size, bytes(size)
                    )
                )
                assert await connection.head()
                assert await connection.piece() == b"{}"
                upstream.keep(connection)
                assert connection.closing
                await asking
                assert far.connections == asked + 1
            assert await _asked(upstream) == b"{}"
            assert await _asked(upstream) == b"{}"
            assert far.connections == 3, "a connection whose requests were taken whole is kept"
            upstream.close()

    asyncio.run(run())


# Who is let in


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[ThreadedNode], str]]:
    """Two nodes that ask for tokens, and the token of a worker."""
    tmp_path = tmp_path_factory.mktemp("closed")
    tokens = TokenFile(tmp_path / FILE_NAME)
    text = tokens.create(roles=[Role.WORKER, Role.PUBLISHER], groups=["shop"])
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE_NAME).write_bytes((tmp_path / FILE_NAME).read_bytes())
        (tmp_path / name / FILE_NAME).chmod(0o600)
    nodes = started(tmp_path)
    yield nodes, text
    for node in nodes:
        node.stop()


LARGE = {
    "outcomes": b"POST /v1/groups/shop/partitions/%d/outcomes",
    "a commit": b"POST /v1/consignments/0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b0%x/commit",
}


@pytest.mark.parametrize("query", [b"", b"?ticket=x", b"?%74icket=x"])
@pytest.mark.parametrize("what", LARGE)
def test_a_stranger_is_refused_before_the_body_is_read(
    closed: tuple[list[ThreadedNode], str], what: str, query: bytes
) -> None:
    (node, _), _ = closed
    for number in (0, 5, 9, 15):
        head = LARGE[what] % number + query + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        answer = answered(opened(node, head + b"content-length: %d\r\n\r\n{" % SEND_BYTES_MAX))
        assert answer.startswith(b"HTTP/1.1 400" if query else b"HTTP/1.1 401"), answer
    assert node.node.desk.room.publish_bytes == 0


def test_bodies_on_their_way_to_a_shard_take_room(closed: tuple[list[ThreadedNode], str]) -> None:
    (node, _), token = closed
    head = LARGE["outcomes"] % 1 + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n{" % (token.encode(), SEND_BYTES_MAX)
    connection = opened(node, head)
    room = node.node.desk.room
    wait_until(lambda: room.publish_bytes == SEND_BYTES_MAX, "the body takes room")
    connection.close()
    wait_until(lambda: room.publish_bytes == 0, "and gives it back")


def test_a_small_route_takes_a_small_body_at_every_node(closed: tuple[list[ThreadedNode], str]) -> None:
    nodes, token = closed
    for node in nodes:
        head = b"PUT /v1/groups/shop/positions/3 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n{" % (token.encode(), REQUEST_BYTES_MAX + 1)
        assert answered(opened(node, head)).startswith(b"HTTP/1.1 413")


# Web sockets


def _refusal(node: ThreadedNode, name: str) -> int:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws{node.url.removeprefix('http')}/v1/recipients/{name}/live")
    return refused.value.response.status_code


def test_a_stranger_reaches_no_shard_by_a_web_socket(
    closed: tuple[list[ThreadedNode], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*_: Any) -> None:
        raise AssertionError("a stranger reached a shard")

    monkeypatch.setattr(Tunnel, "__init__", reached)
    nodes, _ = closed
    assert {_refusal(node, name) for node in nodes for name in NAMES} == {401}


def _tunnels(node: ThreadedNode) -> list[Tunnel]:
    return [one for one in node.node.server.server_state.connections if isinstance(one, Tunnel)]


def test_bytes_of_a_web_socket_wait_at_the_client_until_its_shard_is_there(
    nodes: list[ThreadedNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = asyncio.Event()
    open_line = Upstream.open

    async def slow(self: Upstream, protocol: type[asyncio.Protocol]) -> asyncio.Protocol:
        if protocol.__name__ == "_FarEnd":
            await there.wait()
        return await open_line(self, protocol)

    monkeypatch.setattr(Upstream, "open", slow)
    node = nodes[0]
    upgrade = b"GET /v1/recipients/r1/live HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    connection = opened(node, upgrade + KEY + b"\r\n")
    wait_until(lambda: bool(_tunnels(node)), "the node takes the web socket")
    (tunnel,) = _tunnels(node)
    connection.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while sent < 64 * MIB:
            sent += connection.send(bytes(MIB))
    assert sent < 64 * MIB, "the node reads although the shard is not there"
    assert len(tunnel._request) < MIB
    node.in_loop(there.set)
    connection.setblocking(True)
    assert rest(connection).startswith(b"HTTP/1.1 "), "what comes of such bytes, the shard says"


def test_a_web_socket_whose_shard_does_not_answer_is_refused(
    nodes: list[ThreadedNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.server.doors.tunnel.SHARD_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("restante.server.doors.tunnel._FarEnd.data_received", lambda *_: None)
    assert _refusal(nodes[0], "r1") == 503


def test_a_client_that_reads_nothing_is_cut_off_when_its_shard_has_closed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("unread")
    server = msgspec.structs.replace(SETTINGS.server, answer_idle_seconds=1, header_seconds=1)
    address = founded(schema_address(folder))
    node = ThreadedNode(address, "a", folder / "a", msgspec.structs.replace(SETTINGS, server=server))
    try:
        upgrade = (
            b"GET /v1/recipients/r1/live HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        )
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect(Wire(node.url).address)
            connection.sendall(upgrade + KEY + b"\r\n")
            wait_until(lambda: bool(_tunnels(node)), "the node takes the web socket")
            wire = Wire(node.url)
            while _tunnels(node):
                wire.publish({"recipient": "r1", "text": "x" * 200_000})
    finally:
        node.stop()
