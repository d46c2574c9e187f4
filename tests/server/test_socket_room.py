"""Frames that have not come whole take room all the same, and give it back when their client goes."""

from __future__ import annotations

import gc
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from restante.limits import MIB, SEND_BYTES_MAX, SOCKET_BYTES_UNCOUNTED
from restante.server.connections.socket_protocol import Socket
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.test_fuzz import HANDSHAKE
from tests.server.wire import Wire
from tests.waiting import wait_until

TEXT, CONTINUED = 1, 0
SECONDS = 30
PART = 30 * MIB


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[ServedHub]:
    """A hub with room for one body of the largest size."""
    with start(tmp_path / "data", Settings(server=ServerSettings(publish_bytes_in_flight_max=SEND_BYTES_MAX))) as hub:
        yield hub


def connected(running: ServedHub) -> socket.socket:
    address = urlsplit(running.url)
    client = socket.create_connection((address.hostname or "", address.port or 0), SECONDS)
    client.sendall(HANDSHAKE)
    assert b" 101 " in until(client, b"\r\n\r\n")
    return client


def until(client: socket.socket, ending: bytes) -> bytes:
    got = b""
    while not got.endswith(ending):
        piece = client.recv(1)
        assert piece, got
        got += piece
    return got


def head(length: int, *, opcode: int = TEXT, final: bool = True) -> bytes:
    """The beginning of a frame; its mask of zeros leaves the payload as it is."""
    return struct.pack(">BBQ", (0x80 if final else 0) | opcode, 0x80 | 127, length) + bytes(4)


def wait_for(running: ServedHub, low: int, high: int) -> None:
    """The room that is taken comes to lie between these."""
    wait_until(lambda: low <= running.desk.room.publish_bytes <= high, f"the room is {low} to {high}")


@pytest.mark.parametrize("fragments", [1, 3])
def test_frames_take_room_as_they_come(narrow: ServedHub, fragments: int) -> None:
    with closing(connected(narrow)) as one, closing(connected(narrow)) as two, closing(connected(narrow)) as three:
        for number, client in enumerate((one, two), 1):
            send_part(client, fragments)
            wait_for(narrow, number * (PART - 2 * SOCKET_BYTES_UNCOUNTED), number * PART)
        three.sendall(head(2 * PART))
        while not (refused := said_so_far(three)):
            three.sendall(bytes(MIB))
        assert b'"overloaded"' in refused
        assert struct.pack(">H", 1013) in refused
        wait_for(narrow, 2 * (PART - 2 * SOCKET_BYTES_UNCOUNTED), 2 * PART)
    wait_for(narrow, 0, 0)
    wire = Wire(narrow.url)
    assert wire.publish({"recipient": "ada", "data": 1}).status == 201
    wire.close()


def test_a_message_in_many_small_parts_is_kept_in_few(narrow: ServedHub) -> None:
    """Every two bytes were an object of forty: what takes room as a megabyte took twenty."""
    frame = msgspec.json.encode({"number": 7, "messages": [{"recipient": "ada", "data": "x" * 9_999}]})
    pairs = [frame[place : place + 2] for place in range(0, len(frame), 2)]
    others = sockets()  # of tests before this one, which nothing has collected yet
    with closing(connected(narrow)) as client:
        for _ in range(2):
            client.sendall(head(0, final=False))
            client.sendall(b"".join(head(len(pair), opcode=CONTINUED, final=False) + pair for pair in pairs))
            client.sendall(head(0, opcode=9))  # a ping: its answer says that all before it was taken
            assert until(client, b"\x8a\x00")
            (own,) = [found for found in sockets() if found.frames and not any(found is other for other in others)]
            assert len(own.frames) < len(pairs) / 3
            client.sendall(head(0, opcode=CONTINUED))
            assert b'"accepted":1' in until(client, b"}]}")


def test_a_text_frame_that_is_no_text_closes_the_socket_and_leaves_no_trace(
    narrow: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    """A traceback of many lines was logged for each."""
    for closed_before in (False, True):
        with closing(connected(narrow)) as client:
            closes = head(2, opcode=8) + struct.pack(">H", 1000) if closed_before else b""
            client.sendall(closes + head(2) + b"\xff\xff")
            assert struct.pack(">H", 1000 if closed_before else 1007) in b"".join(iter(partial(client.recv, 100), b""))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def sockets() -> list[Socket]:
    return [found for found in gc.get_objects() if issubclass(type(found), Socket)]


def send_part(client: socket.socket, fragments: int) -> None:
    """Thirty of sixty MiB, in as many fragments, the last of which is not whole."""
    for number in range(fragments):
        opcode, last = (TEXT if number == 0 else CONTINUED), number == fragments - 1
        size = PART // fragments
        client.sendall(head(2 * size if last else size, opcode=opcode, final=False) + bytes(size))


def said_so_far(client: socket.socket) -> bytes:
    client.setblocking(False)
    try:
        return client.recv(65_536)
    except BlockingIOError:
        return b""
    finally:
        client.settimeout(SECONDS)


def test_a_frame_that_comes_whole_gives_its_room_back(narrow: ServedHub) -> None:
    message = {"recipient": "ada", "data": "x" * 1_000_000}
    frame = msgspec.json.encode({"number": 7, "messages": [message] * 40})
    with closing(connected(narrow)) as client:
        for _ in range(3):
            client.sendall(head(len(frame)) + frame)
            assert b'"accepted":40' in until(client, b"}]}")
            wait_for(narrow, 0, 0)
