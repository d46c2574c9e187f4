"""Hostile input on every route of actions: sizes, unknown fields, bad names, texts that are none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.server.serve import ServedHub, start
from restante.settings import ActionSettings, GroupSettings, Settings
from tests.server.wire import Wire

JSON = {"Content-Type": "application/json"}
OUTCOMES = "/v1/groups/g/partitions/0/outcomes"
JOINT = "/v1/groups/g/outcomes"


def joint(partition: int, **given: Any) -> dict[str, Any]:
    return {"partition": partition, "generation": 1, **given}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    folder: Path = tmp_path_factory.mktemp("hostile") / "data"
    groups = GroupSettings(heartbeat_seconds=600)
    with start(folder, Settings(partition_count=1, housekeeping_seconds=0, groups=groups)) as running:
        yield running


@pytest.fixture(scope="module")
def wire(served: ServedHub) -> Iterator[Wire]:
    made = Wire(served.url)
    assert made("PUT", "/v1/groups/g", {"actions": ["known"]}).status == 200
    yield made
    made.close()


@pytest.fixture(scope="module")
def generation(wire: Wire) -> int:
    joined = wire("POST", "/v1/groups/g/members", {"member": "w"}).json()
    found: int = joined["partitions"][0]["generation"]
    return found


BODIES: list[Any] = [
    {},
    {"concerns": ""},
    {"concerns": " "},
    {"concerns": "."},
    {"concerns": "x" * 257},
    {"concerns": "a\u0000b"},
    {"concerns": 7},
    {"concerns": None},
    {"concerns": "x", "id": None},
    {"concerns": "x", "id": ""},
    {"concerns": "x", "id": ".."},
    {"concerns": "x", "id": "y" * 257},
    {"concerns": "x", "origin": None},
    {"concerns": "x", "origin": "o" * 65},
    {"concerns": "x", "origin": "restante"},
    {"concerns": "x", "expires_in": 0},
    {"concerns": "x", "expires_in": -1},
    {"concerns": "x", "expires_in": 1e300},
    {"concerns": "x", "expires_in": 30 * 86_400 + 1},
    {"concerns": "x", "expires_in": "7"},
    {"concerns": "x", "kind": "k"},
    {"concerns": "x", "properties": {"action": "other"}},
    {"concerns": "x", "state": "done"},
    [],
    "text",
    7,
]


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_an_action_that_is_wrong_is_refused_and_nothing_is_accepted(wire: Wire, body: Any) -> None:
    one = wire("POST", "/v1/actions/known", body)
    assert one.status == 400, one.body
    if isinstance(body, dict):
        many = {"actions": [{"action": "known", "concerns": "good", "id": "whole"}, {"action": "known", **body}]}
        assert wire("POST", "/v1/actions", many).status == 400
        assert wire.get("/v1/actions/whole").status == 404


RAW = [
    b"",
    b"{",
    b'{"concerns": "\\ud800"}',
    b'{"concerns": "x", "id": "\\udfff"}',
    b'{"concerns": "\xff"}',
    b'{"concerns": "x", "data": {"a": "\xff"}}',
    b'{"concerns": "x", "data": NaN}',
    b'{"concerns": "x", "data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"concerns": "x", "concerns": "y", "more": 1}',
    b"\x00" * 100,
]


@pytest.mark.parametrize("body", RAW, ids=lambda body: repr(body[:40]))
@pytest.mark.parametrize("path", ["/v1/actions/known", "/v1/actions", OUTCOMES])
def test_bytes_that_are_no_such_body_are_refused(wire: Wire, path: str, body: bytes) -> None:
    answer = wire("POST", path, body, headers=JSON)
    assert answer.status == 400, answer.body


@pytest.mark.parametrize("name", ["%20", "%2E%2E", "x" * 129, "a%00b", "%ED%A0%80", "a%0Ab"])
def test_a_name_that_no_action_can_have_is_refused(wire: Wire, name: str) -> None:
    assert wire("POST", f"/v1/actions/{name}", {"concerns": "x"}).status == 400


@pytest.mark.parametrize("path", ["a%00b", "x" * 257, "%ED%A0%80", "%20"])
def test_an_id_that_no_action_can_have_is_refused(wire: Wire, path: str) -> None:
    assert wire.get(f"/v1/actions/{path}").status == 400
    assert wire("DELETE", f"/v1/groups/g/poison/{path}").status == 400
    assert wire("POST", f"/v1/groups/g/poison/{path}/again").status == 400


@pytest.mark.parametrize("query", ["wait=-1", "wait=x", "redirect=maybe", "concerns=%00", "concerns=", "what=1"])
def test_a_query_that_makes_no_sense_is_refused(wire: Wire, query: str) -> None:
    assert wire.get(f"/v1/actions/any?{query}").status == 400


def test_sizes_are_bounded(wire: Wire, generation: int) -> None:
    large = {"concerns": "x", "data": "d" * (1024 * 1024 + 1)}
    assert wire("POST", "/v1/actions/known", large).problem["code"] == "invalid_message"
    many = {"actions": [{"action": "known", "concerns": "x"}] * 10_001}
    assert wire("POST", "/v1/actions", many).status == 400
    assert wire("POST", "/v1/actions", {"actions": []}).status == 400
    outcomes = [{"sequence_number": 1, "state": "done", "attempts": 1}] * 10_001
    assert wire("POST", OUTCOMES, {"generation": generation, "outcomes": outcomes}).status == 400
    assert wire("POST", JOINT, {"partitions": [joint(0, outcomes=outcomes)]}).status == 400
    assert wire("POST", JOINT, {"partitions": [joint(own, outcomes=outcomes[:5_001]) for own in (0, 1)]}).status == 400
    assert wire("POST", JOINT, {"partitions": [joint(own) for own in range(257)]}).status == 400
    bomb = gzip.compress(b" " * (64 * 1024 * 1024 + 1))
    packed = {**JSON, "Content-Encoding": "gzip"}
    assert wire("POST", "/v1/actions/known", bomb, headers=packed).status == 413


@pytest.mark.parametrize(
    "outcome",
    [
        {},
        {"sequence_number": 0, "state": "done", "attempts": 1},
        {"sequence_number": 2**63, "state": "done", "attempts": 1},
        {"sequence_number": 1, "state": "accepted", "attempts": 1},
        {"sequence_number": 1, "state": "done", "attempts": -1},
        {"sequence_number": 1, "state": "done", "attempts": 2**31},
        {"sequence_number": 1, "state": "failed", "attempts": 1},
        {"sequence_number": 1, "state": "poisoned", "attempts": 1, "problem": {}},
        {"sequence_number": 1, "state": "poisoned", "attempts": 1, "problem": {"code": "No Code"}},
        {"sequence_number": 1, "state": "poisoned", "attempts": 1, "problem": {"code": "c", "detail": "d" * 8192}},
        {"sequence_number": 1, "state": "failed", "attempts": 1, "problem": {"code": "c"}, "result": 1},
        {"sequence_number": 1, "state": "expired", "attempts": 1, "location": "/x"},
        {"sequence_number": 1, "state": "done", "attempts": 1, "begun_at": "2030-01-01T00:00:00"},
        {"sequence_number": 1, "state": "done", "attempts": 1, "data": {}},
    ],
    ids=str,
)
def test_an_outcome_that_makes_no_sense_is_refused(wire: Wire, generation: int, outcome: dict[str, Any]) -> None:
    answer = wire("POST", OUTCOMES, {"generation": generation, "outcomes": [outcome]})
    assert answer.status == 400, answer.body


def test_numbers_that_no_action_has_change_nothing(wire: Wire, generation: int) -> None:
    wire.publish({"recipient": "mail", "data": 1})
    outcomes = [{"sequence_number": number, "state": "done", "attempts": 1} for number in (1, 10**6, 2**62)]
    answer = wire("POST", OUTCOMES, {"generation": generation, "outcomes": outcomes}).json()
    assert (answer["taken"], answer["known"]) == (0, 3)
    assert wire("POST", OUTCOMES, {"generation": generation, "position": 10**6}).problem["code"] == "position_ahead"
    assert wire("POST", "/v1/groups/g/partitions/9/outcomes", {"generation": 1}).status in (400, 404)
    assert wire("POST", "/v1/groups/nobody/partitions/0/outcomes", {"generation": 1}).status == 404


@pytest.mark.parametrize(
    "location", ["//evil.example", "http://a", "https://u:p@a", "javascript:x", "/a b", "\\x", "/x\\y", ""]
)
def test_a_location_never_leads_where_it_should_not(wire: Wire, generation: int, location: str) -> None:
    action_id = f"at-{json.dumps(location)}"
    sent = wire("POST", "/v1/actions/known", {"concerns": "places", "id": action_id})
    assert sent.status == 202
    number = max(own["sequence_number"] for own in wire.get("/v1/recipients/places/messages").json()["messages"])
    outcome = {"sequence_number": number, "state": "done", "attempts": 1, "location": location}
    assert wire("POST", OUTCOMES, {"generation": generation, "outcomes": [outcome]}).json()["taken"] == 1
    found = wire.get(sent.headers["location"])
    assert (found.status, found.json()["state"]) == (200, "poisoned")


def test_a_name_that_nobody_declared_may_be_refused_at_once(tmp_path: Path) -> None:
    settings = Settings(partition_count=1, housekeeping_seconds=0, actions=ActionSettings(undeclared="refuse"))
    with start(tmp_path / "data", settings) as running:
        wire = Wire(running.url)
        refused = wire("POST", "/v1/actions/unheard_of", {"concerns": "x"})
        assert (refused.status, refused.problem["code"]) == (404, "action_unknown")
        wire("PUT", "/v1/groups/g", {"actions": ["unheard_of"]})
        assert wire("POST", "/v1/actions/unheard_of", {"concerns": "x"}).status == 202
        wire.close()
