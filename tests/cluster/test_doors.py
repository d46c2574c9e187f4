"""Four shards behind two doors: what a client sees is one hub."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import restante
from restante.cluster.places import short_path
from restante.errors import BatchKeyUsed, InvalidRequest
from restante.model.storage.partition import partition_of
from restante.server.app import ROUTES, SOCKETS
from restante.server.doors.door_routes import choice_of
from restante.server.doors.door_service import DoorService
from restante.server.doors.gathered_answers import joined_metrics
from restante.server.doors.tunnel import Tunnel
from restante.server.serve import ServedHub
from restante.settings import ServerSettings, Settings
from restante.wire.publish import encode_columns
from tests.cluster.several import SeveralHub
from tests.server.wire import Wire
from tests.waiting import wait_until

ONE_SHARD = {
    "/v1/recipients/{recipient}/peek",
    "/v1/partitions/{partition}/feed",
    "/v1/batches/{batch}",
    "/v1/jobs/{job}",
}
"""Some of the routes that are passed on."""


@pytest.fixture
def several(tmp_path: Path) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path / "data")
    yield running
    running.stop()


@pytest.fixture
def wire(several: SeveralHub) -> Iterator[Wire]:
    wire = Wire(several.url)
    yield wire
    wire.close()


def names(shard: int, count: int = 1, several: int = 4) -> list[str]:
    """Recipients of one of the shards."""
    found = (f"r{number}" for number in range(10_000))
    own = range(16 * shard // several, 16 * (shard + 1) // several)
    return list(islice((name for name in found if partition_of(name, 16) in own), count))


def test_a_send_to_many_shards_is_answered_as_one(wire: Wire) -> None:
    everybody = [names(shard)[0] for shard in range(4)]
    answer = wire.publish(*({"recipient": name, "data": 1} for name in everybody)).json()
    assert (answer["accepted"], answer["duplicates"]) == (4, 0)
    told = [own["partition"] for own in answer["partitions"]]
    assert told == sorted(partition_of(name, 16) for name in everybody)
    for name in everybody:
        bundle = wire.get(f"/v1/recipients/{name}/peek")
        assert bundle.headers["restante-message-count"] == "1"
        assert wire("DELETE", f"/v1/recipients/{name}/bundles/{bundle.headers['restante-bundle-id']}").status == 200


def test_faults_are_named_by_their_place_in_the_body_whichever_shard_found_them(wire: Wire) -> None:
    everybody = [names(shard)[0] for shard in range(4)]
    wire.publish({"recipient": everybody[2], "data": 1, "id": "known"})
    sent = [{"recipient": name, "data": 2, "id": "known"} for name in everybody]
    refused = wire.publish(*sent)
    assert refused.status == 409
    assert refused.problem["code"] == "message_conflict"
    assert [(fault["index"], fault["id"]) for fault in refused.problem["errors"]] == [(2, "known")]
    stored = {own["partition"] for own in refused.problem["partitions"]}
    assert stored == {partition_of(name, 16) for name in everybody if name != everybody[2]}


def test_one_bad_message_stores_nothing_in_any_shard(wire: Wire) -> None:
    everybody = [names(shard)[0] for shard in range(4)]
    bad = wire.publish(*({"recipient": name, "data": 1} for name in everybody), {"recipient": " ", "data": 1})
    assert (bad.status, bad.problem["errors"][0]["index"]) == (400, 4)
    assert wire.get("/v1/recipients").json()["recipients"] == []


def test_columns_are_split_too(wire: Wire) -> None:
    everybody = [name for shard in range(4) for name in names(shard, 50)]
    sent = [restante.Message(recipient=name, text=f"for {name}") for name in everybody]
    body = encode_columns(sent, random=lambda count: bytes(count - 1) + b"1", now_ms=1)
    answer = wire("POST", "/v1/messages", body, headers={"content-type": "application/vnd.apache.arrow.stream"})
    assert answer.json()["accepted"] == 200
    listed, after = [], ""
    while True:
        page = wire.get(f"/v1/recipients?order=oldest&limit=30{after}").json()
        listed += [own["recipient"] for own in page["recipients"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert sorted(listed) == sorted(everybody)


def test_lists_of_all_shards_are_in_order(wire: Wire) -> None:
    for shard in range(4):
        for count, name in enumerate(names(shard, 3)):
            wire.publish(*({"recipient": name, "data": 1} for _ in range(4 * count + shard + 1)))
    waiting = [own["waiting"] for own in wire.get("/v1/recipients?limit=7").json()["recipients"]]
    assert waiting == [12, 11, 10, 9, 8, 7, 6]
    partitions = wire.get("/v1/partitions").json()["partitions"]
    assert [own["partition"] for own in partitions] == list(range(16))
    assert sum(own["waiting"] for own in partitions) == 78
    made = {wire("POST", "/v1/batches", {"key": f"k{number}"}).json()["id"] for number in range(7)}
    first = wire.get("/v1/batches?limit=4").json()
    rest = wire.get(f"/v1/batches?limit=4&after={first['next']}").json()
    listed = [own["id"] for own in (*first["batches"], *rest["batches"])]
    assert rest["next"] is None
    assert listed == sorted(made, reverse=True)


def test_items_of_batches_everywhere_are_acknowledged_together(wire: Wire) -> None:
    items = []
    for _ in range(6):
        batch = wire("POST", "/v1/batches", {}).json()["id"]
        wire("POST", f"/v1/batches/{batch}/items", {"count": 2})
        wire("POST", f"/v1/batches/{batch}/seal")
        items += [f"{batch}:0:0", f"{batch}:0:1"]
    refused = wire("POST", "/v1/acknowledgements", {"items": [*items, "no item"]})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_item")
    unknown = f"{items[0][:36]}:0:9"
    answer = wire("POST", "/v1/acknowledgements", {"items": [items[0], unknown, *items[1:]]}).json()
    assert (answer["acknowledged"], answer["unknown"]) == (12, [unknown])
    assert {own["id"] for own in answer["complete"]} == {item[:36] for item in items}


def test_a_key_is_unique_whichever_shard_it_lies_in_and_the_same_request_opens_nothing_more(
    several: SeveralHub, wire: Wire
) -> None:
    with restante.connect(several.url) as hub:
        for number in range(8):
            with hub.batches.open(f"night {number}", unique=True) as batch:
                with pytest.raises(BatchKeyUsed) as used:
                    hub.batches.open(f"night {number}", unique=True)
                assert used.value.details["batch"] == batch.id
    asked = {"key": "day", "unique": True, "request_id": str(uuid.uuid4())}
    first, again = wire("POST", "/v1/batches", asked), wire("POST", "/v1/batches", asked)
    assert (first.status, again.status) == (201, 201)
    assert again.json() == first.json()
    other = wire("POST", "/v1/batches", asked | {"request_id": str(uuid.uuid4())})
    assert (other.status, other.problem["batch"]) == (409, first.json()["id"])
    assert wire("POST", "/v1/batches", asked | {"id": first.json()["id"]}).status == 400


def test_a_consignment_over_all_shards_is_seen_when_it_is_committed(several: SeveralHub, wire: Wire) -> None:
    everybody = [name for shard in range(4) for name in names(shard, 5)]
    opened = wire("POST", "/v1/consignments", {"key": "night", "batch": True}).json()
    place = f"/v1/consignments/{opened['id']}"
    body = [{"recipient": name, "data": name} for name in everybody]
    for _ in range(2):
        assert wire("POST", f"{place}/parcels?writer=w&attempt=0&parcel=0", body).json() == {"staged": 20}
    assert wire.get("/v1/recipients").json()["recipients"] == []
    counted = {"writers": [{"writer": "w", "attempt": 0, "messages": 20}]}
    first = wire("POST", f"{place}/commit", counted)
    assert (first.status, first.json()["accepted"]) == (200, 20)
    assert wire("POST", f"{place}/commit", counted).json() == first.json()
    assert {own["partition"] for own in first.json()["partitions"]} == {partition_of(name, 16) for name in everybody}
    with restante.connect(several.url) as hub:
        for name in everybody:
            bundle = hub.recipient(name).peek()
            assert bundle is not None
            assert [message.data for message in bundle.messages] == [name]
            bundle.dequeue()
    assert wire.get(f"/v1/batches/{opened['batch']}/wait?seconds=20").json()["state"] == "complete"


def test_a_batch_bound_to_messages_everywhere_is_complete_when_all_are_collected(wire: Wire) -> None:
    everybody = [names(shard)[0] for shard in range(4)]
    batch = wire("POST", "/v1/batches", {}).json()["id"]
    body = [{"recipient": name, "data": 1} for name in everybody]
    assert wire("POST", "/v1/messages", body, headers={"restante-batch": batch}).json()["accepted"] == 4
    assert wire("POST", f"/v1/batches/{batch}/seal").json() == {"complete": False}
    for name in everybody:
        assert wire.get(f"/v1/batches/{batch}").json()["state"] == "sealed"
        own = wire.get(f"/v1/recipients/{name}/peek").headers["restante-bundle-id"]
        wire("DELETE", f"/v1/recipients/{name}/bundles/{own}")
    assert wire.get(f"/v1/batches/{batch}/wait?seconds=20").json()["state"] == "complete"


def test_actions_go_to_the_things_that_they_concern(wire: Wire) -> None:
    things = [names(shard)[0] for shard in range(4)]
    one = wire("POST", "/v1/actions/paint", {"concerns": things[0], "id": "a1"})
    assert (one.status, one.json()["state"]) == (202, "accepted")
    sent = {"actions": [{"action": "paint", "concerns": name, "id": f"b{name}"} for name in things]}
    many = wire("POST", "/v1/actions", sent)
    assert [own["concerns"] for own in many.json()["actions"]] == things
    assert wire.get("/v1/actions/a1").json()["concerns"] == things[0]
    assert wire.get("/v1/actions/none").problem["code"] == "action_unknown"


def test_a_peek_waits_through_a_door(several: SeveralHub, wire: Wire) -> None:
    other = Wire(several.url)
    name = names(3)[0]
    sender = threading.Timer(0.3, lambda: other.publish({"recipient": name, "data": 7}))
    sender.start()
    bundle = wire.get(f"/v1/recipients/{name}/peek?wait=20")
    assert bundle.json()["messages"][0]["data"] == 7
    sender.join()
    other.close()


def test_a_shard_that_is_away_is_waited_for(several: SeveralHub, wire: Wire) -> None:
    name = names(1)[0]
    several.stop_shard(1)
    back = threading.Timer(1.0, several.start_shard, (1,))
    back.start()
    assert wire.publish({"recipient": name, "data": 1}).json()["accepted"] == 1
    back.join()
    assert wire.get(f"/v1/recipients/{name}/peek").status == 200


def test_a_shard_that_stays_away_makes_a_list_an_error_and_a_send_partly_stored(
    several: SeveralHub, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.cluster.shard_lines.SHARD_PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("restante.server.doors.upstream.SHARD_PATIENCE_SECONDS", 0.3)
    several.stop_shard(1)
    assert wire.get("/v1/recipients").status == 503
    assert wire.get(f"/v1/recipients/{names(1)[0]}/peek").status == 503
    here, away = names(0)[0], names(1)[0]
    answer = wire.publish({"recipient": here, "data": 1}, {"recipient": away, "data": 1})
    assert (answer.status, answer.problem["code"]) == (503, "partly_stored")
    assert [own["partition"] for own in answer.problem["partitions"]] == [partition_of(here, 16)]
    assert len(answer.problem["ids"]) == 2
    given = wire.publish({"recipient": here, "data": 1, "id": "a"}, {"recipient": away, "data": 1, "id": "b"})
    assert "ids" not in given.problem
    assert given.problem["retriable"]
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws{several.url.removeprefix('http')}/v1/recipients/{away}/live")
    denial = refused.value.response
    problem = json.loads(denial.body or b"")
    assert (denial.status_code, problem["status"], problem["code"]) == (503, 503, "unavailable")
    assert denial.headers["restante-correlation-id"] == problem["correlation_id"]
    several.start_shard(1)
    again = wire.publish({"recipient": here, "data": 1, "id": "a"}, {"recipient": away, "data": 1, "id": "b"}).json()
    assert (again["accepted"], again["duplicates"]) == (1, 1)


def test_what_the_end_of_a_door_cuts_off_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Semaphore(0)

    async def never(*_: object) -> None:
        begun.release()
        await asyncio.Event().wait()

    settings = Settings(server=ServerSettings(drain_seconds=1))
    several = SeveralHub(tmp_path / "data", settings, shards=2, doors=1)
    try:
        several.stop_shard(1)
        monkeypatch.setattr(several.shards[0].desk, "call", never)
        with ThreadPoolExecutor(3) as threads:
            read = threads.submit(Wire(several.url).get, "/v1/batches/b")
            written = threads.submit(Wire(several.url), "POST", "/v1/batches/b/seal")
            for _ in range(2):
                begun.acquire()
            followed = threads.submit(_refusal, several.url, names(1, several=2)[0])
            (door,) = several.doors
            wait_until(lambda: len(_tunnels(door)) == 1, "the web socket is being opened")
            door.stop()
            answers = [(answer.result().status, answer.result().problem["code"]) for answer in (read, written)]
            assert answers == [(503, "unavailable"), (503, "outcome_unknown")]
            assert followed.result() == (503, "unavailable")
    finally:
        several.stop()


def _tunnels(door: ServedHub) -> list[object]:
    assert isinstance(door.service, DoorService)
    return [one for one in door.service.server.server_state.connections if isinstance(one, Tunnel)]


def _refusal(url: str, recipient: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws{url.removeprefix('http')}/v1/recipients/{recipient}/live")
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"")["code"]


def test_mailboxes_are_followed_live_and_frames_are_published_through_doors(several: SeveralHub) -> None:
    with restante.connect(several.url) as hub:
        name = names(2)[0]
        with hub.recipient(name).live(after=0) as live:
            following = iter(live)
            hub.send(recipient=name, text="pushed")
            assert next(following).text == "pushed"


def test_frames_of_one_connection_are_stored_in_the_order_sent_although_their_shard_was_away(
    several: SeveralHub, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.cluster.ordered_lines.SHARD_PATIENCE_SECONDS", 60)
    name, sent = names(1)[0], 185
    with connect(several.url.replace("http", "ws") + "/v1/publish") as link:

        def send(some: range) -> None:
            for number in some:
                message = {"recipient": name, "text": str(number)}
                link.send(msgspec.json.encode({"number": number, "messages": [message]}).decode())

        send(range(5))
        for first in range(5, sent, 60):
            several.stop_shard(1)
            send(range(first, first + 25))
            back = threading.Thread(target=several.start_shard, args=(1,))
            back.start()
            wait_until((several.folders[1] / "calls.sock").exists, "the shard takes calls")
            send(range(first + 25, first + 60))
            back.join()
        answers = [msgspec.json.decode(link.recv(60)) for _ in range(sent)]
    assert [answer for answer in answers if "accepted" not in answer] == []
    page = wire.get(f"/v1/partitions/{partition_of(name, 16)}/feed?limit=1000").json()
    assert [change["text"] for change in page["changes"]] == [str(number) for number in range(sent)]


def test_the_feed_of_a_partition_is_that_of_its_shard(wire: Wire) -> None:
    name = names(3)[0]
    wire.publish({"recipient": name, "text": "fed"})
    page = wire.get(f"/v1/partitions/{partition_of(name, 16)}/feed").json()
    assert [change["recipient"] for change in page["changes"]] == [name]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/startupz", "/healthz"])
def test_a_hub_is_as_well_as_the_least_well_of_its_shards(
    path: str, several: SeveralHub, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (wire.get(path).status, wire.get(path).json()["status"]) == (200, "pass")
    monkeypatch.setattr("restante.server.doors.upstream.SHARD_PATIENCE_SECONDS", 0.1)
    several.stop_shard(2)
    assert (wire.get(path).status, wire.get(path).json()["status"]) == (503, "fail")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/startupz", "/healthz"])
def test_a_look_at_the_health_of_several_shards_is_answered(path: str, wire: Wire) -> None:
    for _ in range(2):  # the connections to the shards that are kept stay of use
        look = wire("HEAD", path)
        assert (look.status, look.body) == (200, b"")
        assert wire.get(path).json()["status"] == "pass"


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/v1/health", "/v1/rates", "/v1/live", "/v1/backup"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_a_look_at_all_shards_does_not_take_is_no_part_of_the_next_request(
    wire: Wire, path: str, *, chunked: bool
) -> None:
    body, headers = (b"4\r\nGET \r\n0\r\n\r\n", {"transfer-encoding": "chunked"}) if chunked else (b"GET ", {})
    assert wire("GET", path, body, headers=headers).status in {200, 400}
    for _ in range(2):
        assert wire.get("/readyz").json()["status"] == "pass"
        for shard in range(4):
            assert wire.get(f"/v1/recipients/{names(shard)[0]}/explain").status == 200


def test_a_probe_of_http_1_0_names_no_host(several: SeveralHub, wire: Wire) -> None:
    with socket.create_connection(wire.address, timeout=30) as plain:
        plain.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert plain.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/tickets", "/v1/recipients/ada/purge", "/v1/batches"])
def test_a_body_that_is_far_too_large_is_refused_as_such(wire: Wire, path: str, chunked: bool) -> None:
    body = b" " * (8 * 2**20)
    headers = {"content-type": "application/json"}
    if chunked:
        body, headers = b"800000\r\n" + body + b"\r\n0\r\n\r\n", headers | {"transfer-encoding": "chunked"}
    refused = wire("POST", path, body, headers=headers)
    assert (refused.status, refused.problem["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("concerns", ["", ".", "a\n", "x" * 257], ids=["empty", "dot", "control", "long"])
def test_an_action_that_concerns_nothing_that_can_be_is_refused_as_such(wire: Wire, concerns: str) -> None:
    refused = wire("POST", "/v1/actions/paint", {"concerns": concerns})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_message")
    assert refused.problem["errors"][0]["field"] == "recipient"


def test_figures_are_those_of_all_shards(wire: Wire) -> None:
    everybody = [names(shard)[0] for shard in range(4)]
    wire.publish(*({"recipient": name, "data": 1} for name in everybody))
    figures = dict(line.rsplit(" ", 1) for line in wire.get("/metrics").body.decode().splitlines() if line[0] != "#")
    assert float(figures["restante_messages_waiting"]) == 4
    assert wire.get("/v1/health").json()["state"] == "green"
    assert wire.get("/v1/rates").json()["seconds"] > 0
    assert wire.get("/v1/live").json() == {"clients": [], "next": None}
    assert wire.get("/v1/settings").status == 200


def test_requests_are_counted_once_and_any_door_tells_those_of_all(several: SeveralHub, tmp_path: Path) -> None:
    doors = sorted((tmp_path / "data").glob("door-*.sock"))
    assert len(doors) == 2
    for door, times in zip(doors, (3, 4), strict=True):
        for _ in range(times):
            asked_at(door, several.url, "/v1/recipients/ada/explain")
    for door in doors:
        text = asked_at(door, several.url, "/metrics").decode()
        (line,) = (line for line in text.splitlines() if "restante_requests_total" in line and "explain" in line)
        assert line.endswith(" 7.0")


def asked_at(door: Path, url: str, path: str) -> bytes:
    """What one of the doors answers."""
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(short_path(door))
        host = url.removeprefix("http://")
        own.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: own.recv(65_536), b""))


def test_figures_of_several_processes_are_added_up_or_the_worst_of_them() -> None:
    one = b'# HELP a_total x\n# TYPE a_total counter\na_total{b="1"} 2.0\n# HELP restante_health_score y\nrestante_health_score 1.0\n'
    other = b'# HELP a_total x\na_total{b="1"} 3.0\na_total{b="2"} 1.0\n# HELP restante_health_score y\nrestante_health_score 0.5\n'
    lines = joined_metrics([one, other]).decode().splitlines()
    assert lines[2:4] == ['a_total{b="1"} 5.0', 'a_total{b="2"} 1.0']
    assert lines[-1] == "restante_health_score 0.5"


def test_another_number_of_shards_is_refused_with_what_changes_it(several: SeveralHub, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--shards 4, or change it first: restante shards split 8"):
        SeveralHub(tmp_path / "data", shards=8)
    with pytest.raises(InvalidRequest, match="several shards"):
        restante.open(tmp_path / "data")


def test_the_folder_of_one_shard_is_not_opened_alone(several: SeveralHub, tmp_path: Path) -> None:
    several.stop()
    with pytest.raises(InvalidRequest, match="one shard of several"):
        restante.open(tmp_path / "data" / "shard-1")


@pytest.mark.parametrize("path", sorted(ONE_SHARD))
def test_what_is_about_one_shard_is_passed_on(path: str) -> None:
    assert all(choice_of(route) is not None for route in (*ROUTES, *SOCKETS) if route.path == path)


def test_the_slowest_of_a_batch_come_first_whichever_shard_they_are_in(wire: Wire) -> None:
    batch = wire("POST", "/v1/batches", {"key": "night"}).json()["id"]
    everybody = [names(shard, 40) for shard in range(4)]
    order = [everybody[number % 4][number // 4] for first in range(3) for number in range(first, 160, 3)]
    for name in order[:60]:
        sent = {"messages": [{"recipient": name, "data": 1}]}
        assert wire("POST", "/v1/messages", sent, headers={"restante-batch": batch}).status == 201
    for name in order[10:20]:
        bundle = wire.get(f"/v1/recipients/{name}/peek").headers["restante-bundle-id"]
        assert wire("DELETE", f"/v1/recipients/{name}/bundles/{bundle}").status == 200
    for limit in (7, 60):
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = wire.get(f"/v1/batches/{batch}/progress?slowest=true&limit={limit}{after}").json()
            seen += [own["recipient"] for own in page["recipients"]]
            assert len(page["recipients"]) <= limit
            after = None if page["next"] is None else f"&after={page['next']}"
        assert seen == order[:10] + order[20:60]
    for token in ("x", "1.2", "-1.2.3.4"):
        assert wire.get(f"/v1/batches/{batch}/progress?slowest=true&after={token}").status == 400
