"""The bad network of the campaigns is as bad as it says: a campaign that nothing happens to would show nothing."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.producers.chaos import CALM, Network, Rates

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
REQUEST = bytes(range(256)) * 4
HANDSHAKE = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
PATIENCE_SECONDS = 60.0


class Recorder(socketserver.ThreadingTCPServer):
    """Answers whatever comes, and keeps it by connection, in the order of their first bytes."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Recording)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.came: list[bytearray] = []
        self.closed = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.changed = threading.Condition()

    def wait_for(self, wanted: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(wanted, PATIENCE_SECONDS), self.came


class Recording(socketserver.BaseRequestHandler):
    server: Recorder
    request: socket.socket

    def handle(self) -> None:
        own: bytearray | None = None
        try:
            while chunk := self.request.recv(65_536):
                with self.server.changed:
                    if own is None:
                        own = bytearray()
                        self.server.came.append(own)
                    own += chunk
                    self.server.changed.notify_all()
                self.server.may_answer.wait(PATIENCE_SECONDS)
                self.request.sendall(ANSWER)
        except OSError:
            pass
        with self.server.changed:
            self.server.closed += 1
            self.server.changed.notify_all()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def network(recorder: Recorder) -> Iterator[Network]:
    with Network(recorder.url, seed=1) as network:
        yield network


def dialled(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname or "", address.port or 0), PATIENCE_SECONDS)


def answer_to(caller: socket.socket, request: bytes) -> bytes:
    caller.sendall(request)
    return received(caller, len(ANSWER))


def received(caller: socket.socket, length: int) -> bytes:
    """So many bytes, or fewer if the connection ends before."""
    found = bytearray()
    try:
        while len(found) < length and (chunk := caller.recv(length - len(found))):
            found += chunk
    except ConnectionError:
        pass
    return bytes(found)


def test_a_calm_network_passes_everything_on(network: Network, recorder: Recorder) -> None:
    with dialled(network.door("a")) as caller:
        for _ in range(3):
            assert answer_to(caller, REQUEST) == ANSWER
    assert [bytes(each) for each in recorder.came] == [REQUEST * 3]
    assert network.counts == {"connections": 1}


def cut_places(recorder: Recorder, *, seed: int, times: int) -> list[int]:
    """How much of each request came through before the cut."""
    places = []
    with Network(recorder.url, seed=seed, rates=Rates(cut=1)) as network:
        url = network.door("a")
        for turn in range(times):
            before = len(recorder.came)
            closed = recorder.closed
            with dialled(url) as caller:
                assert answer_to(caller, REQUEST) in (b"", ANSWER)
                assert received(caller, 1) == b""
            recorder.wait_for(lambda closed=closed: recorder.closed == closed + 1)  # type: ignore[misc]
            came = bytes(recorder.came[before]) if len(recorder.came) > before else b""
            assert REQUEST.startswith(came)
            places.append(len(came))
            assert network.counts["cuts"] == turn + 1
    return places


def test_a_cut_comes_at_any_byte_and_closes_both_ends(recorder: Recorder) -> None:
    places = cut_places(recorder, seed=5, times=40)
    assert len(set(places)) > 30
    assert min(places) < len(REQUEST) / 4 < len(REQUEST) * 3 / 4 < max(places)


def test_the_same_seed_cuts_at_the_same_bytes(recorder: Recorder) -> None:
    assert cut_places(recorder, seed=5, times=5) == cut_places(recorder, seed=5, times=5)
    assert cut_places(recorder, seed=5, times=5) != cut_places(recorder, seed=6, times=5)


def test_an_answer_is_cut_too(network: Network, recorder: Recorder) -> None:
    recorder.may_answer.clear()
    with dialled(network.door("a")) as caller:
        caller.sendall(REQUEST)
        recorder.wait_for(lambda: bytes(recorder.came[0]) == REQUEST if recorder.came else False)
        network.rates = Rates(cut=1)
        recorder.may_answer.set()
        assert ANSWER.startswith(received(caller, 2 * len(ANSWER)))
    assert network.counts["cuts"] == 1


def test_what_is_held_back_comes_after_newer_requests_though_its_client_has_gone(
    network: Network, recorder: Recorder
) -> None:
    url = network.door("a")
    network.rates = Rates(hold=1, hold_seconds=(0.2, 0.3))
    recorder.may_answer.clear()
    with dialled(url) as caller:
        caller.sendall(REQUEST)
        recorder.wait_for(lambda: bool(recorder.came))
    network.rates = CALM
    recorder.may_answer.set()
    with dialled(url) as caller:
        assert answer_to(caller, b"new") == ANSWER
    old, new = recorder.came
    assert (len(old) < len(REQUEST), bytes(new)) == (True, b"new")
    network.settle()
    assert bytes(old) == REQUEST
    assert network.counts["reorderings"] == network.counts["holds"] == 1


def test_what_is_delayed_comes_whole(network: Network, recorder: Recorder) -> None:
    network.rates = Rates(delay=1)
    with dialled(network.door("a")) as caller:
        assert answer_to(caller, REQUEST) == ANSWER
        recorder.wait_for(lambda: bytes(recorder.came[0]) == REQUEST)
    assert network.counts["delays"] >= 2, "the request, and the answer"


def test_of_http_the_last_request_is_duplicated_whole(network: Network, recorder: Recorder) -> None:
    with dialled(network.door("a")) as caller:
        assert answer_to(caller, b"first") == ANSWER
        network.rates = Rates(duplicate=1, duplicate_seconds=0.05)
        assert answer_to(caller, REQUEST) == ANSWER
        network.settle()
    assert [bytes(each) for each in recorder.came] == [b"first" + REQUEST, REQUEST]
    assert network.counts["duplicates"] == 1


def test_of_a_web_socket_all_that_was_sent_is_duplicated_with_the_handshake(
    network: Network, recorder: Recorder
) -> None:
    with dialled(network.door("a")) as caller:
        assert answer_to(caller, HANDSHAKE) == ANSWER
        assert answer_to(caller, b"frame 1") == ANSWER
        network.rates = Rates(duplicate=1, duplicate_seconds=0.05)
        assert answer_to(caller, b"frame 2") == ANSWER
        network.settle()
    assert [bytes(each) for each in recorder.came] == [HANDSHAKE + b"frame 1frame 2"] * 2


def test_without_a_hub_callers_are_refused_and_all_threads_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    before = threading.active_count()
    with Network(f"http://127.0.0.1:{port}", seed=1) as network, dialled(network.door("a")) as caller:
        assert answer_to(caller, REQUEST) == b""
    assert threading.active_count() == before
