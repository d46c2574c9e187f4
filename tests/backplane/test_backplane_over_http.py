"""Publishing through a backplane over HTTP: two answers, by header, client and frame."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante import Message
from restante.assembly import open_hub
from restante.client.surface import sync
from restante.client.surface.surface import Hub
from restante.errors import InvalidRequest, MessageConflict, RestanteError
from restante.server.serve import ServedHub, start
from restante.settings import BackplaneSettings, Settings
from tests.backplane.memory_backplane import MemoryBackplane
from tests.server.wire import Wire

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, backplane=BackplaneSettings(stored_seconds=5))


@pytest.fixture
def log() -> MemoryBackplane:
    return MemoryBackplane(4)


@pytest.fixture
def served(log: MemoryBackplane, tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path, SETTINGS, backplane=log) as running:
        yield running


@pytest.fixture
def wire(served: ServedHub) -> Iterator[Wire]:
    wire = Wire(served.url)
    yield wire
    wire.close()


@pytest.fixture
def hub(served: ServedHub) -> Iterator[Hub]:
    with restante.connect(served.url, retries=0) as hub:
        yield hub


def body(**fields: object) -> dict[str, object]:
    return {"messages": [{"recipient": "ada", **fields}]}


def records(log: MemoryBackplane) -> int:
    return sum(ends.next for ends in log.ends(range(4)).values())


def until_waiting(hub: Hub, messages: int) -> None:
    while sum(status.waiting for status in hub.partitions()) < messages:
        assert not threading.Event().wait(0.01)


@pytest.mark.parametrize("headers", [{}, {"restante-accept": "stored"}], ids=["default", "stored"])
def test_stored_is_answered_with_the_receipt(wire: Wire, log: MemoryBackplane, headers: dict[str, str]) -> None:
    answer = wire("POST", "/v1/messages", body(text="hello"), headers=headers)
    assert answer.status == 201, answer.body
    (partition,) = answer.json()["partitions"]
    assert answer.json() == {"accepted": 1, "duplicates": 0, "partitions": [partition]}
    assert (partition["first_sequence_number"], records(log)) == (1, 1)


def test_accepted_is_answered_by_the_log(wire: Wire, hub: Hub) -> None:
    answer = wire("POST", "/v1/messages", body(text="hello"), headers={"restante-accept": "accepted"})
    (position,) = answer.json()["positions"]
    assert answer.status == 202
    assert (position["position"], position["messages"], answer.json()["stored"]) == (0, 1, False)
    until_waiting(hub, 1)


def test_a_header_that_says_something_else_is_refused(wire: Wire, log: MemoryBackplane) -> None:
    answer = wire("POST", "/v1/messages", body(text="hello"), headers={"restante-accept": "maybe"})
    assert (answer.status, answer.json()["code"]) == (400, "invalid_request")
    assert "`stored` or `accepted`" in answer.json()["detail"]
    assert records(log) == 0


def test_accepted_does_not_go_with_a_batch(wire: Wire) -> None:
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    headers = {"restante-accept": "accepted", "restante-batch": batch}
    answer = wire("POST", "/v1/messages", body(text="hello"), headers=headers)
    assert (answer.status, answer.json()["code"]) == (400, "invalid_request")
    answer = wire("POST", "/v1/messages", body(text="hello"), headers={"restante-batch": batch})
    assert answer.status == 201


def test_a_parcel_goes_through_too(wire: Wire, log: MemoryBackplane) -> None:
    home = wire.get("/v1/recipients/ada/partition").json()["partition"]
    assert wire("POST", f"/v1/partitions/{home}/parcels", body(text="hello")).status == 201
    elsewhere = wire("POST", f"/v1/partitions/{(home + 1) % 4}/parcels", body(text="hello"))
    assert (elsewhere.status, elsewhere.json()["code"]) == (400, "partition_mismatch")
    assert records(log) == 1


def test_what_is_not_valid_never_reaches_the_log(wire: Wire, log: MemoryBackplane) -> None:
    for accept in ("stored", "accepted"):
        answer = wire("POST", "/v1/messages", body(weight=0), headers={"restante-accept": accept})
        assert (answer.status, answer.json()["code"]) == (400, "invalid_message")
    assert records(log) == 0


def test_while_the_log_is_away_the_answer_says_when_to_come_back(wire: Wire, log: MemoryBackplane) -> None:
    log.away = "no broker"
    for headers in ({}, {"restante-accept": "accepted"}):
        answer = wire("POST", "/v1/messages", body(text="hello"), headers=headers)
        assert (answer.status, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"
    log.away = None
    assert wire("POST", "/v1/messages", body(text="hello")).status == 201


def test_the_client_says_what_it_is_content_with(hub: Hub) -> None:
    stored = hub.send(recipient="ada", text="one")
    assert (stored.stored, len(stored.partitions)) == (True, 1)
    accepted = hub.send(recipient="ada", text="two", accept="accepted")
    assert (accepted.stored, accepted.accepted, len(accepted.positions)) == (False, 1, 1)
    until_waiting(hub, 2)
    assert [message.text for message in hub.recipient("ada").history().messages] == ["one", "two"]
    with pytest.raises(InvalidRequest, match="stored"):
        hub.send(recipient="ada", text="three", accept="soon")  # type: ignore[arg-type]


def test_joint_sends_go_through_each_by_itself(wire: Wire, log: MemoryBackplane) -> None:
    large = {"recipient": "ada", "data": "x" * 20_000}
    sends = [{"messages": [{"recipient": f"r{n}", "data": n}]} for n in range(5)] + [
        body(weight=0),
        {"messages": [large]},
    ]
    answers = wire("POST", "/v1/sends", {"sends": sends}).json()["answers"]
    assert ["receipt" in answer for answer in answers] == [True] * 5 + [False, True]
    assert records(log) == 6
    log.away = "no broker"
    answers = wire("POST", "/v1/sends", {"sends": sends[:2]}).json()["answers"]
    assert [answer["problem"]["code"] for answer in answers] == ["unavailable"] * 2


def test_a_conflict_is_told_with_what_was_stored_beside_it(hub: Hub) -> None:
    hub.send(recipient="ada", id="one", text="first")
    other = next(f"r{n}" for n in range(100) if hub.partition_of(f"r{n}") != hub.partition_of("ada"))
    with pytest.raises(MessageConflict) as caught:
        hub.send([{"recipient": other, "text": "fine"}, {"recipient": "ada", "id": "one", "text": "other"}])
    assert [fault.index for fault in caught.value.faults] == [1]
    stored = caught.value.details["partitions"]
    assert isinstance(stored, list)
    assert [own["partition"] for own in stored] == [hub.partition_of(other)]


def test_frames_of_the_link_go_through_in_order(hub: Hub, log: MemoryBackplane) -> None:
    with hub.producer.pipeline() as pipeline:
        futures = [pipeline.send(Message(recipient="ada", data=number)) for number in range(200)]
    assert sum(future.result().accepted for future in futures) == 200
    assert [message.data for message in hub.recipient("ada").history(limit=1_000).messages] == list(range(200))
    assert records(log) > 0


def test_without_a_backplane_accepted_is_refused(tmp_path: Path) -> None:
    with start(tmp_path, Settings(partition_count=4)) as running, restante.connect(running.url) as hub:
        with pytest.raises(RestanteError, match="no backplane"):
            hub.send(recipient="ada", text="hello", accept="accepted")
        assert hub.send(recipient="ada", text="hello", accept="stored").accepted == 1


def test_in_process_the_same_holds(log: MemoryBackplane, tmp_path: Path) -> None:
    own = open_hub(tmp_path, settings=SETTINGS, backplane=log)
    with sync.Hub(own) as hub:
        assert hub.send(recipient="ada", text="hello", accept="accepted").stored is False
        until_waiting(hub, 1)
