"""What protects a hub on a network: bounds, slow and hostile clients cut off, overload answered, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from restante.errors import Overloaded, Unavailable
from restante.limits import HEADER_BYTES_MAX
from restante.server.connections.exchange import HUB_ENDS, Exchange
from restante.server.live import web_socket
from restante.server.serve import ServedHub, Service, start
from restante.settings import ServerSettings, Settings
from tests.server.wire import Wire
from tests.waiting import wait_until


def opened(running: ServedHub, sent: bytes = b"") -> socket.socket:
    host, port = Wire(running.url).address
    connection = socket.create_connection((host, port), timeout=30)
    if sent:
        connection.sendall(sent)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Everything until the hub closes the connection."""
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionError:
        pass
    connection.close()
    return found


def serving(folder: Path, **server: object) -> ServedHub:
    return start(folder, Settings(server=msgspec.convert(server, ServerSettings)))


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[ServedHub]:
    """A hub that waits for nobody longer than a second or so."""
    with serving(tmp_path / "data", header_seconds=1, body_idle_seconds=1, answer_idle_seconds=1) as running:
        yield running


def _service_of(running: ServedHub) -> Service:
    assert isinstance(running.service, Service)
    return running.service


def test_a_client_that_does_not_finish_its_headers_is_cut_off(impatient: ServedHub) -> None:
    connection = opened(impatient, b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n")
    assert rest(connection).startswith(b"HTTP/1.1 408")


def test_a_client_that_trickles_its_headers_is_cut_off(impatient: ServedHub) -> None:
    connection = opened(impatient, b"GET /livez HTTP/1.1\r\n")
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"x: y\r\n")
            connection.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                connection.recv(1)
                break
    connection.close()


def test_a_client_that_says_nothing_at_all_is_cut_off(impatient: ServedHub) -> None:
    assert b"408" in rest(opened(impatient))


def test_a_client_that_does_not_finish_its_body_is_cut_off(impatient: ServedHub) -> None:
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    rest(opened(impatient, head))
    # The hub hears of it a moment later than we do.
    wait_until(lambda: impatient.desk.room.publishes == impatient.desk.room.publish_bytes == 0)


def test_a_client_that_does_not_read_its_answer_is_cut_off(impatient: ServedHub) -> None:
    wire = Wire(impatient.url)
    for _ in range(12):
        wire.publish(*({"recipient": "ada", "data": "x" * 1_000_000} for _ in range(4)))
    connection = opened(impatient)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.sendall(b"GET /v1/recipients/ada/peek HTTP/1.1\r\nhost: localhost\r\n\r\n")
    counted = impatient.desk.metrics.cut_off
    wait_until(lambda: counted.value, "the client is cut off")
    assert counted.value == 1
    connection.close()
    assert wire.get("/v1/recipients/ada/peek").status == 200


TOO_LARGE = {
    "one unfinished header": b"x: " + b"y" * 200_000,
    "many headers without an end": b"x-more: y\r\n" * 20_000,
    "one header": b"x: " + b"y" * (HEADER_BYTES_MAX + 1) + b"\r\n\r\n",
    "many headers": b"x-more: y\r\n" * 20_000 + b"\r\n",
    "of a web socket": b"upgrade: websocket\r\nconnection: upgrade\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("pause", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize("kind", TOO_LARGE)
def test_headers_that_are_too_large_are_a_431_and_the_end(running: ServedHub, kind: str, pause: bool) -> None:
    sent = b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\n" + TOO_LARGE[kind]
    connection = opened(running)
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(sent), 1_000 if pause else len(sent)):
            connection.sendall(sent[start : start + (1_000 if pause else len(sent))])
    answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 431")
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["code"] == "invalid_request"
    assert Wire(running.url).get("/livez").status == 200


