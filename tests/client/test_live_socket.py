"""What comes over a live web socket, however it is cut into pieces; and a hub that falls silent."""

from __future__ import annotations

import base64
import hashlib
import queue
import random
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from restante.client.live import live_socket_async, live_socket_sync
from restante.client.live.live_sockets import SocketDoor
from restante.client.live.live_states import LiveStage
from restante.client.transport.options import terms_of
from restante.limits import LIVE_UNREAD_BYTES_MAX, MIB
from restante.model.publishing.message import Message
from tests.client.frame_server import SECONDS
from tests.client.live_server import LiveServer, stored
from tests.client.live_twins import Asynchronous, Sent, Twin, Waiting, numbers

_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(first: int, payload: bytes) -> bytes:
    """A frame of a server."""
    size = len(payload)
    if size < 126:
        return bytes([first, size]) + payload
    return bytes([first, 126]) + size.to_bytes(2) + payload


def text(**fields: object) -> bytes:
    return frame(0x81, msgspec.json.encode(fields))


def conversation(chance: random.Random, count: int) -> bytes:
    """Messages, with pings and pongs, other frames and fragments in between."""
    told = [text(type="connected", sequence_number=0, client="")]
    for number in range(1, count + 1):
        message = {"type": "message", "counter": number, "message": stored(number, data="é" * chance.randint(0, 200))}
        content = msgspec.json.encode(message)
        border = chance.randrange(len(content))
        told.append(
            chance.choice([frame(0x81, content), frame(0x01, content[:border]) + frame(0x80, content[border:])])
        )
        told.append(chance.choice([b"", b"", frame(0x89, b"ping"), frame(0x8A, b""), text(type="weather")]))
    return b"".join(told)


def shake_hands(peer: socket.socket) -> bytes:
    """The answer, to be sent with all the rest."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.recv(65_536)
    (key,) = [line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")]
    accepted = base64.b64encode(hashlib.sha1(key + _KEY, usedforsecurity=False).digest())
    lines = [b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade"]
    return b"\r\n".join([*lines, b"Sec-WebSocket-Accept: " + accepted, b"", b""])


class RawServer:
    """Accepts one web socket, and no other, and writes bytes in pieces of any size. What comes is not answered."""

    def __init__(self, content: bytes, chance: random.Random) -> None:
        self._content = content
        self._chance = chance
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            peer, _ = self._listener.accept()
            self._listener.close()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                rest = shake_hands(peer) + self._content
                while rest:
                    size = self._chance.choice([1, 2, 3, 10, 100, 1_000, 5_000])
                    peer.sendall(rest[:size])
                    rest = rest[size:]
                while peer.recv(65_536):
                    pass

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed soon."""
    for module in (live_socket_async, live_socket_sync):
        monkeypatch.setattr(module, "LIVE_SILENCE_SECONDS", 0.1)


@pytest.fixture
def raw() -> Iterator[list[RawServer]]:
    servers: list[RawServer] = []
    yield servers
    for server in servers:
        server.close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", [Waiting, Asynchronous])
def test_frames_may_be_cut_anywhere(kind: type[Waiting | Asynchronous], seed: int, raw: list[RawServer]) -> None:
    chance, count = random.Random(seed), 40
    raw.append(RawServer(conversation(chance, count), chance))
    with kind(raw[0].url, after=0) as twin:
        assert [twin.next().sequence_number for _ in range(count)] == list(range(1, count + 1))  # type: ignore[union-attr]  # it is not closed
        assert (twin.reconnects, twin.gaps_recovered) == (0, 0)


@pytest.mark.parametrize("kind", [Waiting, Asynchronous])
def test_a_masked_frame_is_none_of_a_hub(kind: type[Waiting | Asynchronous], raw: list[RawServer], quick: None) -> None:
    del quick
    masked = text(type="connected", sequence_number=0, client="") + bytes([0x81, 0x80 | 2, 0, 0, 0, 0]) + b"{}"
    raw.append(RawServer(masked, random.Random(0)))
    with kind(raw[0].url, after=0) as twin:
        assert "incorrect masking" in (twin.script.until(LiveStage.RECONNECTING).reason or "")


@pytest.mark.parametrize("kind", [Waiting, Asynchronous])
def test_a_hub_that_falls_silent_is_given_up(
    kind: type[Waiting | Asynchronous], raw: list[RawServer], quick: None
) -> None:
    del quick
    raw.append(RawServer(text(type="connected", sequence_number=0, client=""), random.Random(0)))
    with kind(raw[0].url, after=0) as twin:
        assert "nothing came" in (twin.script.until(LiveStage.RECONNECTING).reason or "")


def test_a_hub_that_is_quiet_but_answers_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = 2.5  # Seconds: a busy machine takes some time to answer. So both are watched beside each other.
    for module in (live_socket_async, live_socket_sync):
        monkeypatch.setattr(module, "LIVE_SILENCE_SECONDS", silence)
    with LiveServer() as server, Waiting(server.url, after=0) as waiting:
        peers = [server.peer().connected()]
        with Asynchronous(server.url, after=0) as asynchronous:
            peers.append(server.peer().connected())
            twins: list[Twin] = [waiting, asynchronous]
            for twin in twins:
                twin.script.until(LiveStage.CONNECTED)
            with pytest.raises(queue.Empty):
                waiting.script.states.get(timeout=2.4 * silence)
            assert asynchronous.script.states.empty()
            for peer, twin in zip(peers, twins, strict=True):
                peer.push(1, counter=1)
                assert numbers(twin, 1) == [1]


