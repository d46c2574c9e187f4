"""Actions and reports go a short way past the application; nobody can tell by the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.server.short_routes.short_route import ShortRoute
from restante.settings import GroupSettings, Settings
from tests.server.wire import Wire

SHORT, LONG = {"Content-Type": "application/json"}, {"Content-Type": "application/json; charset=utf-8"}
SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, groups=GroupSettings(heartbeat_seconds=600))
OUTCOMES = "/v1/groups/g/partitions/0/outcomes"
JOINT = "/v1/groups/g/outcomes"


@pytest.fixture
def ways() -> Iterator[list[bool]]:
    """For each request that came to a short way, whether it went it."""
    taken: list[bool] = []
    take = ShortRoute._taken

    def noted(self: ShortRoute[object], *given: object) -> object:
        answer = take(self, *given)  # type: ignore[arg-type]
        taken.append(answer is not None)
        return answer

    with patch.object(ShortRoute, "_taken", noted):
        yield taken


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("short") / "data", SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def wire(served: ServedHub) -> Iterator[Wire]:
    made = Wire(served.url)
    assert made("PUT", "/v1/groups/g", {"actions": ["known"]}).status == 200
    yield made
    made.close()


@pytest.fixture(scope="module")
def member(wire: Wire) -> dict[str, Any]:
    joined: dict[str, Any] = wire("POST", "/v1/groups/g/members", {"member": "w"}).json()
    return joined


def plain(answer: Any) -> tuple[int, dict[str, str], Any]:
    """An answer without what differs from one request to the next."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", answer.body.decode())
    text = re.sub(r'"correlation_id":"[^"]*"', "", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text)
    heads = {name: value for name, value in answer.headers.items() if name not in ("restante-correlation-id", "date")}
    return answer.status, heads, text


def both(wire: Wire, path: str, body: Any, other: Any = None) -> list[Any]:
    """The same by the short way and by the long one; `other` if that changed something."""
    sent = [(body, SHORT), (body if other is None else other, LONG)]
    same = {"restante-correlation-id": "same"}
    return [wire("POST", path, json.dumps(own).encode(), headers=kind | same) for own, kind in sent]


def test_an_action_is_accepted_the_same_on_both_ways(wire: Wire, ways: list[bool]) -> None:
    for name in ("known", "unknown"):
        body = {"concerns": "x", "data": {"n": 1}, "expires_in": 60}
        short, long = both(wire, f"/v1/actions/{name}", body | {"id": f"s {name}"}, body | {"id": f"l {name}"})
        assert plain(short)[2] == plain(long)[2].replace("l ", "s ")
        assert short.headers.keys() == long.headers.keys()
        assert (short.status, short.headers["location"]) == (202, f"/v1/actions/s%20{name}")
    assert ways == [True, True]


def test_what_is_told_of_an_action_is_what_the_hub_has(wire: Wire, ways: list[bool]) -> None:
    headers = SHORT | {"restante-correlation-id": "mine", "traceparent": "00-1-2-01"}
    sent = wire("POST", "/v1/actions/known", b'{"concerns":"y","id":"told"}', headers=headers)
    assert sent.headers["restante-correlation-id"] == "mine"
    assert wire.get("/v1/actions/told").json() | {"declared": True} == sent.json()
    stored = wire.get("/v1/recipients/y/messages/told").json()
    assert stored["properties"] == {"action": "known", "correlation_id": "mine", "traceparent": "00-1-2-01"}
    made = wire("POST", "/v1/actions/known", b'{"concerns":"y"}', headers=SHORT)
    message = wire.get(f"/v1/recipients/y/messages/{made.json()['id']}").json()
    assert message["properties"]["correlation_id"] == made.headers["restante-correlation-id"]
    assert ways == [True, True]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/actions/known", {"concerns": "x", "id": "z", "data": 2}),
        ("/v1/actions/known", {"concerns": ""}),
        ("/v1/actions/known", {"concerns": "x", "expires_in": -1}),
        ("/v1/actions/known", {"concerns": "x", "what": 1}),
        ("/v1/actions/known", {"concerns": "x", "origin": "restante"}),
        ("/v1/actions/known", {"concerns": "x" * 300}),
        ("/v1/actions/other", {"concerns": "x", "id": "z", "data": 1}),
        (OUTCOMES, {"generation": 7, "outcomes": []}),
        (OUTCOMES, {"generation": -7}),
        (OUTCOMES, {"generation": 7, "outcomes": [{"sequence_number": 1, "state": "done", "attempts": -1}]}),
        ("/v1/groups/nobody/partitions/0/outcomes", {"generation": 7, "outcomes": []}),
        ("/v1/groups/g/partitions/99/outcomes", {"generation": 7, "outcomes": []}),
        (JOINT, {"partitions": []}),
        (JOINT, {"partitions": [{"partition": 2**63, "generation": 7}]}),
        (JOINT, {"partitions": [{"partition": 0, "generation": 2**63}]}),
        (JOINT, {"partitions": [{"partition": 0, "generation": 7, "position": 10**30}]}),
        ("/v1/groups/../outcomes", {"partitions": [{"partition": 0, "generation": 7}]}),
        ("/v1/groups/%00/outcomes", {"partitions": [{"partition": 0, "generation": 7}]}),
        (JOINT, {"partitions": [{"partition": 0, "generation": -7}]}),
        (JOINT, {"partitions": [{"partition": 0, "generation": 7, "what": 1}]}),
        (JOINT, {"partitions": [{"partition": 0, "generation": 7}] * 2}),
        ("/v1/groups/nobody/outcomes", {"partitions": [{"partition": 0, "generation": 7}]}),
    ],
    ids=str,
)
def test_what_is_refused_is_refused_the_same(wire: Wire, member: dict[str, Any], path: str, body: Any) -> None:
    assert member["partitions"]
    wire("POST", "/v1/actions/known", b'{"concerns":"x","id":"z","data":1}', headers=LONG)
    short, long = both(wire, path, body)
    if (short.status, long.status) == (202, 202):
        pytest.fail("nothing is wrong with it")
    assert short.status >= 400
    assert plain(short) == plain(long)