BESIDE = {
    "trailers": b"0\r\n" + b"x-more: y\r\n" * 1_000_000,
    "one unfinished trailer": b"0\r\nx: " + b"y" * 10_000_000,
    "the extension of a chunk": b"1;" + b"y" * 10_000_000,
}
CHUNKED = (
    b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("kind", BESIDE)
def test_what_comes_beside_a_chunked_body_has_an_end(running: ServedHub, kind: str) -> None:
    """All of it was kept, ten times its size: 100 MB of trailers took 1.7 GB."""
    connection = opened(running)
    with contextlib.suppress(ConnectionError):
        connection.sendall(CHUNKED + b"2\r\n[]\r\n" + BESIDE[kind])
    assert rest(connection)[:12] in (b"HTTP/1.1 431", b"")
    assert Wire(running.url).get("/livez").status == 200


def test_small_chunks_are_a_body_and_trailers_no_headers(running: ServedHub) -> None:
    body = json.dumps({"messages": [{"recipient": "ada", "data": "x" * 20_000}]}).encode()
    chunks = b"".join(b"1;of=many\r\n%c\r\n" % byte for byte in body)
    trailers = b"0\r\nhost: evil.example\r\nrestante-batch: none\r\n\r\n"
    for sent in (chunks, b"2\r\n[]\r\n"):
        with contextlib.closing(opened(running, CHUNKED + sent + trailers)) as connection:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 201")


def test_large_bodies_are_not_taken_for_headers_however_they_are_cut(running: ServedHub) -> None:
    body = json.dumps({"messages": [{"recipient": "ada", "data": "x" * 200_000}]}).encode()
    head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n"
    one = head.format(len(body)).encode() + b"\r\n" + body
    long = b"x: " + b"y" * (HEADER_BYTES_MAX - 1_000) + b"\r\n"
    last = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + long + b"\r\n"
    connection = opened(running, one * 3 + last)
    answers = rest(connection)
    assert (answers.count(b"HTTP/1.1 201"), answers.count(b"HTTP/1.1 200")) == (3, 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused_with_a_problem(running: ServedHub, sent: bytes) -> None:
    answer = rest(opened(running, sent))
    assert answer.startswith(b"HTTP/1.1 4")
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["code"] == "invalid_request"
    assert Wire(running.url).get("/livez").status == 200


def test_half_open_connections_do_not_hinder_the_others(impatient: ServedHub) -> None:
    idle = [opened(impatient, b"GET / HTTP/1.1\r\n") for _ in range(500)]
    assert Wire(impatient.url).publish({"recipient": "ada", "data": 1}).status == 201
    for connection in idle:
        assert b"408" in rest(connection)


def test_more_connections_than_allowed_are_turned_away(tmp_path: Path) -> None:
    with serving(tmp_path / "data", connections_max=3) as running:
        kept = [Wire(running.url) for _ in range(3)]
        assert [wire.get("/livez").status for wire in kept] == [200] * 3
        assert rest(opened(running)).startswith(b"HTTP/1.1 503")
        kept.pop().close()
        connections = _service_of(running).server.server_state.connections
        wait_until(lambda: len(connections) <= 2, "the hub has seen that one is closed")
        assert Wire(running.url).get("/livez").status == 200


def test_more_publishes_than_there_is_room_for_are_told_to_come_back(tmp_path: Path) -> None:
    with serving(tmp_path / "data", publishes_waiting_max=1) as running:
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n"
        first = opened(running, head + b'{"messages":')
        wait_until(lambda: running.desk.room.publishes, "the first publish has its room")
        wire = Wire(running.url)
        refused = wire.publish({"recipient": "ada", "data": 1})
        assert (refused.status, refused.problem["code"]) == (429, "overloaded")
        assert (refused.headers["retry-after"], refused.problem["retriable"]) == ("1", True)
        first.sendall(b"[]}")
        assert first.recv(100).startswith(b"HTTP/1.1 201")
        first.close()
        assert wire.publish({"recipient": "ada", "data": 1}).status == 201


def test_the_bytes_of_publishes_under_way_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path / "data", publish_bytes_in_flight_max=64 * 2**20) as running:
        size = 60 * 2**20
        head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
        first = opened(running, head.format(size).encode())
        wait_until(lambda: running.desk.room.publish_bytes, "the first publish has its room")
        second = opened(running, head.format(size).encode())
        assert second.recv(100).startswith(b"HTTP/1.1 429")
        second.close()
        first.close()
        wait_until(lambda: running.desk.room.publish_bytes == 0, "the first publish has given its room back")
        assert Wire(running.url).publish({"recipient": "ada", "data": 1}).status == 201


@pytest.mark.parametrize("packed", [False, True])
def test_what_a_body_becomes_takes_room(tmp_path: Path, packed: bool) -> None:
    with serving(tmp_path / "data", publish_bytes_in_flight_max=64 * 2**20) as running:
        body = b"[" + b'{"recipient":"ada","data":1},' * 40_000 + b'{"recipient":"ada","data":1}]'
        headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if packed else {})
        sent, wire, room = gzip.compress(body) if packed else body, Wire(running.url), running.desk.room
        with room.publish() as first:
            first.make(60 * 2**20)
            refused = wire("POST", "/v1/messages", sent, headers=headers)
            assert (refused.status, refused.problem["code"]) == (429, "overloaded")
            assert wire.publish({"recipient": "ada", "data": 1}).status == 201
        assert wire("POST", "/v1/messages", sent, headers=headers).status == 201
        assert (room.publish_bytes, room.made_bytes) == (0, 0)


def test_what_a_large_send_becomes_keeps_nobody_else_from_publishing(running: ServedHub) -> None:
    room = running.desk.room
    bound = running.desk.settings.server.publish_bytes_in_flight_max
    with room.publish() as large, room.publish() as small, room.publish() as other:
        large.grow(10_000)
        large.make(2 * bound)
        small.grow(1_000)
        small.make(1_000)
        with pytest.raises(Overloaded):
            other.make(bound)
    with room.publish() as first, room.publish() as second:
        first.grow(1_000)
        second.make(2 * bound)  # Beside a small body a large send fits, if it is the only one.
    assert (room.publishes, room.publish_bytes, room.made_bytes) == (0, 0, 0)