def test_the_token_is_not_carried_to_where_it_would_be_less_safe() -> None:
    door = SocketDoor(terms_of("https://a.example.org", token="secret"), "ada", None)
    assert door.address("http://b.example.org").url == "https://a.example.org"
    assert door.address("https://b.example.org").url == "https://b.example.org"
    assert door.address("https://b.example.org").token == "secret"
    assert door.address("no address").url == "https://a.example.org"
    assert door.address(None).url == "https://a.example.org"


def test_a_token_that_goes_to_an_owner_in_the_open_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    door = SocketDoor(terms_of("http://127.0.0.1:1", token="secret"), "ada", None)
    door.options(door.address(None))
    assert not caplog.messages
    door.options(door.address("http://owner.example.org"))
    (told,) = caplog.messages
    assert "http://owner.example.org without encryption" in told


def test_names_are_spelled_as_an_address_needs_it() -> None:
    door = SocketDoor(terms_of("http://a.example.org"), "a/b ü", "my phone")
    assert door.url(door.address(None), 0) == (
        "ws://a.example.org/v1/recipients/a%2Fb%20%C3%BC/live?client=my+phone&after=0"
    )


class StubbornHub:
    """Cuts the first client off. To the second it listens only when all that it said itself was read."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._listener = socket.socket()
        # Small, so that little fits in between. Those that are accepted have the same.
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._listener.setsockopt(socket.SOL_SOCKET, option, 65_536)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.written: Future[int] = Future()
        """How much was taken, when all was, or nothing any more."""
        self.ready = threading.Event()
        """When to let the second client in."""
        self._peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            self._accept().close()
            self.ready.wait(SECONDS)
            second = self._accept()
            self.written.set_result(self._write(second))
            if self.written.result() == len(self._content):
                self._answer(second)

    def _accept(self) -> socket.socket:
        peer, _ = self._listener.accept()
        self._peers.append(peer)
        peer.sendall(shake_hands(peer) + text(type="connected", sequence_number=0, client=""))
        return peer

    def _write(self, peer: socket.socket) -> int:
        written = 0
        peer.setblocking(False)
        while written < len(self._content) and select.select([], [peer], [], 2)[1]:
            written += peer.send(self._content[written : written + 65_536])
        peer.setblocking(True)
        return written

    def _answer(self, peer: socket.socket) -> None:
        """Every message that was sent is stored."""
        protocol = ServerProtocol(state=State.OPEN, max_size=None)
        while data := peer.recv(65_536):
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    own_id = msgspec.json.decode(event.data)["message"]["id"]
                    peer.sendall(text(type="status", id=own_id, status="processed"))

    def close(self) -> None:
        self.ready.set()
        for each in (*self._peers, self._listener):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (*self._peers, self._listener):
            each.close()


@pytest.fixture
def stubborn() -> Iterator[list[StubbornHub]]:
    hubs: list[StubbornHub] = []
    yield hubs
    for hub in hubs:
        hub.close()


def pushed(count: int, size: int) -> bytes:
    return b"".join(
        text(type="message", counter=number, message=stored(number, data="x" * size)) for number in range(1, count + 1)
    )


def send_large(twin: Twin, count: int) -> list[Sent]:
    """Far more than fits into what lies between two programs, one after another."""
    return [twin.send(Message(recipient="bob", data="y" * 1_000_000)) for _ in range(count)]


@pytest.mark.parametrize("kind", [Waiting, Asynchronous])
def test_what_comes_is_read_while_much_is_said_again(
    kind: type[Waiting | Asynchronous], stubborn: list[StubbornHub]
) -> None:
    count = 60
    stubborn.append(StubbornHub(pushed(count, 50_000)))
    with kind(stubborn[0].url, after=0) as twin:
        twin.script.until(LiveStage.RECONNECTING)
        letters = send_large(twin, 16)
        stubborn[0].ready.set()
        assert [twin.next().sequence_number for _ in range(count)] == list(range(1, count + 1))  # type: ignore[union-attr]  # it is not closed
        for sent in letters:
            twin.processed(sent)
        assert twin.reconnects == 1


@pytest.mark.parametrize("kind", [Waiting, Asynchronous])
def test_what_comes_while_much_is_said_again_is_held_within_bounds(
    kind: type[Waiting | Asynchronous], stubborn: list[StubbornHub]
) -> None:
    most = 4 * LIVE_UNREAD_BYTES_MAX + in_between_bytes_max()
    stubborn.append(StubbornHub(pushed(most // 50_000 + 50, 50_000)))
    with kind(stubborn[0].url, after=0) as twin:
        twin.script.until(LiveStage.RECONNECTING)
        send_large(twin, 16)
        stubborn[0].ready.set()
        taken = stubborn[0].written.result(SECONDS)
        assert LIVE_UNREAD_BYTES_MAX < taken < most


def in_between_bytes_max() -> int:
    """The bytes that the system may hold for a program that does not read: it raises the bound of a connection as it sees fit."""
    setting = Path("/proc/sys/net/ipv4/tcp_rmem")
    return int(setting.read_text(encoding="ascii").split()[2]) if setting.exists() else 8 * MIB
