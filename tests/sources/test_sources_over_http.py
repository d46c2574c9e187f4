"""Sources over bare HTTP and the publish socket: headers, answers, faults, owners."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tests.server.wire import Wire


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("sources") / "data", settings=Settings(partition_count=4)) as running:
        yield running


@pytest.fixture
def wire(served: ServedHub) -> Iterator[Wire]:
    wire = Wire(served.url)
    yield wire
    wire.close()


def sent(*positions: int) -> dict[str, object]:
    return {"messages": [{"recipient": "ada", "data": position, "source_position": position} for position in positions]}


def test_the_answer_counts_what_was_skipped(wire: Wire) -> None:
    headers = {"restante-source": "answers%2F0"}
    first = wire("POST", "/v1/messages", sent(1, 2), headers=headers)
    assert (first.status, first.json()["accepted"]) == (201, 2)
    assert "skipped" not in first.json()
    again = wire("POST", "/v1/messages", sent(2, 3), headers=headers).json()
    assert (again["accepted"], again["skipped"]) == (1, 1)
    assert "restante_source_skipped_total" in wire.get("/metrics").body.decode()


def test_a_parcel_may_have_a_source_and_no_numbers_beside_it(wire: Wire) -> None:
    home = wire.get("/v1/recipients/ada/partition").json()["partition"]
    path = f"/v1/partitions/{home}/parcels"
    assert wire("POST", path, sent(1), headers={"restante-source": "parcels"}).json()["accepted"] == 1
    numbers = {"restante-producer-group": "1", "restante-owner-level": "0", "restante-published-sequence": "0"}
    refused = wire("POST", path, sent(2), headers={"restante-source": "parcels", **numbers})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")
    elsewhere = wire("POST", f"/v1/partitions/{(home + 1) % 4}/parcels", sent(2), headers={"restante-source": "x"})
    assert elsewhere.problem["code"] == "partition_mismatch"


@pytest.mark.parametrize("name", ["%ff", "%0a", "", "a" * 300])
def test_a_header_that_names_no_source_is_refused(wire: Wire, name: str) -> None:
    refused = wire("POST", "/v1/messages", sent(1), headers={"restante-source": name})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")


def test_delayed_messages_have_no_source(wire: Wire) -> None:
    body = {"messages": [{"recipient": "ada", "data": 1, "source_position": 1, "visible_at": "2199-01-01T00:00:00Z"}]}
    refused = wire("POST", "/v1/messages", body, headers={"restante-source": "later"})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")


def test_cloudevents_have_positions_too(wire: Wire) -> None:
    event = {"specversion": "1.0", "id": "e1", "source": "shop", "type": "order", "recipient": "ada", "data": 1}
    headers = {"restante-source": "events", "content-type": "application/cloudevents+json"}
    body = json.dumps({**event, "sourceposition": 5}).encode()
    assert wire("POST", "/v1/messages", body, headers=headers).json()["accepted"] == 1
    assert wire("POST", "/v1/messages", body, headers=headers).json()["skipped"] == 1
    binary = {f"ce-{name}": str(value) for name, value in event.items() if name != "data"}
    named = {
        **binary,
        "ce-id": "e2",
        "ce-sourceposition": "6",
        "restante-source": "events",
        "content-type": "text/plain",
    }
    assert wire("POST", "/v1/messages", b"hello", headers=named).json()["accepted"] == 1
    assert wire("POST", "/v1/messages", b"hello", headers=named).json()["skipped"] == 1


def test_frames_of_the_publish_socket_have_a_source(served: ServedHub, wire: Wire) -> None:
    with connect(served.url.replace("http", "ws") + "/v1/publish") as link:
        for number in range(4):
            frame = {"number": number, "source": "frames/1", **sent(*range(number * 2, number * 2 + 4))}
            link.send(json.dumps(frame))
        answers = [json.loads(link.recv(timeout=30)) for _ in range(4)]
    found = {answer["number"]: (answer["accepted"], answer.get("skipped", 0)) for answer in answers}
    assert found == {0: (4, 0), 1: (2, 2), 2: (2, 2), 3: (2, 2)}
    assert wire.get("/v1/sources/frames%2F1").json()["position"] == 9


def test_lists_go_page_by_page(wire: Wire) -> None:
    for number in range(5):
        wire("POST", "/v1/messages", sent(1), headers={"restante-source": f"pages-{number}"})
    names, after = [], ""
    while True:
        page = wire.get(f"/v1/sources?limit=2{after}").json()
        names += [source["source"] for source in page["sources"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert names == sorted(set(names))
    assert {f"pages-{number}" for number in range(5)} <= set(names)
    assert wire.get("/v1/sources?after=!").problem["code"] == "invalid_request"


def test_owners_have_sources_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    made = {
        "a": tokens.create(roles=[Role.PUBLISHER], origins=["a"]),
        "b": tokens.create(roles=[Role.PUBLISHER], origins=["b"]),
        "free": tokens.create(roles=[Role.PUBLISHER]),
        "operator": tokens.create(roles=[Role.OPERATOR]),
    }
    with start(folder) as running:
        wires = {who: Wire(running.url, token=secret) for who, secret in made.items()}

        def publish(who: str, position: int) -> int:
            message = {"recipient": "ada", "origin": who[0], "data": 1, "source_position": position}
            headers = {"restante-source": "orders"}
            stored: int = wires[who]("POST", "/v1/messages", {"messages": [message]}, headers=headers).json()[
                "accepted"
            ]
            return stored

        assert [publish("a", 5), publish("b", 1), publish("b", 1)] == [1, 1, 0]
        assert wires["a"].get("/v1/sources/orders").json()["position"] == 5
        assert wires["b"].get("/v1/sources/orders").json()["position"] == 1
        assert len(wires["operator"].get("/v1/sources").json()["sources"]) == 2
        # What an operator began, a publisher that is bound to no origins goes on with.
        assert [publish("operator", 7), publish("free", 7), publish("free", 8)] == [1, 0, 1]
        assert wires["operator"].get("/v1/sources/orders").json()["position"] == 8
        assert wires["a"]("POST", "/v1/sources/orders/reset", {"position": None}).status == 403
        for wire in wires.values():
            wire.close()
