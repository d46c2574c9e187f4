"""Messages bound to a batch over the wire: by a header, and by frames of the pipelined link."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from websockets.sync.client import ClientConnection, connect

from restante.server.serve import ServedHub
from tests.server.batching import (
    COUNTINGS,
    ID,
    OTHER,
    opened,
    refusal,
    sealed,
    shown,
)
from tests.server.test_publish_link import answers, binary, json_table, text
from tests.server.wire import Wire


def collect(wire: Wire, recipient: str) -> int:
    bundle = wire.get(f"/v1/recipients/{recipient}/peek").json()["bundle_id"]
    return int(wire("DELETE", f"/v1/recipients/{recipient}/bundles/{bundle}").json()["messages"])


@COUNTINGS
@pytest.mark.parametrize("many", [1, 100, 2_000])
def test_messages_of_a_publish_are_items_and_collecting_completes(wire: Wire, many: int, counting: str) -> None:
    batch = opened(wire, key="night", counting=counting)
    body = {"messages": [{"recipient": "ada", "data": "x" * 20} for _ in range(many)]}
    assert wire("POST", "/v1/messages", body, headers={"Restante-Batch": batch.upper()}).json()["accepted"] == many
    status = shown(wire, batch)
    assert (status["items"], status["pending"], status["collected"]) == (many, many, 0)
    assert sealed(wire, batch) is False
    assert collect(wire, "ada") == many
    status = shown(wire, batch)
    assert (status["state"], status["pending"], status["collected"]) == ("complete", 0, many)


def test_a_numbered_parcel_is_bound_too(wire: Wire) -> None:
    batch = opened(wire)
    home = wire.get("/v1/recipients/ada/partition").json()["partition"]
    numbers = {"Restante-Producer-Group": "1", "Restante-Owner-Level": "0", "Restante-Published-Sequence": "0"}
    body = {"messages": [{"recipient": "ada", "data": 1}]}
    for replayed in (None, True):
        answer = wire("POST", f"/v1/partitions/{home}/parcels", body, headers={**numbers, "Restante-Batch": batch})
        assert answer.json().get("replayed") is replayed
    assert shown(wire, batch)["items"] == 1
    other = wire("POST", f"/v1/partitions/{home}/parcels", body, headers=numbers)
    assert refusal(other) == (409, "invalid_client_state")


def test_duplicates_are_counted_apart(wire: Wire) -> None:
    message = {"recipient": "ada", "id": ID, "data": 1}
    assert wire.publish(message).status == 201
    batch = opened(wire)
    answer = wire("POST", "/v1/messages", {"messages": [message]}, headers={"Restante-Batch": batch})
    assert answer.json()["duplicates"] == 1
    status = shown(wire, batch)
    assert (status["items"], status["duplicates"], status["duplicates_waiting"]) == (0, 1, 1)


@pytest.mark.parametrize("many", [1, 2_000])
def test_a_publish_for_a_batch_that_is_sealed_or_not_there_stores_nothing(wire: Wire, many: int) -> None:
    batch = opened(wire)
    sealed(wire, batch)
    body = {"messages": [{"recipient": "ada", "data": "x" * 20} for _ in range(many)]}
    for name, expected in ((batch, (409, "batch_sealed")), (OTHER, (404, "batch_unknown"))):
        assert refusal(wire("POST", "/v1/messages", body, headers={"Restante-Batch": name})) == expected
    assert wire.get("/v1/recipients/ada/messages").json()["messages"] == []


def test_a_header_that_is_there_twice_is_refused(wire: Wire) -> None:
    connection = wire._connection
    body = b'{"messages": []}'
    connection.putrequest("POST", "/v1/messages")
    for name, value in (("Restante-Batch", ID), ("Restante-Batch", OTHER), ("Content-Length", str(len(body)))):
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["header"]) == (400, "Restante-Batch")


def test_progress_tells_who_has_not_collected(wire: Wire) -> None:
    batch = opened(wire)
    body = {"messages": [{"recipient": name, "data": 1} for name in ("ada", "ben", "ben")]}
    wire("POST", "/v1/messages", body, headers={"Restante-Batch": batch})
    collect(wire, "ada")
    everyone = wire.get(f"/v1/batches/{batch}/progress").json()["recipients"]
    assert {one["recipient"]: (one["collected"], one["waiting"]) for one in everyone} == {"ada": (1, 0), "ben": (0, 2)}
    waiting = wire.get(f"/v1/batches/{batch}/progress?waiting=true").json()
    assert [one["recipient"] for one in waiting["recipients"]] == ["ben"]
    assert waiting["recipients"][0]["oldest_waiting"].endswith("Z")
    page = wire.get(f"/v1/batches/{batch}/progress?limit=1").json()
    rest = wire.get(f"/v1/batches/{batch}/progress?limit=1&after={page['next']}").json()
    assert page["recipients"] + rest["recipients"] == everyone
    assert refusal(wire.get(f"/v1/batches/{batch}/progress?waiting=maybe")) == (400, "invalid_request")


@pytest.fixture
def link(running: ServedHub) -> Iterator[ClientConnection]:
    with connect(running.url.replace("http", "ws") + "/v1/publish") as link:
        yield link


def test_frames_of_the_pipelined_link_are_bound_text_and_binary_alike(wire: Wire, link: ClientConnection) -> None:
    batch = opened(wire)
    link.send(text(1, {"recipient": "ada", "data": 1}, batch=batch))
    link.send(binary(2, json_table([2, 3]), batch=batch))
    link.send(text(3, {"recipient": "ada", "data": 4}))
    link.send(text(4, {"recipient": "ada", "data": 5}, batch=OTHER))
    found = {answer["number"]: answer for answer in answers(link, 4)}
    assert [found[number]["accepted"] for number in (1, 2, 3)] == [1, 2, 1]
    assert found[4]["problem"]["code"] == "batch_unknown"
    assert shown(wire, batch)["items"] == 3
