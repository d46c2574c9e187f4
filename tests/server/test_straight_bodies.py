"""Bodies of known length that are received past the parser, straight into their place."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from restante.server.connections.protocol import _STRAIGHT_BYTES_MIN
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.wire import Wire
from tests.waiting import wait_until

LARGE = 3_000_000
NEXT = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def connection(running: ServedHub) -> Iterator[socket.socket]:
    with socket.create_connection(Wire(running.url).address, timeout=30) as connected:
        yield connected


def publish(recipient: str, size: int, *, headers: bytes = b"") -> bytes:
    """A request to publish thirty messages, whose body has this size."""
    texts = [size // 30_000 * "x"] * 30
    body = json.dumps({"messages": [{"recipient": recipient, "text": text} for text in texts]}).encode().ljust(size)
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
    return head % (headers, len(body)) + body


def answers(connection: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """The status and body of so many answers."""
    found, received = list[tuple[int, bytes]](), b""
    while len(found) < count:
        head, separator, rest = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]) if separator else 0
        if separator and len(rest) >= length:
            found.append((int(head.split(b" ")[1]), rest[:length]))
            received = rest[length:]
            continue
        piece = connection.recv(65_536)
        assert piece, "the hub closed the connection"
        received += piece
    assert received == b""
    return found


def statuses(connection: socket.socket, count: int) -> list[int]:
    return [status for status, _ in answers(connection, count)]


def waiting(running: ServedHub, recipient: str) -> int:
    wire = Wire(running.url)
    cabinets = wire.get(f"/v1/recipients/{recipient}/explain").json()["waiting"]
    return sum(cabinet["messages"] for cabinet in cabinets)


def test_what_follows_a_large_body_in_the_same_packet_is_answered_next(
    running: ServedHub, connection: socket.socket
) -> None:
    connection.sendall(publish("ada", LARGE) + NEXT + publish("ada", LARGE) + publish("ada", 3_000) + NEXT)
    assert statuses(connection, 5) == [201, 200, 201, 201, 200]
    assert waiting(running, "ada") == 90


@pytest.mark.parametrize("cut", [1, 300, 70_000, LARGE // 2], ids=lambda cut: f"after {cut}")
def test_a_body_may_come_in_pieces(running: ServedHub, connection: socket.socket, cut: int) -> None:
    sent = publish("ada", LARGE) + NEXT
    head = sent.index(b"\r\n\r\n") + 4
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in (sent[:head], sent[head : head + cut], sent[head + cut : -len(NEXT) - 1], sent[-len(NEXT) - 1 :]):
        connection.sendall(piece)
        Wire(running.url).get("/livez")  # by now it has come
    assert statuses(connection, 2) == [201, 200]
    assert waiting(running, "ada") == 30


@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_bodies_of_every_size_around_the_bound_follow_each_other(
    running: ServedHub, connection: socket.socket, beside: int
) -> None:
    sizes = [_STRAIGHT_BYTES_MIN + beside, 2 * _STRAIGHT_BYTES_MIN + beside, 4_000, 300_000]
    for size in sizes:
        connection.sendall(publish("ada", size))
        assert statuses(connection, 1) == [201]
    assert waiting(running, "ada") == 30 * len(sizes)


def test_a_client_that_waits_before_its_body_is_told_to_go_on(connection: socket.socket) -> None:
    sent = publish("ada", LARGE, headers=b"expect: 100-continue\r\n")
    head = sent.index(b"\r\n\r\n") + 4
    connection.sendall(sent[:head])
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(sent[head:])
    assert statuses(connection, 1) == [201]


def test_a_refused_body_says_why_and_the_next_is_taken(running: ServedHub, connection: socket.socket) -> None:
    wrong = publish("ada", LARGE).replace(b'"recipient"', b'"recipiant"', 1)
    connection.sendall(wrong + publish("ada", LARGE))
    (refused, problem), (accepted, _) = answers(connection, 2)
    assert (refused, accepted) == (400, 201)
    assert b"recipiant" in problem
    assert waiting(running, "ada") == 30


def test_who_goes_in_the_middle_of_a_body_leaves_nothing(running: ServedHub, connection: socket.socket) -> None:
    connection.sendall(publish("ada", LARGE)[: LARGE // 2])
    wait_until(lambda: running.desk.room.publishes == 1)
    connection.close()
    wait_until(lambda: running.desk.room.publishes == 0)
    assert running.desk.room.publish_bytes == 0
    assert waiting(running, "ada") == 0


def test_who_stops_in_the_middle_of_a_body_is_cut_off(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"body_idle_seconds": 1}, ServerSettings))
    with start(tmp_path / "data", settings) as running:
        with socket.create_connection(Wire(running.url).address, timeout=30) as connection:
            connection.sendall(publish("ada", LARGE)[: LARGE // 2])
            assert connection.recv(1) == b""
        wait_until(lambda: running.desk.room.publishes == 0)
        assert running.desk.metrics.cut_off.value == 1
