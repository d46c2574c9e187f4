"""Consignments over bare HTTP: opened by key, staged into in any body type, committed, discarded, listed, counted."""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from restante.limits import MIB
from restante.server.connections.incoming_messages import is_for_the_loop
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from restante.wire.compression import compress
from tests.server.batching import OTHER, counted, refusal
from tests.server.test_publishing import ARROW, arrow_body
from tests.server.wire import Answer, Wire
from tests.waiting import wait_until


def opened(wire: Wire, key: str = "night", **more: object) -> str:
    answer = wire("POST", "/v1/consignments", {"key": key, **more})
    assert answer.status == 201, answer
    return str(answer.json()["id"])


def place(consignment: str, *, writer: str = "w", attempt: object = 0, parcel: object = 0) -> str:
    return f"/v1/consignments/{consignment}/parcels?writer={writer}&attempt={attempt}&parcel={parcel}"


def staged(
    wire: Wire, consignment: str, *messages: Mapping[str, object], writer: str = "w", attempt: int = 0, parcel: int = 0
) -> Answer:
    return wire("POST", place(consignment, writer=writer, attempt=attempt, parcel=parcel), {"messages": list(messages)})


def letter(number: int, **more: object) -> dict[str, object]:
    return {"id": str(uuid.UUID(int=number)), "recipient": f"r{number}", "data": number, **more}


def winner(messages: int, *, writer: str = "w", attempt: int = 0) -> dict[str, object]:
    return {"writer": writer, "attempt": attempt, "messages": messages}


def committed(wire: Wire, consignment: str, *writers: Mapping[str, object]) -> Answer:
    return wire("POST", f"/v1/consignments/{consignment}/commit", {"writers": list(writers)})


def shown(wire: Wire, consignment: str) -> Any:
    answer = wire.get(f"/v1/consignments/{consignment}")
    assert answer.status == 200, answer
    return answer.json()


def waiting(wire: Wire) -> int:
    return sum(int(one["waiting"]) for one in wire.get("/v1/partitions").json()["partitions"])


def test_a_commit_that_names_something_else_gets_the_answer_of_the_recorded_one(wire: Wire) -> None:
    consignment = opened(wire)
    assert staged(wire, consignment, letter(1)).status == 201
    receipt = committed(wire, consignment, winner(1)).json()
    problem = committed(wire, consignment).problem
    assert (problem["status"], problem["code"], problem["state"]) == (409, "consignment_closed", "committed")
    assert problem["recorded"] == receipt
    assert committed(wire, consignment, winner(1)).json() == receipt


def test_whoever_opens_with_the_same_key_gets_the_same_consignment(wire: Wire) -> None:
    first = wire("POST", "/v1/consignments", {"key": "night"})
    again = wire("POST", "/v1/consignments", {"key": "night"})
    assert (first.status, again.status) == (201, 200)
    assert first.json() == again.json() == {"id": first.json()["id"], "key": "night", "state": "open"}
    assert uuid.UUID(first.json()["id"]).version == 7
    assert opened(wire, "other") != first.json()["id"]


def test_a_key_is_open_again_once_its_consignment_was_discarded(wire: Wire) -> None:
    first = opened(wire)
    assert wire("DELETE", f"/v1/consignments/{first}").status == 204
    second = wire("POST", "/v1/consignments", {"key": "night"})
    assert second.status == 201
    assert second.json()["id"] != first


def test_of_a_committed_consignment_opening_tells_the_state(wire: Wire) -> None:
    consignment = opened(wire)
    committed(wire, consignment)
    again = wire("POST", "/v1/consignments", {"key": "night"})
    assert (again.status, again.json()) == (200, {"id": consignment, "key": "night", "state": "committed"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "key"),
        ({"key": ""}, "key"),
        ({"key": "x" * 257}, "key"),
        ({"key": None}, "key"),
        ({"key": " "}, None),
        ({"key": "night", "batch": 1}, "batch"),
        ({"key": "night", "batch": "yes"}, "batch"),
        ({"key": "night", "batch": {"kye": "x"}}, None),
        ({"key": "night", "batch": {"notify": ""}}, None),
        ({"key": "night", "batch": {"webhook": {"url": "ftp://example.org"}}}, None),
        ({"key": "night", "id": OTHER}, "id"),
        (b"[", None),
    ],
)
def test_an_opening_that_makes_no_sense_is_refused(wire: Wire, body: object, field: str | None) -> None:
    answer = wire("POST", "/v1/consignments", body)
    assert refusal(answer) == (400, "invalid_request")
    if field is not None:
        assert answer.problem["field"] == field
    assert wire.get("/v1/consignments").json() == {"consignments": [], "next": None}


