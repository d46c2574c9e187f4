"""Everything that is wrong with a body in one problem: shapes, rules, conflicts and mismatches, by whatever way it came."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from websockets.sync.client import connect

from restante.server.serve import ServedHub
from tests.server.test_publish_link import address, text
from tests.server.test_publishing import ARROW, arrow_body
from tests.server.wire import Wire


def _codes(problem: Any) -> list[tuple[int, str]]:
    return [(fault["index"], fault["code"]) for fault in problem["errors"]]


def _with_all_faults(wire: Wire) -> tuple[int, list[dict[str, object]]]:
    """The partition of a recipient, and messages to it: a wrong shape, a conflict, a broken rule, a mismatch."""
    home = {name: wire.get(f"/v1/recipients/{name}/partition").json()["partition"] for name in "abcdefgh"}
    own = home["a"]
    other = next(name for name, partition in home.items() if partition != own)
    ids = [str(uuid4()) for _ in range(4)]
    assert wire.publish({"id": ids[1], "recipient": "a", "data": 1}).status == 201
    return own, [
        {"id": ids[0], "recipient": "a", "data": 1, "weight": "heavy"},
        {"id": ids[1], "recipient": "a", "data": 2},
        {"id": ids[2], "recipient": "a", "data": 3, "kind": ""},
        {"id": ids[3], "recipient": other, "data": 4},
    ]


_ALL = [(0, "invalid_message"), (1, "message_conflict"), (2, "invalid_message"), (3, "partition_mismatch")]


@pytest.mark.parametrize("more", [0, 200], ids=["few", "many"])
def test_all_faults_of_a_body_are_listed_together(wire: Wire, more: int) -> None:
    partition, faulty = _with_all_faults(wire)
    sound = [{"recipient": "a", "data": number} for number in range(more)]
    problem = wire("POST", f"/v1/partitions/{partition}/parcels", {"messages": [*faulty, *sound]}).problem
    assert (problem["code"], _codes(problem)) == ("invalid_message", _ALL)
    problem = wire.publish(*faulty, *sound).problem
    assert (problem["code"], _codes(problem)) == ("invalid_message", _ALL[:3])
    assert len(wire.get("/v1/recipients/a/messages").json()["messages"]) == 1


def test_all_faults_of_columns_are_listed_together(wire: Wire) -> None:
    partition, faulty = _with_all_faults(wire)
    for message in faulty:
        message["data"] = str(message["data"]).encode()
        message.setdefault("kind", "default")
    faulty[0]["weight"] = 0
    table = pa.Table.from_pylist(faulty)
    problem = wire("POST", f"/v1/partitions/{partition}/parcels", arrow_body(table), headers=ARROW).problem
    assert _codes(problem) == _ALL


def test_all_faults_of_events_are_listed_together(wire: Wire) -> None:
    first = {"specversion": "1.0", "source": "s", "type": "t", "id": "1", "recipient": "a", "data": 1}
    batch = {"content-type": "application/cloudevents-batch+json"}
    assert wire("POST", "/v1/messages", msgspec.json.encode([first]), headers=batch).status == 201
    body = msgspec.json.encode([{**first, "specversion": "9"}, {**first, "data": 2}, {**first, "id": "2", "weight": 0}])
    problem = wire("POST", "/v1/messages", body, headers=batch).problem
    expected = [(0, "invalid_message"), (1, "message_conflict"), (2, "invalid_message")]
    assert (problem["code"], _codes(problem)) == ("invalid_message", expected)


def test_all_faults_of_a_parcel_that_is_staged_are_listed_together(wire: Wire) -> None:
    _, faulty = _with_all_faults(wire)
    consignment = wire("POST", "/v1/consignments", {"key": "night"}).json()["id"]
    place = f"/v1/consignments/{consignment}/parcels?writer=w&attempt=0&parcel=0"
    problem = wire("POST", place, {"messages": faulty}).problem
    assert (problem["code"], _codes(problem)) == ("invalid_message", _ALL[:3])


def test_at_most_100_faults_are_listed_in_the_order_of_the_messages(wire: Wire) -> None:
    known = str(uuid4())
    wire.publish({"id": known, "recipient": "a", "data": 1})
    wrong = [{"recipient": "a", "data": 1, "origin": ""} for _ in range(150)]
    problem = wire.publish(*wrong[:50], {"id": known, "recipient": "a", "data": 2}, *wrong[50:]).problem
    assert [fault["index"] for fault in problem["errors"]] == list(range(100))
    assert problem["errors"][50]["code"] == "message_conflict"
    assert problem["errors"][50]["id"] == known


@pytest.mark.parametrize("more", [0, 200], ids=["few", "many"])
def test_all_faults_of_a_frame_are_listed_together(running: ServedHub, wire: Wire, more: int) -> None:
    partition, faulty = _with_all_faults(wire)
    sound: list[dict[str, object]] = [{"recipient": "a", "data": number} for number in range(more)]
    with connect(address(running)) as link:
        link.send(text(1, *faulty, *sound, partition=partition))
        link.send(text(2, {"recipient": "a", "data": "after"}))
        answers = [json.loads(link.recv()) for _ in range(2)]
    assert (answers[0]["number"], _codes(answers[0]["problem"])) == (1, _ALL)
    assert (answers[1]["number"], answers[1]["accepted"]) == (2, 1)
