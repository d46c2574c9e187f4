"""Groups on the wire: what is next as JSON and as Arrow, several partitions in one answer, and lag in the metrics."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tests.server.wire import Wire

ARROW = "application/vnd.apache.arrow.stream"
COUNT = 30


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    folder: Path = tmp_path_factory.mktemp("groups") / "data"
    with start(folder, Settings(partition_count=4, housekeeping_seconds=0)) as running:
        yield running


@pytest.fixture(scope="module")
def wire(served: ServedHub) -> Iterator[Wire]:
    made = Wire(served.url)
    made.publish(*({"recipient": f"r{n}", "data": n} for n in range(COUNT)))
    yield made
    made.close()


def test_pages_are_the_same_as_json_and_as_arrow_and_lag_is_told(wire: Wire) -> None:
    assert wire("PUT", "/v1/groups/g", {}).status == 200
    joined = wire("POST", "/v1/groups/g/members", {"member": "a"}).json()
    path = f"/v1/groups/g/members/{joined['member_id']}/next"
    told = wire("POST", path, {"after": joined["partitions"]}).json()
    assert sum(len(page["changes"]) for page in told["pages"]) == COUNT
    answer = wire("POST", path, {"after": joined["partitions"]}, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(io.BytesIO(answer.body)).read_all()
    heads = json.loads((table.schema.metadata or {})[b"restante-next"])
    assert table.num_rows == COUNT
    assert [head["rows"] for head in heads["pages"]] == [len(page["changes"]) for page in told["pages"]]
    assert [head["next"] for head in heads["pages"]] == [page["next"] for page in told["pages"]]
    first = told["pages"][0]
    body = {"position": first["next"], "generation": first["generation"]}
    assert wire("PUT", f"/v1/groups/g/positions/{first['partition']}", body).json()["position"] == first["next"]
    metrics = wire.get("/metrics").body.decode()
    assert f'restante_group_lag{{group="g",partition="{first["partition"]}"}} 0.0' in metrics
    assert 'restante_group_members{group="g"} 1.0' in metrics


def test_a_wait_ends_when_the_hub_has_something_else_to_say(wire: Wire) -> None:
    assert wire("PUT", "/v1/groups/waited", {}).status == 200
    joined = wire("POST", "/v1/groups/waited/members", {"member": "a"}).json()
    stale = [{**own, "generation": 1} for own in joined["partitions"]]
    answer = wire("POST", f"/v1/groups/waited/members/{joined['member_id']}/next", {"after": stale, "wait": 20})
    assert (answer.status, answer.problem["code"]) == (409, "generation_stale")
    assert [own["partition"] for own in answer.problem["stale"]] == [0, 1, 2, 3]


def test_the_address_of_an_unknown_group_is_said_as_it_is_spelled(wire: Wire) -> None:
    answer = wire.get("/v1/groups/a%2Fb%20c")
    assert (answer.status, answer.problem["code"]) == (404, "group_unknown")
    assert "PUT /v1/groups/a%2Fb%20c." in answer.problem["detail"]
