"""Waiting for a batch over the wire: until it is complete, the time is over, or somebody leaves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from restante.server.connections.room import Wait
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.batching import (
    acknowledged,
    added,
    counted,
    opened,
    refusal,
    sealed,
    shown,
)
from tests.server.wire import Wire
from tests.waiting import wait_until


def test_whoever_waits_is_answered_when_the_batch_becomes_complete(running: ServedHub, wire: Wire) -> None:
    batch = opened(wire, key="night")
    (item,) = added(wire, batch, 1)
    sealed(wire, batch)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: Wire(running.url).get(f"/v1/batches/{batch}/wait?seconds=20"))
        wait_until(lambda: running.desk.room.waits[Wait.BATCH] == 1)
        assert counted(wire)["restante_batch_waits"] == 1
        assert counted(wire)["restante_peeks_waiting"] == 0
        acknowledged(wire, item)
        answer = waiting.result()
    assert (answer.status, answer.json()) == (200, shown(wire, batch))
    assert wire.get(f"/v1/batches/{batch}/wait").json() == answer.json()


@pytest.mark.parametrize("seconds", ["", "?seconds=0", "?seconds=0.05"])
def test_a_wait_that_is_over_is_a_204(wire: Wire, seconds: str) -> None:
    answer = wire.get(f"/v1/batches/{opened(wire)}/wait{seconds}")
    assert (answer.status, answer.body, answer.headers["cache-control"]) == (204, b"", "no-store")


@pytest.mark.parametrize("seconds", ["x", "-1", "nan", "inf", ""])
def test_a_wait_must_be_a_number_of_seconds(wire: Wire, seconds: str) -> None:
    answer = wire.get(f"/v1/batches/{opened(wire)}/wait?seconds={seconds}")
    assert (refusal(answer), answer.problem["parameter"]) == ((400, "invalid_request"), "seconds")


def test_those_who_wait_take_no_room_from_those_who_look(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"reads_waiting_max": 1}, ServerSettings))
    with start(tmp_path / "data", settings) as running, ThreadPoolExecutor(3) as threads:
        wire = Wire(running.url)
        batch = opened(wire)
        waits = []
        for number in range(1, 4):
            waits.append(threads.submit(lambda: Wire(running.url).get(f"/v1/batches/{batch}/wait?seconds=20")))
            wait_until(lambda number=number: running.desk.room.waits[Wait.BATCH] == number)  # type: ignore[misc]
        assert shown(wire, batch)["state"] == "open"
        sealed(wire, batch)
        assert [wait.result().status for wait in waits] == [200] * 3
        wire.close()


def test_a_client_that_leaves_is_not_waited_for(running: ServedHub, wire: Wire) -> None:
    batch = opened(wire)
    other = Wire(running.url)
    other._connection.request("GET", f"/v1/batches/{batch}/wait?seconds=20")
    wait_until(lambda: running.desk.room.waits[Wait.BATCH] == 1)
    other.close()
    wait_until(lambda: running.desk.room.waits[Wait.BATCH] == 0)


def test_a_wait_ends_when_the_hub_does(tmp_path: Path) -> None:
    running = start(tmp_path / "data")
    wire, statuses = Wire(running.url), []
    batch = opened(wire)
    wire.close()
    waiting = threading.Thread(
        target=lambda: statuses.append(Wire(running.url).get(f"/v1/batches/{batch}/wait?seconds=25").status)
    )
    waiting.start()
    wait_until(lambda: running.desk.room.waits[Wait.BATCH] == 1)
    running.stop()
    waiting.join()
    assert statuses == [204]
