"""Whose things are whose: every route for every role, and what a publisher finds of things that are another's.

Each route says in `TOUCHES` what it touches. Of those that touch a batch, a consignment or a producer group, each is
tried as a foreign publisher would: by an id that is another's, and by one that nobody has. Both answers are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from restante.hub.doctor.doctor import examine
from restante.model.access.access import Role
from restante.model.storage.partition import partition_of
from restante.server.access.tokens import TokenFile
from restante.server.app import ROUTES, SOCKETS
from restante.server.serve import ServedHub, start
from restante.stores.sqlite import SqliteStore
from tests.server.test_access import ALLOWED, LETTERS, OPEN
from tests.server.wire import Answer, Wire

NOBODYS = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"
HOME = partition_of("ada", 16)
GROUP = 7

READERS = "a group of readers"
BATCH, CONSIGNMENT, PRODUCER, SOURCE, JOB = "a batch", "a consignment", "a producer group", "a source", "a job"
ACTION = "an action of its own origins"
MAIL, RECIPIENT, HUB, NOTHING = "mail of its own origins", "a recipient's mail", "the whole hub", "nothing"
TOUCHES: dict[str, tuple[str, ...]] = {
    "POST /v1/messages": (MAIL, BATCH, SOURCE),
    "POST /v1/sends": (MAIL,),
    "GET /v1/groups": (READERS,),
    "PUT /v1/groups/{group}": (READERS,),
    "GET /v1/groups/{group}": (READERS,),
    "DELETE /v1/groups/{group}": (READERS,),
    "DELETE /v1/groups/{group}/actions/{action}": (READERS,),
    "POST /v1/groups/{group}/pause": (READERS,),
    "POST /v1/groups/{group}/resume": (READERS,),
    "POST /v1/groups/{group}/members": (READERS,),
    "DELETE /v1/groups/{group}/members/{member}": (READERS,),
    "POST /v1/groups/{group}/members/{member}/heartbeat": (READERS,),
    "POST /v1/groups/{group}/members/{member}/next": (READERS,),
    "PUT /v1/groups/{group}/positions/{partition}": (READERS,),
    "POST /v1/groups/{group}/positions/{partition}/reset": (READERS,),
    "GET /v1/health": (HUB,),
    "POST /v1/tickets": (RECIPIENT,),
    "POST /v1/partitions/{partition}/parcels": (MAIL, BATCH, PRODUCER, SOURCE),
    "GET /v1/publish": (MAIL, BATCH, PRODUCER, SOURCE),
    "POST /v1/partitions/{partition}/links": (PRODUCER,),
    "GET /v1/partitions/{partition}/producers/{group}": (PRODUCER,),
    "GET /v1/partitions/{partition}/producers": (PRODUCER,),
    "GET /v1/backplane": (HUB,),
    "GET /v1/backplane/refused": (HUB,),
    "GET /v1/backplane/refused/{partition}/{position}": (HUB,),
    "POST /v1/backplane/refused/{partition}/{position}/again": (HUB,),
    "DELETE /v1/backplane/refused/{partition}/{position}": (HUB,),
    "GET /v1/sources": (SOURCE,),
    "GET /v1/sources/{source}": (SOURCE,),
    "POST /v1/sources/{source}/reset": (HUB,),
    "DELETE /v1/sources/{source}": (HUB,),
    "GET /v1/jobs": (JOB,),
    "GET /v1/jobs/{job}": (JOB,),
    "PUT /v1/jobs/{job}": (JOB,),
    "GET /v1/jobs/{job}/runs": (JOB,),
    "GET /v1/jobs/{job}/runs/{run}": (JOB,),
    "DELETE /v1/jobs/{job}": (HUB,),
    "POST /v1/batches": (BATCH,),
    "GET /v1/batches": (BATCH,),
    "POST /v1/batches/reap": (HUB,),
    "GET /v1/batches/{batch}": (BATCH,),
    "DELETE /v1/batches/{batch}": (BATCH,),
    "POST /v1/batches/{batch}/items": (BATCH,),
    "POST /v1/batches/{batch}/seal": (BATCH,),
    "GET /v1/batches/{batch}/pending": (BATCH,),
    "GET /v1/batches/{batch}/progress": (BATCH,),
    "GET /v1/batches/{batch}/wait": (BATCH,),
    "POST /v1/acknowledgements": (BATCH,),
    "POST /v1/consignments": (CONSIGNMENT,),
    "GET /v1/consignments": (CONSIGNMENT,),
    "GET /v1/consignments/{consignment}": (CONSIGNMENT,),
    "DELETE /v1/consignments/{consignment}": (CONSIGNMENT,),
    "POST /v1/consignments/{consignment}/parcels": (MAIL, CONSIGNMENT),
    "POST /v1/consignments/{consignment}/commit": (CONSIGNMENT,),
    "GET /v1/recipients": (HUB,),
    "GET /v1/recipients/{recipient}/peek": (RECIPIENT,),
    "DELETE /v1/recipients/{recipient}/bundles/{bundle_id}": (RECIPIENT,),
    "GET /v1/recipients/{recipient}/explain": (RECIPIENT,),
    "GET /v1/recipients/{recipient}/messages": (RECIPIENT,),
    "GET /v1/recipients/{recipient}/messages/{id}": (RECIPIENT,),
    "DELETE /v1/recipients/{recipient}/messages/{id}": (HUB,),
    "POST /v1/recipients/{recipient}/messages/{id}/set-aside": (HUB,),
    "POST /v1/recipients/{recipient}/messages/{id}/release": (HUB,),
    "POST /v1/recipients/{recipient}/purge": (HUB,),
    "DELETE /v1/recipients/{recipient}": (HUB,),
    "GET /v1/recipients/{recipient}/live": (RECIPIENT, MAIL),
    "GET /v1/recipients/{recipient}/partition": (NOTHING,),
    "GET /v1/partitions": (NOTHING,),
    "GET /v1/partitions/{partition}": (NOTHING,),
    "GET /v1/partitions/{partition}/feed": (HUB,),
    "GET /v1/partitions/{partition}/snapshot": (HUB,),
    "POST /v1/maintenance/file": (HUB,),
    "POST /v1/maintenance/expire": (HUB,),
    "POST /v1/maintenance/retain": (HUB,),
    "GET /v1/backup": (HUB,),
    "GET /metrics": (HUB,),
    "POST /v1/actions": (ACTION, BATCH),
    "POST /v1/actions/{action}": (ACTION,),
    "GET /v1/actions/{action}": (ACTION,),
    "POST /v1/groups/{group}/partitions/{partition}/outcomes": (READERS,),
    "POST /v1/groups/{group}/outcomes": (READERS,),
    "GET /v1/groups/{group}/poison": (READERS,),
    "POST /v1/groups/{group}/poison/{id}/again": (READERS,),
    "DELETE /v1/groups/{group}/poison/{id}": (READERS,),
    "GET /v1/rates": (HUB,),
    "GET /v1/settings": (HUB,),
    "GET /v1/live": (HUB,),
    "GET /v1/tokens": (HUB,),
    "POST /v1/tokens": (HUB,),
    "DELETE /v1/tokens/{token}": (HUB,),
    "GET /v1/whoami": (NOTHING,),
    "GET /v1/nodes": (NOTHING,),
    "POST /v1/nodes/{node}/drain": (HUB,),
    "GET /v1/rounds": (HUB,),
}
SOCKETS_ALLOWED = {"GET /v1/publish": "po", "GET /v1/recipients/{recipient}/live": "xo"}
OWNED = {BATCH, CONSIGNMENT, PRODUCER, SOURCE, JOB}


def name(route: Any) -> str:
    return f"{route.method} {route.path}"


def test_every_route_says_what_it_touches_and_for_whom() -> None:
    routes = [*ROUTES, *SOCKETS]
    guarded = {name(route) for route in routes if route.roles is not None}
    assert TOUCHES.keys() == guarded
    assert {name(route) for route in routes if route.roles is None and not route.path.startswith("/docs/")} == OPEN
    for route in routes:
        if route.roles is not None:
            letters = (SOCKETS_ALLOWED if route in SOCKETS else ALLOWED)[name(route)]
            assert {LETTERS[letter] for letter in letters} == route.roles | {Role.OPERATOR}, name(route)


def test_what_touches_the_whole_hub_is_not_for_publishers() -> None:
    for route in [*ROUTES, *SOCKETS]:
        if route.roles is not None and Role.PUBLISHER in route.roles:
            assert not {HUB, RECIPIENT} & set(TOUCHES[name(route)]), name(route)


@dataclass
class World:
    """Publishers of the origins a and b, tokens without origins, an operator, a reader; and things of the first."""

    running: ServedHub
    secrets: dict[str, str]
    wires: dict[str, Wire] = field(default_factory=dict)

    def __getitem__(self, who: str) -> Wire:
        if who not in self.wires:
            self.wires[who] = Wire(self.running.url, token=self.secrets[who])
        return self.wires[who]

    def batch(self, who: str = "a", **wish: object) -> str:
        answer = self[who]("POST", "/v1/batches", wish)
        assert answer.status == 201, answer
        batch: str = answer.json()["id"]
        return batch

    def items(self, batch: str, who: str = "a") -> str:
        """The first of two items."""
        group = self[who]("POST", f"/v1/batches/{batch}/items", {"count": 2}).json()["groups"][0]["id"]
        return f"{batch}:{group}:0"

    def consignment(self, who: str = "a", key: str = "night", **wish: object) -> dict[str, Any]:
        answer = self[who]("POST", "/v1/consignments", {"key": key, **wish})
        assert answer.status in (200, 201), answer
        opened: dict[str, Any] = answer.json()
        return opened

    def stage(self, consignment: str, who: str = "a", *, parcel: int = 0) -> Answer:
        path = f"/v1/consignments/{consignment}/parcels?writer=w&attempt=0&parcel={parcel}"
        return self[who]("POST", path, {"messages": [message(self.origin(who), parcel)]})

    def numbered(self, who: str, first: int, *, group: int = GROUP, level: int = 0) -> Answer:
        headers = {
            "restante-producer-group": str(group),
            "restante-owner-level": str(level),
            "restante-published-sequence": str(first),
        }
        body = {"messages": [message(self.origin(who), [who, first])]}
        return self[who]("POST", f"/v1/partitions/{HOME}/parcels", body, headers=headers)

    def origin(self, who: str) -> str:
        return who[0] if who[0] in "ab" else "default"


def message(origin: str, data: object) -> dict[str, object]:
    return {"recipient": "ada", "origin": origin, "data": data}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    publisher = [Role.PUBLISHER]
    secrets = {
        "a": tokens.create(roles=publisher, origins=["a"]),
        "a again": tokens.create(roles=publisher, origins=["a"]),
        "b": tokens.create(roles=publisher, origins=["b"]),
        "ab": tokens.create(roles=publisher, origins=["a", "b"]),
        "free": tokens.create(roles=publisher),
        "other free": tokens.create(roles=publisher),
        "operator": tokens.create(roles=[Role.OPERATOR]),
        "reader": tokens.create(roles=[Role.READER]),
    }
    with start(folder) as running:
        world = World(running, secrets)
        yield world
        for wire in world.wires.values():
            wire.close()


def told(answer: Answer, own: str) -> tuple[int, object]:
    """What an answer says, whatever the thing is called that it says it of."""
    if not answer.body:
        return answer.status, None
    body = json.loads(answer.body.decode().replace(own, "…"))
    body.pop("correlation_id", None)
    return answer.status, body


Attempt = Callable[[World, str, str], Answer]


def calling(method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Attempt:
    def attempt(world: World, who: str, own: str) -> Answer:
        named = {key: value.replace("…", own) for key, value in (headers or {}).items()}
        text = None if body is None else json.loads(json.dumps(body, ensure_ascii=False).replace("…", own))
        return world[who](method, path.replace("…", own), text, headers=named)

    return attempt


def framed(world: World, who: str, own: str) -> Answer:
    url = world.running.url.replace("http", "ws") + "/v1/publish"
    with connect(url, additional_headers={"Authorization": f"Bearer {world.secrets[who]}"}) as link:
        link.send(json.dumps({"number": 1, "batch": own, "messages": [message(world.origin(who), 1)]}))
        problem = json.loads(link.recv(timeout=30)).get("problem", {"status": 201})
    return Answer(problem["status"], {}, json.dumps(problem).encode())


B_MAIL = {"messages": [message("b", 1)]}
BY_BATCH: dict[str, Attempt] = {
    "POST /v1/messages": calling("POST", "/v1/messages", B_MAIL, {"restante-batch": "…"}),
    "POST /v1/partitions/{partition}/parcels": calling(
        "POST", f"/v1/partitions/{HOME}/parcels", B_MAIL, {"restante-batch": "…"}
    ),
    "GET /v1/publish": framed,
    "POST /v1/actions": calling(
        "POST",
        "/v1/actions",
        {"actions": [{"action": "count", "concerns": "ada", "origin": "b"}]},
        {"restante-batch": "…"},
    ),
    "GET /v1/batches/{batch}": calling("GET", "/v1/batches/…"),
    "DELETE /v1/batches/{batch}": calling("DELETE", "/v1/batches/…"),
    "POST /v1/batches/{batch}/items": calling("POST", "/v1/batches/…/items", {"count": 1}),
    "POST /v1/batches/{batch}/seal": calling("POST", "/v1/batches/…/seal"),
    "GET /v1/batches/{batch}/pending": calling("GET", "/v1/batches/…/pending"),
    "GET /v1/batches/{batch}/progress": calling("GET", "/v1/batches/…/progress"),
    "GET /v1/batches/{batch}/wait": calling("GET", "/v1/batches/…/wait?seconds=0"),
    "POST /v1/acknowledgements": calling(
        "POST",
        "/v1/acknowledgements",
        {
            "items": ["…:0:0"],
            "indices": [{"group": "…:0", "indices": [1]}],
            "ranges": [{"group": "…:0", "from": 0, "upto": 2}],
        },
    ),
}
BY_CONSIGNMENT: dict[str, Attempt] = {
    "GET /v1/consignments/{consignment}": calling("GET", "/v1/consignments/…"),
    "DELETE /v1/consignments/{consignment}": calling("DELETE", "/v1/consignments/…"),
    "POST /v1/consignments/{consignment}/parcels": calling(
        "POST", "/v1/consignments/…/parcels?writer=w&attempt=0&parcel=0", B_MAIL
    ),
    "POST /v1/consignments/{consignment}/commit": calling("POST", "/v1/consignments/…/commit", {"writers": []}),
}
BY_NAME = {
    "POST /v1/batches",
    "GET /v1/batches",
    "POST /v1/consignments",
    "GET /v1/consignments",
    "POST /v1/partitions/{partition}/links",
    "GET /v1/sources",
    "GET /v1/jobs",
    "GET /v1/jobs/{job}",
    "PUT /v1/jobs/{job}",
    "GET /v1/jobs/{job}/runs",
    "GET /v1/jobs/{job}/runs/{run}",
    "GET /v1/sources/{source}",
    "GET /v1/partitions/{partition}/producers/{group}",
    "GET /v1/partitions/{partition}/producers",
}
"""Tried one by one below: lists, and names that everybody may choose."""


def test_every_route_that_touches_somebodys_things_is_tried() -> None:
    assert {route for route, touched in TOUCHES.items() if OWNED & set(touched)} == (
        BY_BATCH.keys() | BY_CONSIGNMENT.keys() | BY_NAME
    )


def test_another_publishers_batch_is_not_there(world: World) -> None:
    batch = world.batch(key="night", notify="ada")
    world.items(batch)
    for route, attempt in BY_BATCH.items():
        foreign = told(attempt(world, "b", batch), batch)
        assert (route, foreign) == (route, told(attempt(world, "b", NOBODYS), NOBODYS))
        if route != "POST /v1/acknowledgements":
            assert (route, foreign[0], foreign[1]["code"]) == (route, 404, "batch_unknown")  # type: ignore[index]
        else:
            assert (foreign[0], foreign[1]["acknowledged"]) == (200, 0)  # type: ignore[index]
            assert foreign[1]["unknown"] == ["…:0:0", "…:0:1", {"group": "…:0", "from": 0, "upto": 2}]  # type: ignore[index]
    shown = world["a"].get(f"/v1/batches/{batch}").json()
    assert (shown["state"], shown["items"], shown["pending"]) == ("open", 2, 2)
    assert world["a"].get("/v1/batches").json()["batches"] == [shown]
    assert world["b"].get("/v1/batches").json() == {"batches": [], "next": None}


def test_another_publishers_sealed_or_complete_batch_is_not_there_either(world: World) -> None:
    batch = world.batch()
    assert world["a"]("POST", f"/v1/batches/{batch}/seal").json() == {"complete": True}
    for attempt in BY_BATCH.values():
        assert told(attempt(world, "b", batch), batch) == told(attempt(world, "b", NOBODYS), NOBODYS)


def test_another_publishers_source_is_not_there(world: World) -> None:
    sent = {"messages": [{**message("a", 1), "source_position": 5}]}
    assert world["a"]("POST", "/v1/messages", sent, headers={"restante-source": "log"}).json()["accepted"] == 1
    assert world["b"].get("/v1/sources/log").problem["code"] == "source_unknown"
    assert world["b"].get("/v1/sources").json() == {"sources": [], "next": None}
    own = world["a again"].get("/v1/sources/log").json()
    assert (own["position"], world["reader"].get("/v1/sources").json()["sources"]) == (5, [own])


def test_another_publishers_job_is_not_there(world: World) -> None:
    run = {"run": 1, "state": "running", "began_at": "2030-01-31T12:00:00Z"}
    assert world["a"]("PUT", "/v1/jobs/export", {"run": run}).status == 200
    for path in ("/v1/jobs/export", "/v1/jobs/export/runs", "/v1/jobs/export/runs/1"):
        assert world["b"].get(path).problem["code"] == "job_unknown"
        assert world["a again"].get(path).status == 200
    assert world["b"].get("/v1/jobs").json() == {"jobs": [], "next": None}
    assert world["b"]("PUT", "/v1/jobs/export", {"run": {**run, "run": 2}}).json()["runs"] == 1
    assert len(world["reader"].get("/v1/jobs").json()["jobs"]) == 2


def test_another_publishers_consignment_is_not_there(world: World) -> None:
    opened = world.consignment(batch=True)
    consignment = opened["id"]
    assert world.stage(consignment).status == 201
    for route, attempt in BY_CONSIGNMENT.items():
        foreign = told(attempt(world, "b", consignment), consignment)
        assert (route, foreign) == (route, told(attempt(world, "b", NOBODYS), NOBODYS))
        assert (route, foreign[0], foreign[1]["code"]) == (route, 404, "consignment_unknown")  # type: ignore[index]
    assert world["b"].get("/v1/consignments").json() == {"consignments": [], "next": None}
    assert world["b"].get(f"/v1/batches/{opened['batch']}").problem["code"] == "batch_unknown"
    writers = {"writers": [{"writer": "w", "attempt": 0, "messages": 1}]}
    assert world["a"]("POST", f"/v1/consignments/{consignment}/commit", writers).json()["accepted"] == 1
    for attempt in BY_CONSIGNMENT.values():
        assert told(attempt(world, "b", consignment), consignment) == told(attempt(world, "b", NOBODYS), NOBODYS)
    assert world["a"].get(f"/v1/batches/{opened['batch']}").json()["items"] == 1


def test_keys_are_the_owners_own(world: World) -> None:
    first, second = world.consignment("a"), world.consignment("b")
    assert first["id"] != second["id"]
    assert world.consignment("a again") == first
    assert world.consignment("b") == second
    assert world.consignment("ab")["id"] not in (first["id"], second["id"])
    for who in ("a", "b", "free", "other free", "operator"):
        batch = world.batch(who, key="one", unique=True)
        problem = world[who]("POST", "/v1/batches", {"key": "one", "unique": True}).problem
        assert (problem["code"], problem["batch"]) == ("batch_key_used", batch)
    assert world["a again"]("POST", "/v1/batches", {"key": "one", "unique": True}).status == 409


def test_tokens_of_the_same_origins_are_one_owner(world: World) -> None:
    batch = world.batch("a")
    item = world.items(batch, "a again")
    assert world["a again"]("POST", "/v1/acknowledgements", {"items": [item]}).json()["acknowledged"] == 1
    assert world["ab"].get(f"/v1/batches/{batch}").status == 404
    assert world["free"].get(f"/v1/batches/{batch}").status == 404


def test_a_token_without_origins_owns_what_it_makes(world: World) -> None:
    batch, consignment = world.batch("free"), world.consignment("free")["id"]
    assert world["free"].get(f"/v1/batches/{batch}").status == 200
    for other in ("other free", "a"):
        assert world[other].get(f"/v1/batches/{batch}").status == 404
        assert world[other].get(f"/v1/consignments/{consignment}").status == 404


def test_what_an_operator_made_is_for_those_who_are_bound_to_no_origins(world: World) -> None:
    batch, opened = world.batch("operator"), world.consignment("operator")
    for who, status in (("free", 200), ("other free", 200), ("a", 404)):
        assert world[who].get(f"/v1/batches/{batch}").status == status
        assert world[who].get(f"/v1/consignments/{opened['id']}").status == status
    assert world.consignment("free") == opened
    assert world.consignment("a")["id"] != opened["id"]


def test_an_operator_may_use_everything_and_a_reader_see_it(world: World) -> None:
    batch, opened = world.batch(key="night"), world.consignment(batch=True)
    item = world.items(batch)
    for who in ("operator", "reader"):
        assert {one["id"] for one in world[who].get("/v1/batches").json()["batches"]} == {batch, opened["batch"]}
        assert [one["id"] for one in world[who].get("/v1/consignments").json()["consignments"]] == [opened["id"]]
        for path in ("", "/pending", "/progress"):
            assert world[who].get(f"/v1/batches/{batch}{path}").status == 200
    assert world["operator"]("POST", "/v1/acknowledgements", {"items": [item]}).json()["acknowledged"] == 1
    assert world["operator"]("DELETE", f"/v1/consignments/{opened['id']}").status == 204
    assert world["operator"]("DELETE", f"/v1/batches/{batch}").status == 204
    assert world["a"].get(f"/v1/batches/{batch}").status == 404


def producers(world: World, who: str) -> list[tuple[int, int, object]]:
    shown = world[who].get(f"/v1/partitions/{HOME}/producers").json()["producers"]
    return [(one["producer_group"], one["owner_level"], one["last_published_sequence_number"]) for one in shown]


def test_producer_groups_of_the_same_number_do_not_meet(world: World) -> None:
    assert [world.numbered("a", first).status for first in (0, 1)] == [201, 201]
    assert world["b"].get(f"/v1/partitions/{HOME}/producers/{GROUP}").problem["code"] == "producer_unknown"
    assert producers(world, "b") == []
    link = {"producer_group": GROUP, "owner_level": 5}
    assert world["b"]("POST", f"/v1/partitions/{HOME}/links", link).json()["last_published_sequence_number"] is None
    offered = {"producer_group": GROUP + 1, "last_published_sequence_number": 1}
    assert world["b"]("POST", f"/v1/partitions/{HOME}/links", offered).problem["code"] == "link_refused"
    assert world.numbered("b", 0, level=5).status == 201
    # Neither fenced off, nor answered with another's receipt.
    assert world.numbered("a again", 2).status == 201
    assert world.numbered("a again", 2).json()["replayed"]
    assert producers(world, "a") == [(GROUP, 0, 2)]
    assert producers(world, "b") == [(GROUP, 5, 0)]
    assert sorted(producers(world, "operator")) == sorted(producers(world, "reader")) == [(GROUP, 0, 2), (GROUP, 5, 0)]


def test_a_producer_group_of_a_frame_is_the_tokens_own(world: World) -> None:
    assert world.numbered("a", 0).status == 201
    url = world.running.url.replace("http", "ws") + "/v1/publish"
    with connect(url, additional_headers={"Authorization": f"Bearer {world.secrets['b']}"}) as link:
        for first in (0, 1):
            producer = {"group": GROUP, "owner_level": 3, "published_sequence": first}
            frame = {"number": first, "partition": HOME, "producer": producer, "messages": [message("b", first)]}
            link.send(json.dumps(frame))
        assert [json.loads(link.recv(timeout=30))["accepted"] for _ in range(2)] == [1, 1]
    assert producers(world, "a") == [(GROUP, 0, 0)]
    assert producers(world, "b") == [(GROUP, 3, 1)]


def test_producer_groups_are_listed_page_by_page(world: World) -> None:
    for who in ("a", "b", "free"):
        for group in (1, 2):
            assert world.numbered(who, 0, group=group).status == 201
    for who, expected in (("a", [1, 2]), ("free", [1, 2]), ("operator", [1, 1, 1, 2, 2, 2])):
        found, after = [], ""
        while True:
            page = world[who].get(f"/v1/partitions/{HOME}/producers?limit=1{after}").json()
            found += page["producers"]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert [one["producer_group"] for one in found] == expected
        assert len({one["owner"] for one in found}) == len(expected) / 2


def test_a_producer_group_that_nobody_owns_goes_on_with_a_token_without_origins(world: World) -> None:
    assert world.numbered("operator", 0).status == 201
    assert world.numbered("free", 1).status == 201
    assert world.numbered("a", 1).problem["expected"] == 0
    assert producers(world, "operator") == [(GROUP, 0, 1)]


def test_owners_outlive_a_restart_and_the_doctor_finds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secrets = {who: tokens.create(roles=[Role.PUBLISHER], origins=[who]) for who in "ab"}
    with start(folder) as running:
        world = World(running, secrets)
        batch, opened = world.batch(key="k", unique=True), world.consignment(batch=True)
        assert world.stage(opened["id"]).status == 201
        assert world.numbered("a", 0).status == 201
    with start(folder) as running:
        world = World(running, secrets)
        assert world["b"].get(f"/v1/batches/{batch}").status == 404
        assert world.consignment("a") == opened
        assert world.consignment("b")["id"] != opened["id"]
        assert world["a"]("POST", "/v1/batches", {"key": "k", "unique": True}).status == 409
        assert world["b"]("POST", "/v1/batches", {"key": "k", "unique": True}).status == 201
        assert world.numbered("a", 1).status == 201
        assert world.numbered("b", 0).status == 201
    with closing(SqliteStore.open(folder)) as store:
        assert examine(store).sound
