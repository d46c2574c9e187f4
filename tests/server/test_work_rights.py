"""What a worker's token may do with the actions of other groups: nothing. It settles, fails, poisons and delays none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ipc

from restante.limits import FEW_ACTIONS_MAX
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import GroupSettings, Settings
from restante.wire.media import ARROW
from tests.server.wire import Answer, Wire

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, groups=GroupSettings(heartbeat_seconds=600))


class Place:
    """A hub with two groups of different workers: `owner` does the action pay, `thief` another one."""

    def __init__(self, served: ServedHub, wires: Mapping[str, Wire]) -> None:
        self.served = served
        self.wires = wires
        self.number = 0

    def member(self, group: str) -> tuple[str, int]:
        """The id of a new member in the place of the last one, and the generation of its partition."""
        joined = self.wires[group]("POST", f"/v1/groups/{group}/members", {"member": "m"}).json()
        return joined["member_id"], joined["partitions"][0]["generation"]

    def send(self, name: str = "pay") -> str:
        """Send an action; its id. Its number in the one partition is kept."""
        sent = self.wires["shop"]("POST", f"/v1/actions/{name}", {"concerns": "item", "origin": "shop"})
        assert sent.status == 202
        action_id: str = sent.json()["id"]
        changes = self.wires["operator"].get("/v1/partitions/0/feed").json()["changes"]
        (self.number,) = [change["sequence_number"] for change in changes if change["id"] == action_id]
        return action_id

    def read(self, who: str, group: str) -> list[str]:
        """The data of the mail and the actions that a new member is handed from the start of the partition."""
        joined = self.wires[who]("POST", f"/v1/groups/{group}/members", {"member": "m"}).json()
        given = joined["partitions"][0]
        after = [{"partition": 0, "generation": given["generation"], "position": 0}]
        path = f"/v1/groups/{group}/members/{joined['member_id']}/next"
        answer = self.wires[who]("POST", path, {"after": after})
        assert answer.status == 200, answer.body
        return [change["data"] for page in answer.json()["pages"] for change in page["changes"]]

    def hand_out(self, group: str) -> tuple[int, list[str]]:
        """The generation of a new member's partition, and the ids of the actions that it is handed from the start."""
        member_id, generation = self.member(group)
        after = [{"partition": 0, "generation": generation, "position": 0}]
        answer = self.wires[group]("POST", f"/v1/groups/{group}/members/{member_id}/next", {"after": after})
        assert answer.status == 200, answer.body
        return generation, [change["id"] for page in answer.json()["pages"] for change in page["changes"]]

    def report(self, group: str, generation: int, state: str, **given: Any) -> dict[str, Any]:
        outcome = {"sequence_number": self.number, "state": state, "attempts": 1, **given}
        body = {"generation": generation, "outcomes": [outcome]}
        answer = self.wires[group]("POST", f"/v1/groups/{group}/partitions/0/outcomes", body)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json()
        return found

    def seen(self, action_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.wires["operator"].get(f"/v1/actions/{action_id}").json()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secrets = {
        "shop": tokens.create(roles=[Role.PUBLISHER], origins=["shop"]),
        "owner": tokens.create(roles=[Role.WORKER], groups=["owner"]),
        "thief": tokens.create(roles=[Role.WORKER], groups=["thief"]),
        "fresh": tokens.create(roles=[Role.WORKER], groups=["fresh"]),
        "everywhere": tokens.create(roles=[Role.WORKER]),
        "reading": tokens.create(roles=[Role.WORKER, Role.READER], groups=["fresh"]),
        "operator": tokens.create(roles=[Role.OPERATOR]),
    }
    with start(folder, SETTINGS) as served:
        wires = {name: Wire(served.url, token=secret) for name, secret in secrets.items()}
        for group, action in (("owner", "pay"), ("thief", "other")):
            assert wires[group]("PUT", f"/v1/groups/{group}", {"actions": [action]}).status == 200
        yield Place(served, wires)
        for wire in wires.values():
            wire.close()


PROBLEM = {"problem": {"code": "broken", "detail": "It broke."}}
REPORTS: list[tuple[str, dict[str, Any]]] = [
    ("done", {"result": {"paid": True}, "location": "/forged"}),
    ("failed", PROBLEM),
    ("failed", {"problem": {"code": "action_unknown", "detail": ""}}),
    ("poisoned", PROBLEM),
    ("expired", {}),
    ("under_way", {}),
]


@pytest.mark.parametrize(("state", "given"), REPORTS, ids=lambda value: str(value)[:40])
def test_a_report_changes_no_action_of_another_group(place: Place, state: str, given: dict[str, Any]) -> None:
    action_id = place.send()
    before = place.seen(action_id)
    _, generation = place.member("thief")
    assert place.report("thief", generation, state, **given)["taken"] == 0
    assert place.seen(action_id) == before
    _, own = place.member("owner")
    assert place.report("owner", own, "done", location="/paid")["taken"] == 1
    assert place.seen(action_id)["location"] == "/paid"


@pytest.mark.parametrize(("state", "given"), [REPORTS[0], REPORTS[1], REPORTS[3], REPORTS[5]], ids=str)
def test_a_report_about_a_name_that_nobody_has_declared_only_says_that(
    place: Place, state: str, given: dict[str, Any]
) -> None:
    action_id = place.send("undeclared")
    before = place.seen(action_id)
    _, generation = place.member("thief")
    assert place.report("thief", generation, state, **given)["taken"] == 0
    assert place.seen(action_id) == before
    assert place.report("thief", generation, *REPORTS[2][:1], **REPORTS[2][1])["taken"] == 1
    assert place.seen(action_id)["problem"]["code"] == "action_unknown"


@pytest.mark.parametrize("arrow", [False, True], ids=["values", "columns"])
def test_what_was_handed_out_before_its_name_was_taken_back_may_be_reported(place: Place, *, arrow: bool) -> None:
    if arrow:  # More actions at once than are handed out as values.
        place.wires["shop"](
            "POST",
            "/v1/actions",
            {"actions": [{"action": "pay", "concerns": "other", "origin": "shop"} for _ in range(FEW_ACTIONS_MAX)]},
        )
    action_id = place.send()
    generation, handed = place.hand_out("owner")
    assert action_id in handed
    assert place.wires["operator"]("DELETE", "/v1/groups/owner/actions/pay").status == 204
    assert place.report("owner", generation, "done", location="/paid")["taken"] == 1
    assert place.seen(action_id)["state"] == "done"
    assert place.wires["thief"]("PUT", "/v1/groups/thief", {"actions": ["pay"]}).status == 200
    assert action_id not in place.hand_out("thief")[1]


@pytest.mark.parametrize("asked_by", ["owner", "thief"])
def test_what_was_handed_out_may_be_reported_whoever_is_shown_it_once_its_name_was_taken_back(
    place: Place, asked_by: str
) -> None:
    action_id = place.send()
    member, generation = place.member("owner")
    after = [{"partition": 0, "generation": generation, "position": 0}]
    asked = f"/v1/groups/owner/members/{member}/next"
    assert place.wires["owner"]("POST", asked, {"after": after}).json()["pages"]
    assert place.wires["operator"]("DELETE", "/v1/groups/owner/actions/pay").status == 204
    if asked_by == "thief":
        assert place.wires["thief"]("PUT", "/v1/groups/thief", {"actions": ["x"]}).status == 200
        assert place.hand_out("thief")[1] == [action_id]
    else:
        assert place.wires["owner"]("POST", asked, {"after": after}).status == 200
    assert place.report("owner", generation, "done", location="/paid")["taken"] == 1
    assert place.seen(action_id)["state"] == "done"


def test_what_another_generation_was_handed_may_not_be_reported_once_the_name_was_taken_back(place: Place) -> None:
    action_id = place.send()
    assert place.hand_out("owner")[1] == [action_id]
    assert place.wires["operator"]("DELETE", "/v1/groups/owner/actions/pay").status == 204
    assert place.wires["thief"]("PUT", "/v1/groups/thief", {"actions": ["pay"]}).status == 200
    _, generation = place.member("owner")
    assert place.report("owner", generation, "done", location="/forged")["taken"] == 0
    assert place.seen(action_id)["state"] == "accepted"


@pytest.mark.parametrize("accept", ["application/json", ARROW, f"{ARROW}, application/json;q=0.9"])
def test_of_an_action_that_nobody_has_declared_a_worker_gets_what_it_takes_to_report_it(
    place: Place, accept: str
) -> None:
    action = {"concerns": "item", "origin": "shop", "data": {"card": "secret-4711"}, "id": "order-7"}
    for name in ("undeclared", "other"):
        assert place.wires["shop"]("POST", f"/v1/actions/{name}", action | {"concerns": name}).status == 202
    member_id, generation = place.member("thief")
    asked = {"after": [{"partition": 0, "generation": generation, "position": 0}]}
    path = f"/v1/groups/thief/members/{member_id}/next"
    answer = place.wires["thief"]("POST", path, asked, headers={"accept": accept})
    assert answer.status == 200, answer.body
    assert answer.body.count(b"secret-4711") == 1, "its own"
    if accept == ARROW:
        rows = ipc.open_stream(answer.body).read_all().to_pylist()
        (row,) = [row for row in rows if row["owner"] == "nobody"]
        assert (row["data"], dict(row["properties"])) == (None, {"action": "undeclared"})
    else:
        (row,) = [row for page in answer.json()["pages"] for row in page["changes"] if row["owner"] == "nobody"]
        assert "data" not in row or row["data"] is None
        assert (row["recipient"], row["properties"]) == ("undeclared", {"action": "undeclared"})


def test_what_was_handed_out_as_undeclared_may_only_be_reported_so(place: Place) -> None:
    action_id = place.send("undeclared")
    generation, handed = place.hand_out("thief")
    assert handed == [action_id]
    assert place.report("thief", generation, "done")["taken"] == 0
    assert place.wires["owner"]("PUT", "/v1/groups/owner", {"actions": ["undeclared"]}).status == 200
    assert place.report("thief", generation, *REPORTS[2][:1], **REPORTS[2][1])["taken"] == 0
    assert place.seen(action_id)["state"] == "accepted"


def test_work_that_a_member_claims_counts_for_no_action_of_another_group(place: Place) -> None:
    action_id = place.send()
    running = [{"partition": 0, "sequence_number": place.number}]
    for _ in range(4):
        member_id, _ = place.member("thief")
        heartbeat = f"/v1/groups/thief/members/{member_id}/heartbeat"
        assert place.wires["thief"]("POST", heartbeat, {"running": running}).status == 200
        assert place.seen(action_id)["state"] == "accepted"
    seen = place.seen(action_id)
    assert (seen["state"], seen["deaths"]) == ("accepted", 0)


def test_what_a_member_works_on_is_said_by_its_own_group(place: Place) -> None:
    action_id = place.send()
    member_id, _ = place.member("owner")
    asked = {"after": [], "running": [{"partition": 0, "sequence_number": place.number}], "revision": 7}
    stolen = place.wires["thief"]("POST", f"/v1/groups/thief/members/{member_id}/next", asked)
    assert (stolen.status, stolen.problem["code"]) == (404, "member_unknown")
    assert place.seen(action_id)["state"] == "accepted"
    place.wires["owner"]("POST", f"/v1/groups/owner/members/{member_id}/next", asked)
    assert place.seen(action_id)["state"] == "under_way"


SECRET = {"recipient": "ada", "origin": "shop", "data": "secret"}


@pytest.mark.parametrize("who", ["fresh", "everywhere"])
@pytest.mark.parametrize("body", [{}, {"actions": []}, {"kinds": ["letter"]}, {"origins": ["shop"]}], ids=str)
def test_a_worker_makes_no_group_that_reads_the_feed(place: Place, who: str, body: dict[str, Any]) -> None:
    assert place.wires["shop"].publish(SECRET).status == 201
    refused = place.wires[who]("PUT", "/v1/groups/fresh", body)
    assert (refused.status, refused.problem["code"]) == (403, "forbidden")
    assert place.wires["operator"].get("/v1/groups/fresh").status == 404
    assert place.wires["operator"]("PUT", "/v1/groups/fresh", body).status == 200
    assert place.wires[who]("PUT", "/v1/groups/fresh", body).status == 200


@pytest.mark.parametrize("who", ["operator", "reading"])
def test_whoever_may_read_the_feed_makes_a_group_that_does(place: Place, who: str) -> None:
    assert place.wires["shop"].publish(SECRET).status == 201
    assert place.wires[who]("PUT", "/v1/groups/fresh", {"origins": ["shop"]}).status == 200
    assert place.read("fresh", "fresh") == ["secret"]


def test_a_group_of_actions_reads_no_mail_when_it_has_none_left(place: Place) -> None:
    assert place.wires["shop"].publish(SECRET).status == 201
    place.send()
    assert place.read("thief", "thief") == []
    assert place.wires["operator"]("DELETE", "/v1/groups/thief/actions/other").status == 204
    assert place.read("thief", "thief") == []
    assert place.wires["thief"]("PUT", "/v1/groups/thief", {"actions": ["again"]}).status == 200
    assert place.read("thief", "thief") == []


@pytest.mark.parametrize("who", ["fresh", "everywhere", "operator"])
def test_a_group_that_reads_the_feed_becomes_one_of_actions_only_if_an_operator_changes_it(
    place: Place, who: str
) -> None:
    operator, named = place.wires["operator"], {"actions": ["z"]}
    assert place.wires["shop"].publish(SECRET).status == 201
    assert operator("PUT", "/v1/groups/fresh", {}).status == 200
    refused = place.wires[who]("PUT", "/v1/groups/fresh", named)
    assert (refused.status, refused.problem["code"]) == (409, "group_conflict")
    assert "change=true" in refused.problem["detail"]
    assert place.read("fresh", "fresh") == ["secret"]
    assert operator("PUT", "/v1/groups/fresh?change=true", named).status == 200
    assert place.wires[who]("PUT", "/v1/groups/fresh", named).status == 200
    assert place.read("fresh", "fresh") == []


def test_an_operator_turns_a_group_without_actions_back_into_one_that_reads_the_feed(place: Place) -> None:
    operator = place.wires["operator"]
    assert place.wires["shop"].publish(SECRET).status == 201
    assert place.read("thief", "thief") == []
    assert operator("PUT", "/v1/groups/thief?change=true", {}).status == 200
    assert place.read("thief", "thief") == []
    assert operator("DELETE", "/v1/groups/thief/actions/other").status == 204
    assert operator("PUT", "/v1/groups/thief", {}).status == 200
    assert place.read("thief", "thief") == []
    assert operator("PUT", "/v1/groups/thief?change=true", {}).status == 200
    assert place.read("thief", "thief") == ["secret"]


def test_who_may_make_a_group_that_reads_the_feed_is_said(place: Place) -> None:
    refused = place.wires["fresh"]("PUT", "/v1/groups/fresh", {}).problem["detail"]
    assert "operator" in refused
    assert "reader beside worker" in refused


def test_a_token_with_its_share_of_groups_is_refused_and_others_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.limits.GROUPS_OF_OWNER_MAX", 3)

    def made(who: str, group: str) -> Answer:
        return place.wires[who]("PUT", f"/v1/groups/{group}", {"actions": [f"{group}-does"]})

    assert [made("everywhere", f"g{number}").status for number in range(4)] == [200, 200, 200, 400]
    refused = made("everywhere", "g3").problem
    assert (refused["code"], "3 groups" in refused["detail"]) == ("invalid_request", True)
    assert made("everywhere", "g0").status == 200
    assert made("fresh", "fresh").status == 200
    assert [made("operator", f"o{number}").status for number in range(4)] == [200] * 4
    assert place.wires["operator"]("DELETE", "/v1/groups/g0").status == 204
    assert made("everywhere", "g3").status == 200


def test_a_token_with_its_share_of_names_is_refused_and_others_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.limits.ACTIONS_OF_OWNER_MAX", 3)

    def named(who: str, group: str, *names: str) -> Answer:
        return place.wires[who]("PUT", f"/v1/groups/{group}", {"actions": names})

    assert named("everywhere", "g0", "a", "b").status == 200
    assert named("everywhere", "g1", "c").status == 200
    for group in ("g1", "g2"):
        refused = named("everywhere", group, "d")
        assert (refused.status, refused.problem["code"], "3" in refused.problem["detail"]) == (
            *(400, "invalid_request", True),
        )
    assert named("everywhere", "g1", "c").status == 200
    assert named("fresh", "fresh", "d", "e", "f").status == 200
    assert named("operator", "o", *map(str, range(10))).status == 200
    assert place.wires["operator"]("DELETE", "/v1/groups/g0/actions/b").status == 204
    assert named("everywhere", "g1", "b").status == 200
