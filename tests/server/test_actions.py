"""Actions on the wire: accepted, waited for, reported, redirected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.server.serve import ServedHub, start
from restante.settings import GroupSettings, Settings
from tests.server.wire import Wire


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    folder: Path = tmp_path_factory.mktemp("actions") / "data"
    settings = Settings(partition_count=4, housekeeping_seconds=0, groups=GroupSettings(heartbeat_seconds=600))
    with start(folder, settings) as running:
        yield running


@pytest.fixture(scope="module")
def wire(served: ServedHub) -> Iterator[Wire]:
    made = Wire(served.url)
    yield made
    made.close()


class Working:
    """A worker that speaks HTTP."""

    def __init__(self, wire: Wire, group: str, *actions: str) -> None:
        self._wire = wire
        self.group = group
        assert wire("PUT", f"/v1/groups/{group}", {"actions": list(actions)}).status == 200
        joined = wire("POST", f"/v1/groups/{group}/members", {"member": "w"}).json()
        self._after = joined["partitions"]
        self._path = f"/v1/groups/{group}/members/{joined['member_id']}/next"

    def read(self) -> list[dict[str, Any]]:
        answer = self._wire("POST", self._path, {"after": self._after}).json()
        return [{**row, "page": page} for page in answer["pages"] for row in page["changes"]]

    def ask(self, headers: dict[str, str] | None = None, **said: Any) -> Any:
        return self._wire("POST", self._path, {"after": self._after, **said}, headers=headers or {})

    def report(self, row: dict[str, Any], **said: Any) -> Any:
        page = row["page"]
        outcome = {"sequence_number": row["sequence_number"], "state": "done", "attempts": 1, **said}
        path = f"/v1/groups/{self.group}/partitions/{page['partition']}/outcomes"
        return self._wire("POST", path, {"generation": page["generation"], "outcomes": [outcome]})


def test_an_action_is_accepted_with_a_location_and_answered_later(wire: Wire) -> None:
    worker = Working(wire, "catalog", "add_comment")
    sent = wire("POST", "/v1/actions/add_comment", {"concerns": "item/7", "data": {"text": "good"}, "id": "c 1"})
    assert (sent.status, sent.json()["state"], sent.json()["declared"]) == (202, "accepted", True)
    assert (sent.headers["location"], sent.headers["retry-after"]) == ("/v1/actions/c%201", "1")
    open_yet = wire.get("/v1/actions/c%201")
    assert (open_yet.status, open_yet.headers["retry-after"]) == (200, "1")
    assert open_yet.json()["begun_at"] is None
    assert open_yet.json()["accepted_at"] == sent.json()["accepted_at"]
    (row,) = worker.read()
    assert (row["data"], row["owner"], row["id"]) == ({"text": "good"}, "group", "c 1")
    assert (
        worker.report(row, result={"n": 1}, location="/items/7", begun_at="2030-01-01T00:00:00Z").json()["taken"] == 1
    )
    done = wire.get("/v1/actions/c%201")
    assert (done.status, done.headers["location"], done.json()["result"]) == (303, "/items/7", {"n": 1})
    assert "retry-after" not in done.headers
    assert wire.get("/v1/actions/c%201?redirect=false").status == 200
    again = wire("POST", "/v1/actions/add_comment", {"concerns": "item/7", "data": {"text": "good"}, "id": "c 1"})
    assert (again.status, again.json()["state"]) == (202, "done")


def test_a_few_come_as_json_and_many_as_columns_to_who_takes_both(wire: Wire) -> None:
    worker = Working(wire, "both", "take_both")
    accept = {"Accept": "application/vnd.apache.arrow.stream, application/json;q=0.9"}
    wire("POST", "/v1/actions/take_both", {"concerns": "x", "id": "one"})
    few = worker.ask(running=[], headers=accept)
    assert few.headers["content-type"] == "application/json"
    assert [row["id"] for page in few.json()["pages"] for row in page["changes"]] == ["one"]
    assert wire.get("/v1/actions/one").json()["state"] == "under_way", "a worker that says what runs begins it at once"
    worker.ask(running=[], headers=accept)
    many = [{"action": "take_both", "concerns": f"t{number}"} for number in range(300)]
    assert wire("POST", "/v1/actions", {"actions": many}).status == 202
    assert worker.ask(headers=accept).headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert len(worker.read()) == 301
    bad = worker.ask(running=[{"partition": 0}])
    assert (bad.status, bad.problem["code"]) == (400, "invalid_request")


def test_a_wait_ends_with_the_outcome(wire: Wire, served: ServedHub) -> None:
    worker = Working(wire, "waiting", "wait_for_me")
    other = Wire(served.url)
    found: list[Any] = []

    def ask() -> None:
        found.append(other("POST", "/v1/actions/wait_for_me?wait=20", {"concerns": "x", "id": "w"}))

    asking = threading.Thread(target=ask)
    asking.start()
    while not (rows := worker.read()):
        pass
    worker.report(rows[0])
    asking.join()
    other.close()
    assert (found[0].status, found[0].json()["state"]) == (200, "done")


def test_unknown_is_404_and_ambiguous_is_400(wire: Wire) -> None:
    unknown = wire.get("/v1/actions/nobody-knows")
    assert (unknown.status, unknown.problem["code"]) == (404, "action_unknown")
    for thing in ("one", "two"):
        assert wire("POST", "/v1/actions/any", {"concerns": thing, "id": "both"}).status == 202
    assert wire.get("/v1/actions/both").problem["parameter"] == "concerns"
    assert wire.get("/v1/actions/both?concerns=two").json()["concerns"] == "two"