def test_staged_messages_are_seen_by_nobody_and_committed_ones_by_all(wire: Wire) -> None:
    consignment = opened(wire)
    assert staged(wire, consignment, letter(1), letter(2)).json() == {"staged": 2}
    assert staged(wire, consignment, letter(3), writer="v", attempt=4, parcel=7).json() == {"staged": 1}
    assert waiting(wire) == 0
    assert wire.get("/v1/recipients/r1/peek").status == 204
    assert wire.get("/v1/recipients/r1/messages").json()["messages"] == []
    answer = committed(wire, consignment, winner(2), winner(1, writer="v", attempt=4))
    assert answer.status == 200
    assert {name: answer.json()[name] for name in ("accepted", "duplicates")} == {"accepted": 3, "duplicates": 0}
    assert waiting(wire) == 3
    assert wire.get("/v1/recipients/r1/peek").json()["messages"][0]["data"] == 1
    assert committed(wire, consignment, winner(1, writer="v", attempt=4), winner(2)).json() == answer.json()
    assert shown(wire, consignment)["receipt"] == answer.json()


EVENT = {"specversion": "1.0", "id": "e1", "source": "billing", "type": "letter", "recipient": "ada", "data": 1}
PLAIN = {"ce-specversion": "1.0", "ce-id": "e1", "ce-source": "billing", "ce-type": "letter", "ce-recipient": "ada"}


@pytest.mark.parametrize(
    ("body", "headers", "count"),
    [
        (msgspec.json.encode({"messages": [letter(1), letter(2)]}), {"content-type": "application/json"}, 2),
        (msgspec.json.encode({"messages": []}), {"content-type": "application/json"}, 0),
        (msgspec.json.encode(EVENT), {"content-type": "application/cloudevents+json"}, 1),
        (msgspec.json.encode([EVENT, EVENT | {"id": "e2"}]), {"content-type": "application/cloudevents-batch+json"}, 2),
        (b"hello", {"content-type": "text/plain", **PLAIN}, 1),
        (arrow_body(pa.table({"recipient": ["ada", "bob"], "data": [b"1", b"2"]})), ARROW, 2),
        (
            b"".join(compress(iter([msgspec.json.encode({"messages": [letter(1)]})]), "zstd")),
            {"content-type": "application/json", "content-encoding": "zstd"},
            1,
        ),
        (
            msgspec.json.encode({"messages": [letter(n, data="x" * 999) for n in range(99)]}),
            {"content-type": "application/json"},
            99,
        ),
    ],
    ids=["json", "nothing", "event", "events", "binary-event", "arrow", "packed", "large"],
)
def test_a_parcel_may_come_in_every_type_of_body(
    wire: Wire, body: bytes, headers: dict[str, str], count: int, request: pytest.FixtureRequest
) -> None:
    assert (not is_for_the_loop(len(body))) == request.node.name.endswith("[large]")
    consignment = opened(wire)
    for _ in range(2):
        answer = wire("POST", place(consignment), body, headers=headers)
        assert (answer.status, answer.json()) == (201, {"staged": count})
    assert shown(wire, consignment)["staged_messages"] == count
    assert committed(wire, consignment, winner(count)).json()["accepted"] == count
    assert waiting(wire) == count


def test_the_same_place_with_other_messages_is_refused(wire: Wire) -> None:
    consignment = opened(wire)
    staged(wire, consignment, letter(1))
    answer = staged(wire, consignment, letter(2))
    assert refusal(answer) == (409, "invalid_client_state")
    assert answer.problem["title"] == "What was sent does not follow what was sent before"
    assert shown(wire, consignment)["staged_messages"] == 1