def test_small_sends_have_a_bound_in_memory_too(running: ServedHub) -> None:
    room = running.desk.room
    bound = running.desk.settings.server.publish_bytes_in_flight_max
    with contextlib.ExitStack() as kept:
        while room.made_bytes <= 2 * bound:
            kept.enter_context(room.publish()).make(2**20)
        one_more = kept.enter_context(room.publish())
        with pytest.raises(Overloaded):
            one_more.make(2**20)
    assert (room.publishes, room.made_bytes) == (0, 0)


def test_a_thread_that_goes_on_with_a_request_that_has_ended_takes_no_room(running: ServedHub) -> None:
    with running.desk.room.publish() as parcel:
        parcel.grow(1_000)
    with pytest.raises(Overloaded):
        parcel.grow(1_000)
    assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)


def test_random_bytes_never_bring_the_hub_down(running: ServedHub) -> None:
    count = 20_000 if os.environ.get("RESTANTE_LONG") else 300
    source = random.Random(7)
    good = b'POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{"messages":[]}'
    for _ in range(count):
        sent = bytearray(good)
        for _ in range(source.randint(1, 8)):
            sent[source.randrange(len(sent))] = source.randrange(256)
        connection = opened(running, bytes(sent))
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            assert not connection.recv(12).startswith(b"HTTP/1.1 5")
        connection.close()
    assert Wire(running.url).publish({"recipient": "ada", "data": 1}).status == 201


class TestDraining:
    def child(self, folder: Path) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "restante", "serve", "--port", "0", "--data", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_hub_ends_with_0_and_those_who_wait_are_answered(self, tmp_path: Path, number: signal.Signals) -> None:
        process, url = self.child(tmp_path / "data")
        assert Wire(url).publish({"recipient": "bob", "data": 1}).status == 201
        statuses: list[int] = []
        waiting = threading.Thread(
            target=lambda: statuses.append(Wire(url).get("/v1/recipients/ada/peek?wait=25").status)
        )
        waiting.start()
        watch = Wire(url)
        wait_until(lambda: b"restante_peeks_waiting 1.0" in watch.get("/metrics").body, "the peek waits")
        process.send_signal(number)
        assert process.wait() == 0
        waiting.join()
        assert statuses == [204]
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()

    def test_requests_that_take_longer_than_the_hub_may_take_to_end_get_an_answer_that_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = threading.Semaphore(0)

        async def never(*_: object) -> None:
            begun.release()
            await asyncio.Event().wait()

        with start(tmp_path / "data", settings=Settings(server=ServerSettings(drain_seconds=1))) as running:
            monkeypatch.setattr(running.desk, "call", never)
            with ThreadPoolExecutor(2) as threads:
                asked = [
                    threads.submit(Wire(running.url), method, f"/v1/batches/b{path}")
                    for method, path in (("GET", ""), ("POST", "/seal"))
                ]
                for _ in asked:
                    begun.acquire()
                running.stop()
                read, written = (answer.result() for answer in asked)
        assert (read.status, read.json()["code"], read.json()["retriable"]) == (503, "unavailable", True)
        assert (written.status, written.json()["code"], written.json()["retriable"]) == (503, "outcome_unknown", True)

    def test_a_client_that_does_not_read_does_not_keep_the_hub_from_ending(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = threading.Event()

        async def call(*_: object) -> object:
            if begun.is_set():
                await asyncio.Event().wait()
            begun.set()
            return "x" * 50_000_000

        with start(tmp_path / "data", settings=Settings(server=ServerSettings(drain_seconds=1))) as running:
            monkeypatch.setattr(running.desk, "call", call)
            asking = b"GET /v1/batches/b HTTP/1.1\r\nhost: %b\r\n\r\n" % running.url.removeprefix("http://").encode()
            host, _, port = running.url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(2 * asking)
                begun.wait()
                ending = threading.Thread(target=running.stop)
                ending.start()
                ending.join()

    @pytest.mark.parametrize("error", [Unavailable("late"), RuntimeError("a defect")])
    def test_a_web_socket_that_is_being_opened_when_the_hub_ends_is_refused_with_a_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def ends(_: object, exchange: Exchange) -> None:
            for _ in range(2):
                exchange.scope["restante.socket"].shutdown()
            raise error

        monkeypatch.setattr(web_socket, "check_client", ends)
        with start(tmp_path / "data") as running, pytest.raises(InvalidStatus) as refused:
            connect(f"ws{running.url.removeprefix('http')}/v1/recipients/ada/live")
        answer = refused.value.response
        problem = json.loads(answer.body or b"")
        assert (answer.status_code, problem["code"], problem["retriable"]) == (503, "unavailable", True)
        assert problem["detail"] == HUB_ENDS

    def test_a_hub_whose_port_is_taken_says_so_in_one_line(self, tmp_path: Path) -> None:
        with start(tmp_path / "data") as running:
            done = self.refused(tmp_path / "other", running.url.rsplit(":", 1)[1])
            assert done.stderr.startswith("error invalid_request: ")
            assert done.stderr.count("\n") == 1

    def test_a_hub_whose_folder_is_taken_says_so(self, tmp_path: Path) -> None:
        with start(tmp_path / "data"):
            assert "data_locked" in self.refused(tmp_path / "data", "0").stderr

    def refused(self, folder: Path, port: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "restante", "serve", "--port", port, "--data", str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        return done
