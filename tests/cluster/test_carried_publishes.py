"""Parcels of one partition, and frames, through a door: carried as they are, in order, and stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from websockets.sync.client import connect

from restante.calls.publishing import Publish
from restante.cluster.call_line import CallLine
from restante.cluster.call_values import PublishLetters
from restante.errors import OutcomeUnknown
from restante.model.storage.partition import partition_of
from tests.cluster.several import SeveralHub
from tests.cluster.test_doors import names
from tests.server.test_publishing import arrow_body
from tests.server.wire import Answer, Wire

PARTITION = partition_of(names(0, several=2)[0], 16)
MANY = 3_000
"""So many messages take more than what the event loop reads itself."""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path_factory.mktemp("several") / "data", shards=2, doors=1)
    yield running
    running.stop()


@pytest.fixture
def wire(several: SeveralHub) -> Iterator[Wire]:
    wire = Wire(several.url)
    yield wire
    wire.close()


def fresh(number: int) -> str:
    """A recipient of the partition that no other test uses."""
    found = (name for name in (f"reader-{place}" for place in range(10_000)) if partition_of(name, 16) == PARTITION)
    return [next(found) for _ in range(number + 1)][number]


def numbers(group: int) -> dict[str, str]:
    head = {"restante-producer-group": str(group), "restante-owner-level": "0"}
    return {**head, "restante-published-sequence": "0"}


def parcel(wire: Wire, body: object, headers: Mapping[str, str] | None = None) -> Answer:
    return wire("POST", f"/v1/partitions/{PARTITION}/parcels", body, headers=headers)


@pytest.mark.parametrize("head", [{}, numbers(1)], ids=["plain", "numbered"])
def test_a_large_parcel_in_columns_is_stored_and_known_again(wire: Wire, head: dict[str, str]) -> None:
    body = arrow_body(pa.table({"recipient": [fresh(0)] * MANY, "data": [1] * MANY}))
    headers = {"content-type": "application/vnd.apache.arrow.stream", **head}
    answer = parcel(wire, body, headers)
    assert (answer.status, answer.json()["accepted"]) == (201, MANY)
    if head:
        as_json = [{"recipient": fresh(0), "data": 1}] * MANY
        assert parcel(wire, as_json, head).json() == {**answer.json(), "replayed": True}


@pytest.mark.parametrize("head", [{}, numbers(2)], ids=["plain", "numbered"])
def test_all_that_is_wrong_with_a_large_parcel_is_told_together(wire: Wire, head: dict[str, str]) -> None:
    own, other = fresh(1), names(1, several=2)[0]
    wire.publish({"recipient": own, "data": 1, "id": "known"})
    sent: list[dict[str, object]] = [{"recipient": own, "data": 1}] * 200
    sent += [
        {"recipient": own, "data": 1, "weight": 0},
        {"recipient": other, "data": 1},
        {"recipient": own, "data": 2, "id": "known"},
    ]
    told = [(fault["index"], fault["code"]) for fault in parcel(wire, sent, head).problem["errors"]]
    assert told == [(200, "invalid_message"), (201, "partition_mismatch"), (202, "message_conflict")]


@pytest.mark.parametrize(
    ("place", "body"),
    [
        (2, [{"recipient": fresh(2), "data": 1}]),
        (3, [{"recipient": fresh(3), "data": 1, "kind": "of two\nlines"}]),
        (4, [{"recipient": fresh(4), "data": 1}] * 200),
    ],
    ids=["few", "looked at closely", "many"],
)
def test_a_parcel_without_ids_is_stored_once_although_it_was_carried_twice(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, place: int, body: list[dict[str, object]]
) -> None:
    carry, lost = CallLine.call, list[object]()

    async def losing(line: CallLine, call: Any, caller: Any) -> object:
        answer = await carry(line, call, caller)
        if isinstance(call, Publish | PublishLetters) and not lost:
            lost.append(answer)
            raise OutcomeUnknown("the shard ended before its answer came")
        return answer

    monkeypatch.setattr(CallLine, "call", losing)
    # Says the same as the shorter type, and is left to the application.
    headers = {"content-type": "application/json; charset=utf-8"}
    answer = parcel(wire, json.dumps(body).encode(), headers)
    assert (answer.status, len(lost)) == (201, 1)
    history = wire.get(f"/v1/recipients/{fresh(place)}/messages?limit=1000").json()["messages"]
    assert len(history) == len(body)


def test_frames_with_a_source_or_a_batch_keep_their_place_among_others(several: SeveralHub, wire: Wire) -> None:
    own, batch = fresh(5), wire("POST", "/v1/batches", {}).json()["id"]
    with connect(several.url.replace("http", "ws") + "/v1/publish") as link:
        for number in range(60):
            message: dict[str, object] = {"recipient": own, "data": number}
            more: list[dict[str, object]] = [{}, {"batch": batch}, {"source": "journal"}]
            if number % 3 == 2:
                message["source_position"] = number
            link.send(json.dumps({"number": number, "messages": [message], **more[number % 3]}))
        answers = [json.loads(link.recv(60)) for _ in range(60)]
    assert [answer for answer in answers if answer.get("accepted") != 1] == []
    history = wire.get(f"/v1/recipients/{own}/messages").json()["messages"]
    assert [message["data"] for message in history] == list(range(60))