@pytest.mark.parametrize("missing", ["writer", "attempt", "parcel"])
def test_writer_attempt_and_parcel_are_all_needed(wire: Wire, missing: str) -> None:
    given = {"writer": "w", "attempt": "0", "parcel": "0"}
    del given[missing]
    query = "&".join(f"{name}={value}" for name, value in given.items())
    answer = wire("POST", f"/v1/consignments/{opened(wire)}/parcels?{query}", {"messages": [letter(1)]})
    assert (refusal(answer), answer.problem["parameter"]) == ((400, "invalid_request"), missing)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("writer=w&attempt=-1&parcel=0", "attempt"),
        ("writer=w&attempt=0&parcel=x", "parcel"),
        ("writer=w&attempt=0&parcel=", "parcel"),
        (f"writer=w&attempt={2**63}&parcel=0", "attempt"),
        ("writer=&attempt=0&parcel=0", "writer"),
        ("writer=%20&attempt=0&parcel=0", "writer"),
        (f"writer={'w' * 257}&attempt=0&parcel=0", "writer"),
        ("writer=w&writer=v&attempt=0&parcel=0", "writer"),
        ("writer=w&attempt=0&parcel=0&part=1", "part"),
    ],
)
def test_a_place_that_makes_no_sense_is_refused(wire: Wire, query: str, parameter: str) -> None:
    consignment = opened(wire)
    answer = wire("POST", f"/v1/consignments/{consignment}/parcels?{query}", {"messages": [letter(1)]})
    assert (refusal(answer), answer.problem["parameter"]) == ((400, "invalid_request"), parameter)
    assert shown(wire, consignment)["staged_messages"] == 0


@pytest.mark.parametrize(("attempt", "parcel", "name"), [(2**63, 0, "attempt"), (0, 2**63, "parcel")])
def test_a_number_that_is_too_large_is_told_how_large_it_may_be(
    wire: Wire, attempt: int, parcel: int, name: str
) -> None:
    answer = wire("POST", place(opened(wire), attempt=attempt, parcel=parcel), {"messages": [letter(1)]})
    assert refusal(answer) == (400, "invalid_request")
    assert answer.problem["detail"] == f"{name} must be a whole number from 0 to {2**63 - 1}, not '{2**63}'."


def test_a_batch_in_a_header_is_refused_with_what_to_do(wire: Wire) -> None:
    consignment = opened(wire)
    headers = {"content-type": "application/json", "restante-batch": OTHER}
    answer = wire("POST", place(consignment), msgspec.json.encode({"messages": [letter(1)]}), headers=headers)
    assert (refusal(answer), answer.problem["header"]) == ((400, "invalid_request"), "Restante-Batch")
    assert "open the consignment with a batch" in answer.problem["detail"]
    assert shown(wire, consignment)["staged_messages"] == 0


@pytest.mark.parametrize("header", ["Restante-Source", "Restante-Producer-Group", "Restante-Made-Anew"])
def test_a_header_that_a_parcel_cannot_have_is_refused_and_named(wire: Wire, header: str) -> None:
    consignment = opened(wire)
    headers = {"content-type": "application/json", header: "1"}
    answer = wire("POST", place(consignment), msgspec.json.encode({"messages": [letter(1)]}), headers=headers)
    assert (refusal(answer), answer.problem["header"]) == ((400, "invalid_request"), header)
    assert shown(wire, consignment)["staged_messages"] == 0


def test_the_first_who_opens_says_whether_there_is_a_batch(wire: Wire) -> None:
    consignment = opened(wire)
    again = wire("POST", "/v1/consignments", {"key": "night", "batch": True})
    assert (again.status, again.json()) == (200, {"id": consignment, "key": "night", "state": "open"})
    assert wire.get("/v1/batches").json()["batches"] == []


def test_the_largest_numbers_and_odd_names_are_places_too(wire: Wire) -> None:
    consignment = opened(wire)
    most = 2**63 - 1
    body = {"messages": [letter(1)]}
    assert wire("POST", place(consignment, writer="a%2Fb%20%C3%A9", attempt=most, parcel=most), body).status == 201
    (attempt,) = shown(wire, consignment)["attempts"]
    assert (attempt["writer"], attempt["attempt"]) == ("a/b é", most)
    assert committed(wire, consignment, winner(1, writer="a/b é", attempt=most)).json()["accepted"] == 1


def test_one_bad_message_stages_nothing_and_is_named(wire: Wire) -> None:
    consignment = opened(wire)
    answer = staged(wire, consignment, letter(1), {"recipient": " ", "data": 1})
    assert refusal(answer) == (400, "invalid_message")
    assert answer.problem["errors"][0]["index"] == 1
    assert shown(wire, consignment)["staged_messages"] == 0


