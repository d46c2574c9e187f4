"""Large bodies that are refused are let go of at once: without any search for garbage, their memory is there for the next."""

from __future__ import annotations

import gc
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from websockets.sync.client import connect

import restante
from restante import Message
from restante.errors import RestanteError
from restante.limits import MIB
from restante.server.serve import ServedHub
from restante.settings import Settings
from tests.backplane.memory_backplane import MemoryBackplane
from tests.cluster.several import SeveralHub
from tests.server.test_garbage import ARROW, ID, NUMBERS
from tests.server.wire import Wire
from tests.wire.test_incoming_arrow import stream

TIMES = 10
BODY_BYTES = 40 * MIB
LEFT_BYTES_MAX = 100 * MIB
JSON = {"content-type": "application/json"}
EVENT = b'{"specversion":"1.0","id":"e","source":"s","type":"t","recipient":"ada","data":"%b"}'
TEXT = b"x" * BODY_BYTES

FEW = b'{"messages":[{"recipient":"ada","data":"' + TEXT + b'"}]}'
MANY = b"[" + (b'{"recipient":"ada","data":"' + b"x" * 1_000 + b'"},') * (BODY_BYTES // 1_030) + b'{"recipient":""}]'
ACTION = b'{"concerns":"","data":"' + TEXT + b'"}'
COLUMNS = stream(pa.table({"recipient": [""] * 50_000, "data": [b"x" * 800] * 50_000}))
NAMES = [f"n{number}" for number in range(50_000)]
PARTITIONS = 8
STAGED = f"/v1/consignments/{ID}/parcels?writer=a&attempt=0&parcel=0"

BODIES: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "few": ("/v1/messages", FEW, JSON),
    "many": ("/v1/messages", MANY, JSON),
    "event": ("/v1/messages", EVENT % TEXT, {"content-type": "application/cloudevents+json"}),
    "columns": ("/v1/messages", COLUMNS, ARROW),
    "parcel": ("/v1/partitions/0/parcels", FEW, JSON),
    "numbered": ("/v1/partitions/0/parcels", MANY, JSON | NUMBERS),
    "batch": ("/v1/messages", MANY, JSON | {"restante-batch": ID}),
    "staged": (STAGED, FEW, JSON),
    "action": ("/v1/actions/bill", ACTION, JSON),
    "actions": ("/v1/actions", b'{"actions":[{"action":"bill",' + ACTION[1:] + b"]}", JSON),
}


@pytest.fixture(autouse=True)
def no_search_for_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


EVERY_DAY = {"few", "event", "action"}


@pytest.mark.parametrize(
    "name", [name if name in EVERY_DAY else pytest.param(name, marks=pytest.mark.wire) for name in sorted(BODIES)]
)
def test_refused_bodies_are_let_go_of(running: ServedHub, wire: Wire, name: str) -> None:
    path, body, headers = BODIES[name]

    def refuse() -> None:
        assert wire("POST", path, body, headers=headers).status >= 400

    assert left_by(refuse) < LEFT_BYTES_MAX


@pytest.mark.wire
@pytest.mark.parametrize("name", ["few", "many", "columns", "staged", "actions"])
@pytest.mark.parametrize("with_backplane", [False, True])
def test_bodies_that_a_door_refuses_are_let_go_of(tmp_path: Path, name: str, with_backplane: bool) -> None:
    path, body, headers = BODIES[name]
    log = MemoryBackplane(PARTITIONS) if with_backplane else None
    several = SeveralHub(tmp_path / "data", Settings(partition_count=PARTITIONS), shards=2, backplane=log)
    wire = Wire(several.url)

    def refuse() -> None:
        assert wire("POST", path, body, headers=headers).status >= 400

    assert left_by(refuse) < LEFT_BYTES_MAX
    wire.close()
    several.stop()


@pytest.mark.wire
def test_what_is_stored_and_what_conflicts_with_it_is_let_go_of(running: ServedHub, wire: Wire) -> None:
    stored = stream(pa.table({"recipient": ["ada"] * 50_000, "id": NAMES, "data": [b"x" * 800] * 50_000}))
    other = stream(pa.table({"recipient": ["ada"] * 50_000, "id": NAMES, "data": [b"y" * 800] * 50_000}))
    assert wire("POST", "/v1/messages", stored, headers=ARROW).status == 201

    def repeat() -> None:
        assert wire("POST", "/v1/messages", stored, headers=ARROW).status == 201
        assert wire("POST", "/v1/messages", other, headers=ARROW).status == 409

    assert left_by(repeat) < LEFT_BYTES_MAX


def test_bodies_that_are_cut_off_are_let_go_of(running: ServedHub) -> None:
    head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(FEW)}\r\n\r\n"

    def cut_off() -> None:
        connection = socket.create_connection(Wire(running.url).address, timeout=30)
        connection.sendall(head.encode() + FEW[:-1])
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass
        connection.close()

    assert left_by(cut_off) < LEFT_BYTES_MAX


@pytest.mark.wire
@pytest.mark.parametrize("binary", [False, True])
def test_refused_frames_are_let_go_of(running: ServedHub, binary: bool) -> None:
    text = '{"number":1,' + FEW[1:].decode()
    header = b'{"number":1}'
    frame = struct.pack(">I", len(header)) + header + COLUMNS if binary else text
    with connect(running.url.replace("http", "ws", 1) + "/v1/publish", compression=None) as socket:

        def refuse() -> None:
            socket.send(frame)
            assert "problem" in socket.recv()

        assert left_by(refuse) < LEFT_BYTES_MAX


def test_what_a_hub_in_this_process_refuses_is_let_go_of(tmp_path: Path) -> None:
    with restante.open(tmp_path / "data") as hub:

        def refuse() -> None:
            with pytest.raises(RestanteError):
                hub.producer.send(Message(recipient="ada", data=bytes(BODY_BYTES)))

        assert left_by(refuse) < LEFT_BYTES_MAX


def left_by(refuse: Callable[[], None]) -> int:
    """The memory that this process has more after refusals than after the first one."""
    refuse()
    before = memory()
    for _ in range(TIMES):
        refuse()
    return memory() - before


def memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (resident,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(resident) * 1024
