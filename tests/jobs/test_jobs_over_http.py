"""Jobs over bare HTTP: answers, faults, and whose a job is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import start
from tests.server.wire import Wire


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Wire]]:
    folder: Path = tmp_path_factory.mktemp("jobs") / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    made = {role.value: tokens.create(roles=[role]) for role in Role}
    made["a"] = tokens.create(roles=[Role.PUBLISHER], origins=["a"])
    made["b"] = tokens.create(roles=[Role.PUBLISHER], origins=["b"])
    with start(folder) as running:
        opened = {who: Wire(running.url, token=secret) for who, secret in made.items()}
        yield opened
        for wire in opened.values():
            wire.close()


def ended(number: int = 1, **more: Any) -> dict[str, Any]:
    times = {"began_at": "2030-01-31T02:00:00Z", "ended_at": "2030-01-31T02:00:42Z"}
    return {"run": {"run": number, "state": "done", **times, **more}}


def test_owners_have_jobs_of_their_own(wires: dict[str, Wire]) -> None:
    for who in ("a", "b"):
        assert wires[who]("PUT", "/v1/jobs/export", ended(text=who)).status == 200
    assert wires["a"].get("/v1/jobs/export").json()["last"]["text"] == "a"
    assert wires["b"].get("/v1/jobs/export/runs/1").json()["text"] == "b"
    assert len(wires["reader"].get("/v1/jobs").json()["jobs"]) == 2
    assert len(wires["a"].get("/v1/jobs").json()["jobs"]) == 1
    assert wires["worker"].get("/v1/jobs/export").problem["code"] == "job_unknown"
    assert wires["recipient"].get("/v1/jobs").status == 403
    assert wires["a"]("DELETE", "/v1/jobs/export").status == 403
    assert wires["operator"]("DELETE", "/v1/jobs/export").status == 204


def test_an_owner_with_its_share_of_jobs_is_refused_and_others_are_not(
    wires: dict[str, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.hub.jobs.jobs.JOBS_OF_OWNER_MAX", 3)
    *_, refused = (wires["b"]("PUT", f"/v1/jobs/many-{number}", ended()) for number in range(4))
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")
    assert "3 jobs" in refused.problem["detail"]
    assert wires["b"]("PUT", "/v1/jobs/many-0", ended(2)).status == 200
    assert wires["a"]("PUT", "/v1/jobs/of-a", ended()).status == 200
    for number in range(5):
        assert wires["operator"]("PUT", f"/v1/jobs/operators-{number}", ended()).status == 200


@pytest.mark.parametrize("who", ["publisher", "reader", "worker", "operator"])
def test_whoever_runs_a_job_may_report_it(wires: dict[str, Wire], who: str) -> None:
    assert wires[who]("PUT", f"/v1/jobs/of-{who}", ended()).status == 200
    assert wires[who].get(f"/v1/jobs/of-{who}/runs").json()["runs"][0]["state"] == "done"


def test_names_are_percent_encoded(wires: dict[str, Wire]) -> None:
    assert wires["reader"]("PUT", "/v1/jobs/a%2Fb%20%C3%BC", ended()).json()["job"] == "a/b ü"
    assert wires["reader"].get("/v1/jobs/a%2Fb%20%C3%BC/runs/1").status == 200


@pytest.mark.parametrize(
    "body",
    [
        {"run": {"run": 1, "state": "asleep", "began_at": "2030-01-31T02:00:00Z"}},
        {"run": {"run": "1", "state": "running", "began_at": "2030-01-31T02:00:00Z"}},
        {"run": {"run": 1, "state": "running", "began_at": "2030-01-31T02:00:00"}},
        {"run": {"run": 1, "state": "running"}},
        {"next_at": "tomorrow"},
        {"more": 1},
        ended(figures={"f": [1]}),
        ended(table={"columns": ["a"], "rows": [[{}]]}),
    ],
)
def test_a_body_that_is_no_report_is_refused(wires: dict[str, Wire], body: object) -> None:
    refused = wires["reader"]("PUT", "/v1/jobs/wrong", body)
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")


def test_a_run_that_is_no_number_is_refused(wires: dict[str, Wire]) -> None:
    wires["reader"]("PUT", "/v1/jobs/numbers", ended())
    for text in ("x", "-1", "9" * 30):
        assert wires["reader"].get(f"/v1/jobs/numbers/runs/{text}").status == 400
    assert wires["reader"].get("/v1/jobs/numbers/runs/2").problem["code"] == "job_unknown"
    assert wires["reader"].get("/v1/jobs?after=!").status == 400


def test_runs_are_paged(wires: dict[str, Wire]) -> None:
    for number in range(5):
        wires["reader"]("PUT", "/v1/jobs/paged", ended(number))
    first = wires["reader"].get("/v1/jobs/paged/runs?limit=2").json()
    assert ([run["run"] for run in first["runs"]], first["next"]) == ([4, 3], 3)
    second = wires["reader"].get(f"/v1/jobs/paged/runs?limit=3&after={first['next']}").json()
    assert ([run["run"] for run in second["runs"]], second["next"]) == ([2, 1, 0], None)