def test_a_message_that_was_stored_with_other_content_refuses_the_parcel(wire: Wire) -> None:
    wire.publish(letter(1))
    consignment = opened(wire)
    assert refusal(staged(wire, consignment, letter(1) | {"data": "other"})) == (409, "message_conflict")
    assert staged(wire, consignment, letter(1)).json() == {"staged": 1}
    assert committed(wire, consignment, winner(1)).json() == {"accepted": 0, "duplicates": 1, "partitions": []}


def test_a_commit_that_announces_something_else_is_incomplete_and_leaves_it_open(wire: Wire) -> None:
    consignment = opened(wire)
    staged(wire, consignment, letter(1))
    answer = committed(wire, consignment, winner(2), winner(1, writer="v"))
    assert refusal(answer) == (409, "consignment_incomplete")
    assert answer.problem["writers"] == [
        {"writer": "w", "attempt": 0, "announced": 2, "staged": 1},
        {"writer": "v", "attempt": 0, "announced": 1, "staged": 0},
    ]
    assert shown(wire, consignment)["state"] == "open"
    assert waiting(wire) == 0
    assert committed(wire, consignment, winner(1)).json()["accepted"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "writers"),
        ({"writers": [{"writer": "w", "attempt": 0}]}, None),
        ({"writers": [{"writer": "w", "attempt": -1, "messages": 1}]}, None),
        ({"writers": [{"writer": "w", "attempt": 0, "messages": 1, "parcels": 1}]}, None),
        ({"writers": [winner(1), winner(1, attempt=1)]}, None),
        ({"writers": "w"}, "writers"),
        ({"writers": [], "force": True}, "force"),
        (b"{", None),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(wire: Wire, body: object, field: str | None) -> None:
    consignment = opened(wire)
    staged(wire, consignment, letter(1))
    answer = wire("POST", f"/v1/consignments/{consignment}/commit", body)
    assert refusal(answer) == (400, "invalid_request")
    if field is not None:
        assert answer.problem["field"] == field
    assert shown(wire, consignment)["state"] == "open"


def test_thousands_of_writers_commit_in_one_call(wire: Wire) -> None:
    consignment = opened(wire)
    staged(wire, consignment, letter(1))
    nothing = [winner(0, writer=f"a task of many, number {number}") for number in range(5_000)]
    assert not is_for_the_loop(len(msgspec.json.encode(nothing)))
    assert committed(wire, consignment, *nothing, winner(1)).json()["accepted"] == 1


def test_a_closed_consignment_takes_nothing_more(wire: Wire) -> None:
    done, dropped = opened(wire, "done"), opened(wire, "dropped")
    committed(wire, done)
    for _ in range(2):
        assert wire("DELETE", f"/v1/consignments/{dropped}").status == 204
    for consignment, state in ((done, "committed"), (dropped, "discarded")):
        answer = staged(wire, consignment, letter(1))
        assert (refusal(answer), answer.problem["state"]) == ((409, "consignment_closed"), state)
        assert shown(wire, consignment)["state"] == state
    assert refusal(wire("DELETE", f"/v1/consignments/{done}")) == (409, "consignment_closed")
    assert refusal(committed(wire, dropped)) == (409, "consignment_closed")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/commit", {"writers": []}),
        ("POST", "/parcels?writer=w&attempt=0&parcel=0", {"messages": [{"recipient": "ada", "data": 1}]}),
    ],
)
def test_a_consignment_that_there_is_not_is_unknown(wire: Wire, method: str, path: str, body: object) -> None:
    assert refusal(wire(method, f"/v1/consignments/{OTHER}{path}", body)) == (404, "consignment_unknown")
    answer = wire(method, f"/v1/consignments/a%20night{path}", body)
    assert (refusal(answer), answer.problem["parameter"]) == ((400, "invalid_request"), "consignment")
    assert answer.problem["detail"].endswith("To look for a key: GET /v1/consignments?key=a%20night")


