"""A publisher of one origin guesses what another's message says: the answer is the same for a right guess and for a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from websockets.sync.client import connect

from restante.calls.consignments import BeginConsignment, StageParcel
from restante.calls.publishing import Publish
from restante.errors import FaultyMessages
from restante.model.access.access import Grant, Role
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.message import Message
from restante.model.storage.partition import partition_of
from restante.server.access.tokens import TokenFile
from restante.server.serve import start
from restante.settings import Settings
from tests.cluster.door_hub import DoorHub
from tests.server.wire import Wire
from tests.wire.test_incoming_arrow import stream

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
NUMBERS = {"restante-producer-group": "1", "restante-owner-level": "0", "restante-published-sequence": "0"}
SECRET: dict[str, Any] = {"recipient": "ada", "id": "salary", "origin": "payroll", "data": 5_000}
CONFLICT = (1, "message_conflict")
Problem = dict[str, Any]


def guessed(data: int, count: int = 1) -> list[dict[str, Any]]:
    """A send with a fault, with the guess, and with more messages after it."""
    return [{"recipient": ""}, {**SECRET, "data": data}, *[{"recipient": "ada", "data": 1, "origin": "own"}] * count]


def columns(data: int) -> bytes:
    sent = guessed(data)
    table = {
        name: pa.array([one.get(name, None) for one in sent], pa.string()) for name in ("recipient", "id", "origin")
    }
    return stream(pa.table(table | {"data": pa.array([b"%d" % one.get("data", 1) for one in sent])}))


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, str, str]]:
    """A publisher of the origin `own`, the address of the hub, and the publisher's secret."""
    folder: Path = tmp_path_factory.mktemp("guessing") / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    anybody = tokens.create(roles=[Role.PUBLISHER])
    bound = tokens.create(roles=[Role.PUBLISHER], origins=["own"])
    with start(folder) as running:
        payroll, own = Wire(running.url, token=anybody), Wire(running.url, token=bound)
        assert payroll.publish(SECRET).status == 201
        yield own, running.url, bound
        payroll.close()
        own.close()


def framed(url: str, secret: str, data: int) -> Problem:
    with connect(
        url.replace("http", "ws", 1) + "/v1/publish", additional_headers={"Authorization": f"Bearer {secret}"}
    ) as socket:
        socket.send(json.dumps({"number": 1, "messages": guessed(data)}))
        problem: Problem = json.loads(socket.recv())["problem"]
        return problem


def staged(wire: Wire, data: int) -> Problem:
    consignment = wire("POST", "/v1/consignments", {"key": "night"}).json()["id"]
    path = f"/v1/consignments/{consignment}/parcels?writer=w&attempt=0&parcel=0"
    problem: Problem = wire("POST", path, guessed(data)).problem
    return problem


PARCELS = f"/v1/partitions/{partition_of('ada', 16)}/parcels"
DOORS: dict[str, Callable[[Wire, str, str, int], Problem]] = {
    "few": lambda wire, _, __, data: wire("POST", "/v1/messages", guessed(data)).problem,
    "many": lambda wire, _, __, data: wire("POST", "/v1/messages", guessed(data, 500)).problem,
    "columns": lambda wire, _, __, data: wire("POST", "/v1/messages", columns(data), headers=ARROW).problem,
    "parcel": lambda wire, _, __, data: wire("POST", PARCELS, guessed(data)).problem,
    "numbered": lambda wire, _, __, data: wire("POST", PARCELS, guessed(data), headers=NUMBERS).problem,
    "staged": lambda wire, _, __, data: staged(wire, data),
    "frames": lambda _, url, secret, data: framed(url, secret, data),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_right_guess_is_answered_like_a_wrong_one(wires: tuple[Wire, str, str], door: str) -> None:
    right, wrong = (DOORS[door](*wires, data) for data in (5_000, 4_000))
    assert right["errors"] == wrong["errors"]
    assert CONFLICT in {(error["index"], error["code"]) for error in right["errors"]}


def test_a_guess_under_the_own_origin_is_in_conflict_too(wires: tuple[Wire, str, str]) -> None:
    wire = wires[0]
    answers = [wire.publish({**SECRET, "origin": "own", "data": data}).problem for data in (5_000, 4_000)]
    assert [answer["code"] for answer in answers] == ["message_conflict"] * 2
    assert answers[0]["errors"] == answers[1]["errors"]


def test_who_may_publish_for_an_origin_has_no_conflict_with_the_same_message_again(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        wire = Wire(running.url)
        assert wire.publish(SECRET).status == 201
        errors = wire("POST", "/v1/messages", guessed(5_000)).problem["errors"]
        assert CONFLICT not in {(error["index"], error["code"]) for error in errors}
        wire.close()


@pytest.mark.parametrize("way", ["messages", "parcel", "staged"])
def test_doors_answer_a_right_guess_like_a_wrong_one(tmp_path: Path, way: str) -> None:
    hub = DoorHub(tmp_path / "data", Settings(partition_count=8))
    hub.call(Publish.of([Message(**SECRET)]))
    caller = hub.on_behalf_of(Grant("own", frozenset({Role.PUBLISHER}), origins=frozenset({"own"})))
    home = partition_of("ada", 8)
    consignment = hub.call(BeginConsignment("night")).id

    def answer(data: int) -> list[tuple[int, str]]:
        sent = few_or_many([Message(recipient="", data=1, origin="own"), Message(**{**SECRET, "data": data})])
        partition = None if way == "messages" else home
        publish, stage = Publish(sent, partition), StageParcel(consignment, sent, "w", 0, 0)
        with pytest.raises(FaultyMessages) as caught:
            caller.call(stage if way == "staged" else publish)
        return [(fault.index, fault.code) for fault in caught.value.faults]

    assert answer(5_000) == answer(4_000)
    assert CONFLICT in answer(5_000)
    hub.close()