def test_the_same_action_again_is_answered_as_it_is_now_and_a_report_is_taken(
    wire: Wire, member: dict[str, Any], ways: list[bool]
) -> None:
    body = {"concerns": "r", "id": "again", "data": 1}
    first = wire("POST", "/v1/actions/known", json.dumps(body).encode(), headers=SHORT)
    assert first.status == 202
    again, long = both(wire, "/v1/actions/known", body)
    assert plain(again) == plain(long)
    path = f"/v1/groups/g/members/{member['member_id']}/next"
    page = wire("POST", path, {"after": member["partitions"]}).json()["pages"][0]
    number = next(row["sequence_number"] for row in page["changes"] if row["id"] == "again")
    ways.clear()
    report = {
        "generation": page["generation"],
        "outcomes": [{"sequence_number": number, "state": "done", "attempts": 1, "result": [1]}],
    }
    taken, known = both(wire, OUTCOMES, report)
    assert (taken.json()["taken"], known.json()["known"]) == (1, 1)
    assert taken.headers.keys() == known.headers.keys()
    done, long = both(wire, "/v1/actions/known", body)
    assert (done.status, done.json()["state"], done.json()["result"]) == (202, "done", [1])
    assert plain(done) == plain(long)
    assert "retry-after" not in done.headers
    assert ways == [True, True]


def test_a_joint_report_is_taken_the_same_on_both_ways(wire: Wire, member: dict[str, Any], ways: list[bool]) -> None:
    wire("POST", "/v1/actions/known", b'{"concerns":"j","id":"joint"}', headers=LONG)
    path = f"/v1/groups/g/members/{member['member_id']}/next"
    page = wire("POST", path, {"after": member["partitions"]}).json()["pages"][0]
    number = next(row["sequence_number"] for row in page["changes"] if row["id"] == "joint")
    done = {"sequence_number": number, "state": "done", "attempts": 1, "result": {"a": [1]}}
    generation = page["generation"]
    report = {"partitions": [{"partition": 0, "generation": generation, "outcomes": [done]}]}
    taken, known = both(wire, JOINT, report)
    (first,), (second,) = taken.json()["partitions"], known.json()["partitions"]
    assert (first["report"]["taken"], second["report"]["known"]) == (1, 1)
    assert taken.headers.keys() == known.headers.keys()
    assert wire.get("/v1/actions/joint").json()["result"] == {"a": [1]}
    stale = {"partitions": [{"partition": 0, "generation": generation - 1, "outcomes": [done]}]}
    short, long = both(wire, JOINT, stale)
    assert plain(short) == plain(long)
    assert (short.status, short.json()["partitions"][0]["problem"]["code"]) == (200, "generation_stale")
    lost = {"partitions": [{"partition": 0, "generation": generation}, {"partition": 7, "generation": 1}]}
    short, long = both(wire, JOINT, lost)
    assert plain(short) == plain(long)
    codes = [one.get("problem", {}).get("code") for one in short.json()["partitions"]]
    assert codes == [None, "partition_unknown"]
    assert (ways[0], ways[1], ways[-1]) == (True, False, True), "what has ended is not remembered"


def test_tokens_count_on_the_short_way(tmp_path: Path, ways: list[bool]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    shop = tokens.create(roles=[Role.PUBLISHER], origins=["shop"])
    ours, theirs = (tokens.create(roles=[Role.WORKER], groups=[group]) for group in ("g", "other"))
    with start(folder, SETTINGS) as running:
        publisher, worker, stranger = (Wire(running.url, token=token) for token in (shop, ours, theirs))
        worker("PUT", "/v1/groups/g", {"actions": ["known"]})
        generation = worker("POST", "/v1/groups/g/members", {"member": "w"}).json()["partitions"][0]["generation"]
        assert publisher("POST", "/v1/actions/known", b'{"concerns":"x","origin":"shop"}', headers=SHORT).status == 202
        assert publisher("POST", "/v1/actions/known", b'{"concerns":"x"}', headers=SHORT).status == 403
        assert worker("POST", "/v1/actions/known", b'{"concerns":"x"}', headers=SHORT).status == 403
        report = json.dumps({"generation": generation, "outcomes": []}).encode()
        assert worker("POST", OUTCOMES, report, headers=SHORT).status == 200
        joint = json.dumps({"partitions": [{"partition": 0, "generation": generation}]}).encode()
        assert worker("POST", JOINT, joint, headers=SHORT).status == 200
        for wrong in (stranger, publisher):
            assert wrong("POST", OUTCOMES, report, headers=SHORT).status == 403
            assert wrong("POST", JOINT, joint, headers=SHORT).status == 403
        for each in (publisher, worker, stranger):
            each.close()
    assert True in ways