def test_the_messages_of_a_consignment_become_the_items_of_its_batch(wire: Wire) -> None:
    answer = wire("POST", "/v1/consignments", {"key": "night", "batch": {"webhook": {"url": "https://example.org"}}})
    assert answer.json()["webhook_secret"].startswith("whsec_")
    assert answer.headers["cache-control"] == "no-store"
    consignment, batch = answer.json()["id"], answer.json()["batch"]
    assert "whsec_" not in wire("POST", "/v1/consignments", {"key": "night"}).body.decode()
    assert shown(wire, consignment)["batch"] == batch
    staged(wire, consignment, letter(1))
    committed(wire, consignment, winner(1))
    status = wire.get(f"/v1/batches/{batch}").json()
    assert {name: status[name] for name in ("key", "state", "items")} == {"key": "night", "state": "sealed", "items": 1}


def test_a_list_has_the_newest_first_and_goes_page_by_page(wire: Wire) -> None:
    made = [opened(wire, key) for key in ("a", "b", "c")]
    committed(wire, made[0])
    first = wire.get("/v1/consignments?limit=2").json()
    assert [one["id"] for one in first["consignments"]] == [made[2], made[1]]
    second = wire.get(f"/v1/consignments?limit=2&after={first['next']}").json()
    assert ([one["id"] for one in second["consignments"]], second["next"]) == ([made[0]], None)
    for query, found in (("state=committed", made[:1]), ("key=b", made[1:2]), ("state=discarded", [])):
        page = wire.get(f"/v1/consignments?{query}").json()
        assert [one["id"] for one in page["consignments"]] == found
    for query in ("state=closed", "after=x", "limit=x"):
        assert refusal(wire.get(f"/v1/consignments?{query}")) == (400, "invalid_request")


def test_what_is_staged_is_counted(wire: Wire) -> None:
    first, second = opened(wire, "a"), opened(wire, "b")
    staged(wire, first, letter(1), letter(2))
    before = counted(wire)
    assert before["restante_consignments_open"] == 2
    assert before["restante_staged_messages"] == 2
    assert before["restante_staged_bytes"] == shown(wire, first)["staged_bytes"] > 0
    assert before["restante_messages_staged_total"] == 2
    assert before["restante_messages_accepted_total"] == 0
    wire.publish(letter(2))
    for _ in range(2):
        committed(wire, first, winner(2))
    wire("DELETE", f"/v1/consignments/{second}")
    after = counted(wire)
    assert after["restante_consignments_open"] == after["restante_staged_bytes"] == 0
    assert after["restante_messages_staged_total"] == 2
    assert after["restante_messages_accepted_total"] == 2
    assert after["restante_messages_duplicate_total"] == 1
    assert after["restante_consignments_committed_total"] == 1


def test_more_than_the_settings_allow_is_not_staged(tmp_path: Path) -> None:
    with start(tmp_path / "data", Settings(consignment_bytes_max=5_000)) as running:
        wire = Wire(running.url)
        consignment = opened(wire)
        noise = base64.b85encode(bytes(range(256)) * 4).decode()
        assert staged(wire, consignment, letter(1)).status == 201
        answer = staged(wire, consignment, *[letter(n, data=f"{n}{noise}") for n in range(2, 30)], parcel=1)
        assert refusal(answer) == (507, "storage_full")
        told = answer.problem
        assert (told["setting"], told["limit"]) == ("consignment_bytes_max", 5_000)
        assert told["staged"] > 5_000 > shown(wire, consignment)["staged_bytes"]
        assert committed(wire, consignment, winner(1)).json()["accepted"] == 1
        wire.close()


def test_staging_takes_room_as_publishing_does(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"publish_bytes_in_flight_max": 64 * MIB}, ServerSettings))
    with start(tmp_path / "data", settings) as running:
        wire, size = Wire(running.url), 60 * MIB
        consignment = opened(wire)
        slow = begun(running, consignment, size)
        wait_until(lambda: running.desk.room.publish_bytes == size)
        refused = begun(running, consignment, size)
        assert refused.recv(100).startswith(b"HTTP/1.1 429")
        refused.close()
        slow.close()
        wait_until(lambda: running.desk.room.publish_bytes == 0)
        assert staged(wire, consignment, letter(1)).status == 201
        wire.close()


def begun(running: ServedHub, consignment: str, size: int) -> socket.socket:
    """A connection on which a parcel of this size was begun."""
    head = f"POST {place(consignment)} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    connection = socket.create_connection(Wire(running.url).address, timeout=30)
    connection.sendall(f"{head}content-length: {size}\r\n\r\n{{".encode())
    return connection
