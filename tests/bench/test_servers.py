"""The servers that the bench starts: each comes up on a free port, stores and gives back mail, and ends."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.load import LoadProcess, Run
from bench.mail import Mail
from bench.ours_wire import Restante
from bench.peer import Operation
from bench.server import LOCALHOST, Process, Server, servers

KINDS: list[type[Server]] = [Restante, *servers()]
MESSAGES = 100


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below `tmp_path`, which is root's alone: a server that refuses to run as root has to get there."""
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as name:
        yield Path(name)


def _started(kind: type[Server], folder: Path) -> Server:
    if missing := kind.missing():
        pytest.skip(f"{kind.name} is {missing}")
    place = folder / kind.name
    place.mkdir()
    return kind(place)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_a_server_stored_is_fetched_and_acknowledged(kind: type[Server], folder: Path) -> None:
    mail = Mail()
    recipient = mail.newcomer()
    with closing(_started(kind, folder)) as server:
        assert server.facts()["version"]
        for way in server.ways(Operation.DEQUEUE).values():
            with closing(way()) as client:
                client.publish(client.prepare(mail.table(recipient, MESSAGES)))
                client.settle()
                taken = client.peek(str(recipient[0]))
                assert taken.messages == MESSAGES
                client.dequeue(taken)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_way_to_publish_small_things_is_answered(kind: type[Server], folder: Path) -> None:
    mail = Mail()
    with closing(_started(kind, folder)) as server:
        for operation in (Operation.ONE, Operation.CONNECTIONS, Operation.PIPELINE):
            for name, way in server.ways(operation).items():
                with LoadProcess(way) as load:
                    load.prepare(mail.table(mail.newcomers(8), MESSAGES))
                    found = load.run()
                assert isinstance(found, Run), name
                assert found.seconds > 0, name
                assert len(found.latencies) == (0 if operation is Operation.PIPELINE else MESSAGES), name


def test_the_hub_is_started_driven_and_stopped(tmp_path: Path) -> None:
    mail = Mail()
    recipient = mail.newcomer()
    with closing(_started(Restante, tmp_path)) as server:
        assert isinstance(server, Restante)
        port = server.port
        with closing(server.ways(Operation.DEQUEUE)["restante"]()) as client:
            client.publish(client.prepare(mail.table(recipient, MESSAGES)))
            taken = client.peek(str(recipient[0]))
            assert taken.messages == MESSAGES
            client.dequeue(taken)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((LOCALHOST, port), timeout=1)


def test_a_server_that_does_not_come_up_says_what_it_printed(tmp_path: Path) -> None:
    process = Process(["sh", "-c", "echo no such setting; exit 1"], tmp_path)
    with pytest.raises(RuntimeError, match="did not come up:\nno such setting"):
        process.wait_until(lambda: None)


def test_a_peer_that_is_a_server_takes_part_over_the_wire_only() -> None:
    from bench.peer import peers_for

    assert "valkey" in [kind.name for kind in servers()]
    assert set(peers_for(Operation.PUBLISH)) == {"blob", "rows"}
