"""Who may know what became of an action: those who asked for it, whom it concerns, those who work; to others it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tests.server.wire import Wire

ALLOWED = ("shop", "item", "worker", "anywhere", "operator")
OTHERS = ("bank", "other", "elsewhere", "reader")


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Wire]]:
    folder: Path = tmp_path_factory.mktemp("seen") / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secrets = {
        "shop": tokens.create(roles=[Role.PUBLISHER], origins=["shop"]),
        "bank": tokens.create(roles=[Role.PUBLISHER], origins=["bank"]),
        "item": tokens.create(roles=[Role.RECIPIENT], recipients=["item"]),
        "other": tokens.create(roles=[Role.RECIPIENT], recipients=["other"]),
        "worker": tokens.create(roles=[Role.WORKER], groups=["g"]),
        "anywhere": tokens.create(roles=[Role.WORKER]),
        "elsewhere": tokens.create(roles=[Role.WORKER], groups=["h"]),
        "reader": tokens.create(roles=[Role.READER]),
        "operator": tokens.create(roles=[Role.OPERATOR]),
    }
    with start(folder, Settings(partition_count=2, housekeeping_seconds=0)) as running:
        served: ServedHub = running
        made = {name: Wire(served.url, token=secret) for name, secret in secrets.items()}
        for worker, group, action in (("worker", "g", "do_it"), ("elsewhere", "h", "other")):
            assert made[worker]("PUT", f"/v1/groups/{group}", {"actions": [action]}).status == 200
        yield made


def test_an_outcome_is_shown_to_those_who_may_know_of_it(wires: dict[str, Wire]) -> None:
    sent = wires["shop"]("POST", "/v1/actions/do_it", {"concerns": "item", "origin": "shop", "id": "a"})
    assert sent.status == 202
    for name in ALLOWED:
        assert wires[name].get("/v1/actions/a").status == 200, name
    for name in OTHERS:
        for path in ("/v1/actions/a", "/v1/actions/a?concerns=item"):
            answer = wires[name].get(path)
            assert (answer.status, answer.problem["code"]) == (404, "action_unknown"), name


def test_who_may_not_know_of_one_of_two_is_told_of_the_other(wires: dict[str, Wire]) -> None:
    for origin, thing in (("shop", "item"), ("bank", "other")):
        sent = {"concerns": thing, "origin": origin, "id": "twice"}
        assert wires[origin]("POST", "/v1/actions/do_it", sent).status == 202
    assert wires["bank"].get("/v1/actions/twice").json()["concerns"] == "other"
    assert wires["worker"].get("/v1/actions/twice").status == 400


def test_a_worker_may_know_of_the_actions_that_its_group_has_now(wires: dict[str, Wire]) -> None:
    assert wires["elsewhere"]("PUT", "/v1/groups/h", {"actions": ["moves"]}).status == 200
    sent = wires["shop"]("POST", "/v1/actions/moves", {"concerns": "item", "origin": "shop", "id": "moved"})
    assert sent.status == 202
    assert wires["operator"]("DELETE", "/v1/groups/h/actions/moves").status == 204
    assert wires["elsewhere"].get("/v1/actions/moved").status == 404
    assert wires["anywhere"].get("/v1/actions/moved").status == 200
    assert wires["worker"]("PUT", "/v1/groups/g", {"actions": ["moves"]}).status == 200
    assert wires["worker"].get("/v1/actions/moved").status == 200


def test_a_publisher_asks_for_its_own_origins_only(wires: dict[str, Wire]) -> None:
    body = {"concerns": "item", "origin": "shop"}
    assert wires["bank"]("POST", "/v1/actions/do_it", body).status == 403
    assert wires["bank"]("POST", "/v1/actions", {"actions": [{"action": "do_it", **body}]}).status == 403
    assert wires["item"]("POST", "/v1/actions/do_it", body).status == 403


def test_erased_is_told_to_those_who_may_know_of_the_thing(wires: dict[str, Wire]) -> None:
    sent = {"concerns": "item", "origin": "shop", "id": "gone"}
    assert wires["shop"]("POST", "/v1/actions/do_it", sent).status == 202
    assert wires["operator"]("DELETE", "/v1/recipients/item").status == 200
    assert wires["item"].get("/v1/actions/gone?concerns=item").status == 410
    assert wires["other"].get("/v1/actions/gone?concerns=item").status == 404
    assert wires["item"].get("/v1/actions/gone").status == 404
