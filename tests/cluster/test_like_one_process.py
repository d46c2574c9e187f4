"""What a door answers is what one process answers: refusals of whole sends, limits, orders, pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from websockets.sync.client import connect

from restante.limits import ACKNOWLEDGED_CALLS_MAX
from restante.model.storage.partition import partition_of
from tests.cluster.several import SeveralHub
from tests.cluster.test_doors import names
from tests.server.live import Talk
from tests.server.wire import Wire

LATER = "2099-01-01T00:00:00Z"
HERE, THERE = names(0)[0], names(3)[0]
NOBODY = "00000000-0000-7000-8000-00000000000"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path_factory.mktemp("several") / "data")
    yield running
    running.stop()


@pytest.fixture
def wire(several: SeveralHub) -> Iterator[Wire]:
    wire = Wire(several.url)
    yield wire
    wire.close()


def _to_both(**fields: object) -> list[dict[str, object]]:
    """A message that is right in one shard, and one with these fields in another."""
    return [{"recipient": THERE, "data": 1}, {"recipient": HERE, "data": 1, **fields}]


@pytest.mark.parametrize(
    ("messages", "header", "code"),
    [
        (_to_both(source_position=1), None, "invalid_message"),
        (_to_both(source_position=1), "restante-source", "invalid_message"),
        (
            [{**own, "source_position": 9 - place} for place, own in enumerate(_to_both())],
            "restante-source",
            "invalid_message",
        ),
        (
            [{**own, "source_position": 1} for own in _to_both(visible_at=LATER)],
            "restante-source",
            "invalid_request",
        ),
        (_to_both(visible_at=LATER), "restante-batch", "invalid_request"),
    ],
    ids=["no source", "no position", "descending", "delayed with a source", "delayed with a batch"],
)
def test_a_send_that_is_wrong_as_a_whole_is_stored_in_no_shard(
    wire: Wire, messages: list[dict[str, object]], header: str | None, code: str
) -> None:
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    headers: Mapping[str, str] = {} if header is None else {header: batch}
    refused = wire("POST", "/v1/messages", {"messages": messages}, headers=headers)
    assert (refused.status, refused.problem["code"]) == (400, code)
    assert "partitions" not in refused.problem
    assert wire.get(f"/v1/recipients/{THERE}/messages").json()["messages"] == []


@pytest.mark.parametrize(
    "fields", [{"kind": "action"}, {"visible_at": LATER}, {"source_position": 1}], ids=["action", "delayed", "source"]
)
def test_a_consignment_takes_no_more_through_a_door_than_in_one_process(wire: Wire, fields: dict[str, object]) -> None:
    opened = wire("POST", "/v1/consignments", {"key": str(fields)}).json()["id"]
    place = f"/v1/consignments/{opened}"
    refused = wire("POST", f"{place}/parcels?writer=w&attempt=0&parcel=0", _to_both(**fields))
    assert (refused.status, refused.problem["code"][:7]) == (400, "invalid")
    assert wire.get(place).json()["staged_messages"] == 0


@pytest.mark.parametrize("numbered", [False, True])
def test_a_parcel_with_a_field_of_another_shape_is_told_as_such(wire: Wire, *, numbered: bool) -> None:
    wire.publish({"recipient": HERE, "data": 1, "id": "known"})
    numbers = {"restante-producer-group": "7", "restante-owner-level": "0", "restante-published-sequence": "0"}
    sent = [
        {"recipient": HERE, "data": 1, "weight": "heavy"},
        {"recipient": THERE, "data": 1},
        {"recipient": HERE, "data": 2, "id": "known"},
    ]
    path = f"/v1/partitions/{partition_of(HERE, 16)}/parcels"
    refused = wire("POST", path, {"messages": sent}, headers=numbers if numbered else {})
    told = [(fault["index"], fault["code"]) for fault in refused.problem["errors"]]
    assert told == [(0, "invalid_message"), (1, "partition_mismatch"), (2, "message_conflict")]


def test_a_limit_below_one_is_refused_as_in_one_process(wire: Wire) -> None:
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    for path in ("batches", "consignments", "sources", "groups", "recipients", f"batches/{batch}/progress"):
        refused = wire.get(f"/v1/{path}?limit=0").problem
        assert (refused["parameter"], refused["detail"]) == ("limit", "limit must be at least 1, not 0.")


def test_an_order_that_there_is_not_is_refused_as_in_one_process(wire: Wire) -> None:
    assert wire.get("/v1/recipients?order=x").problem["detail"] == "order must be waiting or oldest, not 'x'."


def test_faults_of_actions_are_named_by_their_place_in_the_body(wire: Wire) -> None:
    for name in (HERE, THERE):
        wire("POST", "/v1/actions/paint", {"concerns": name, "id": "known"})
    sent: list[dict[str, object]] = [
        {"action": "paint", "concerns": name, "id": f"new {name}"} for shard in (0, 3) for name in names(shard, 3)
    ]
    sent += [{"action": "paint", "concerns": name, "id": "known", "data": {"other": 1}} for name in (THERE, HERE)]
    refused = wire("POST", "/v1/actions", {"actions": sent})
    assert (refused.status, [fault["index"] for fault in refused.problem["errors"]]) == (409, [6, 7])


def test_a_parameter_that_all_shards_refuse_is_refused_as_in_one_process(wire: Wire) -> None:
    refused = wire.get("/v1/health?history=x")
    assert (refused.status, refused.problem["parameter"]) == (400, "history")


def test_a_partition_beyond_the_last_is_told_with_the_last_of_all_shards(wire: Wire) -> None:
    assert wire.get("/v1/partitions/16").problem["detail"].endswith("partitions go from 0 to 15.")


def test_what_is_unknown_of_an_acknowledgement_comes_back_in_the_order_sent(wire: Wire) -> None:
    batches = [f"{NOBODY}{digit}" for digit in "3f1a7"]
    items = [f"{own}:0:1" for own in batches]
    ranges = [{"group": f"{own}:2", "from": 0, "upto": 3} for own in reversed(batches)]
    indices = [{"group": f"{own}:1", "indices": [5, 4]} for own in batches]
    answer = wire("POST", "/v1/acknowledgements", {"ranges": ranges, "indices": indices, "items": items}).json()
    told = [f"{own}:1:{index}" for own in batches for index in (5, 4)]
    assert answer["unknown"] == [*items, *told, *ranges]


def test_batches_that_are_complete_are_named_in_the_order_sent(wire: Wire) -> None:
    opened = [wire("POST", "/v1/batches", {"key": f"night {number}"}).json()["id"] for number in range(6)]
    for batch in opened:
        wire("POST", f"/v1/batches/{batch}/items", {"count": 1})
        wire("POST", f"/v1/batches/{batch}/seal")
    answer = wire("POST", "/v1/acknowledgements", {"items": [f"{batch}:0:0" for batch in opened]}).json()
    assert [own["id"] for own in answer["complete"]] == opened


def test_a_door_takes_as_many_acknowledgements_at_once_as_one_process(wire: Wire) -> None:
    calls: list[Any] = [{"items": [f"{NOBODY}1:0:0"]}] * (ACKNOWLEDGED_CALLS_MAX + 1)
    assert "1,000 calls" in wire("POST", "/v1/acknowledgements", {"calls": calls}).problem["detail"]
    assert len(wire("POST", "/v1/acknowledgements", {"calls": calls[1:]}).json()["answers"]) == ACKNOWLEDGED_CALLS_MAX


def test_a_page_of_progress_has_the_recipients_of_all_shards(wire: Wire) -> None:
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    everybody = [name for shard in range(4) for name in names(shard, 3)]
    sent = [{"recipient": name, "data": 1} for name in everybody]
    wire("POST", "/v1/messages", sent, headers={"restante-batch": batch})
    place = f"/v1/batches/{batch}/progress"
    whole = wire.get(place).json()
    listed = [own["recipient"] for own in whole["recipients"]]
    assert (sorted(listed), whole["next"]) == (sorted(everybody), None)
    for limit in (1, 3, 5, 12):
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = wire.get(f"{place}?limit={limit}{after}").json()
            assert len(page["recipients"]) == min(limit, 12 - len(seen))
            seen += [own["recipient"] for own in page["recipients"]]
            after = None if page["next"] is None else f"&after={page['next']}"
        assert seen == listed


def test_who_has_only_duplicates_of_a_batch_is_listed_once_among_the_slowest(wire: Wire) -> None:
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    again, fresh = names(1, 3), names(1, 6)[3:] + names(2, 3)
    sent = [{"recipient": name, "data": 1, "id": "again"} for name in again]
    wire.publish(*sent)
    sent += [{"recipient": name, "data": 1} for name in fresh]
    wire("POST", "/v1/messages", sent, headers={"restante-batch": batch})
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = wire.get(f"/v1/batches/{batch}/progress?slowest=true&limit=2{after}").json()
        seen += [own["recipient"] for own in page["recipients"]]
        after = None if page["next"] is None else f"&after={page['next']}"
    assert seen[:3] == sorted(again)
    assert sorted(seen) == sorted(again + fresh)


def test_a_live_client_sends_to_recipients_of_every_shard_and_its_other_clients_hear_of_it(
    several: SeveralHub, wire: Wire
) -> None:
    sender, everybody = HERE, [names(shard, 20)[19] for shard in range(4)]
    url = f"{several.url.replace('http', 'ws')}/v1/recipients/{sender}/live"
    with connect(url) as one, connect(url) as other:
        first, second = Talk(one), Talk(other)
        assert (first.frame()["type"], second.frame()["type"]) == ("connected", "connected")
        for number in range(40):
            message = {"recipient": everybody[number % 4], "data": number}
            first.say(type="send", request=number, message=message)
        told = [frame for frame in first.frames(80) if frame["type"] == "status"]
        assert [own["status"] for own in told] == ["processed"] * 40
        echoed = [frame["message"] for frame in second.frames(80) if frame["type"] == "echo"]
        assert {(own["recipient"], own["data"]) for own in echoed} == {(everybody[n % 4], n) for n in range(40)}
    for place, name in enumerate(everybody):
        stored = wire.get(f"/v1/recipients/{name}/messages").json()["messages"]
        assert [own["data"] for own in stored] == list(range(place, 40, 4))


def test_what_another_shard_refuses_of_a_live_client_is_lost_and_says_why(several: SeveralHub, wire: Wire) -> None:
    wire.publish({"recipient": THERE, "data": 1, "id": "taken"})
    with connect(f"{several.url.replace('http', 'ws')}/v1/recipients/{HERE}/live") as own:
        talk = Talk(own)
        talk.say(type="send", request=1, message={"recipient": THERE, "data": 2, "id": "taken"})
        assert talk.until("status")["reason"].startswith("message_conflict: ")


def test_frames_of_one_connection_are_stored_in_the_order_sent_whatever_they_are(
    several: SeveralHub, wire: Wire
) -> None:
    name = names(1, 30)[29]
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    kinds: list[dict[str, object]] = [{}, {"partition": partition_of(name, 16)}, {"source": "log"}, {"batch": batch}]
    frames = [{"number": n, **kinds[n * n % 11 % 4], "messages": [{"recipient": name, "data": n}]} for n in range(60)]
    for frame in frames:
        if "source" in frame:
            frame["messages"] = [{"recipient": name, "data": frame["number"], "source_position": frame["number"]}]
    with connect(several.url.replace("http", "ws") + "/v1/publish") as link:
        for frame in frames:
            link.send(msgspec.json.encode(frame).decode())
        answers = [msgspec.json.decode(link.recv(30)) for _ in frames]
    assert [answer for answer in answers if "problem" in answer] == []
    stored = wire.get(f"/v1/recipients/{name}/messages").json()["messages"]
    assert [own["data"] for own in stored] == list(range(60))


def test_a_number_that_no_hub_can_have_is_refused(wire: Wire) -> None:
    wire("PUT", "/v1/groups/numbered", {})
    asked = {"after": [], "limit": 10**23}
    refused = wire("POST", f"/v1/groups/numbered/members/{NOBODY}1/next", asked)
    assert (refused.status, refused.problem["code"]) == (400, "invalid_request")
