"""Live delivery over a real web socket: pushed after the commit, replayed without a seam, told why it ends."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from restante.calls.mailboxes import PartitionOf, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import NotOwner
from restante.limits import DATA_BYTES_MAX
from restante.model.access.access import Role
from restante.model.publishing.message import Message
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import LiveSettings, OriginGroupSettings, ServerSettings, Settings
from tests.server.live import Events, dropped, live, live_url
from tests.server.wire import Wire
from tests.waiting import wait_until

UUID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"


def numbers(frames: list[dict[str, Any]]) -> list[int]:
    return [frame["message"]["sequence_number"] for frame in frames]


def table(recipients: Sequence[str], data: Sequence[object]) -> pa.Table:
    return pa.table(
        {
            "recipient": recipients,
            "data": [json.dumps(value).encode() for value in data],
            "media_type": ["application/json"] * len(data),
        }
    )


def test_a_message_is_pushed_as_history_shows_it(running: ServedHub, wire: Wire) -> None:
    with live(running, "ada", client="phone") as ada:
        wire.publish(
            {"recipient": "ada", "id": UUID, "kind": "k", "data": {"a": [1, "ö"]}, "properties": {"p": "q"}},
            {"recipient": "bob", "data": 2},
            {"recipient": "ada", "data_base64": "AAEC", "expires_at": "2100-01-02T03:04:05Z", "bundleable": False},
        )
        frames = ada.frames(2)
    assert [frame["counter"] for frame in frames] == [1, 2]
    assert [frame["type"] for frame in frames] == ["message", "message"]
    history = wire.get("/v1/recipients/ada/messages").json()["messages"]
    assert [frame["message"] for frame in frames] == history


@pytest.mark.parametrize("count", [3, 40, 200])
def test_many_messages_at_once_are_pushed_as_history_shows_them(running: ServedHub, wire: Wire, count: int) -> None:
    names = [f"r{number % 3}" for number in range(3 * count)]
    with live(running, "r1") as talk:
        running.desk.hub.call(Publish.of(table(names, list(range(3 * count)))))
        frames = talk.frames(count)
    assert [frame["counter"] for frame in frames] == list(range(1, count + 1))
    assert [frame["message"] for frame in frames] == wire.get("/v1/recipients/r1/messages?limit=1000").json()[
        "messages"
    ]


def test_a_burst_for_one_recipient_is_read_from_history_and_nothing_is_missing(running: ServedHub) -> None:
    with live(running, "ada") as ada:
        running.desk.hub.call(Publish.of(table(["ada"] * 5_000, list(range(5_000)))))
        frames = ada.frames(5_000)
    assert [frame["counter"] for frame in frames] == list(range(1, 5_001))
    assert [frame["message"]["data"] for frame in frames] == list(range(5_000))


def test_a_consignment_is_pushed_when_it_is_committed(running: ServedHub, wire: Wire) -> None:
    opened = wire("POST", "/v1/consignments", {"key": "night"}).json()
    path = f"/v1/consignments/{opened['id']}"
    with live(running, "ada") as ada:
        wire("POST", f"{path}/parcels?writer=w&attempt=0&parcel=0", {"messages": [{"recipient": "ada", "data": 1}] * 2})
        wire.publish({"recipient": "ada", "data": "before"})
        assert ada.frame()["message"]["data"] == "before"
        wire("POST", f"{path}/commit", {"writers": [{"writer": "w", "attempt": 0, "messages": 2}]})
        frames = ada.frames(2)
    assert [(frame["counter"], frame["message"]["data"]) for frame in frames] == [(2, 1), (3, 1)]


def test_what_is_released_to_the_end_is_pushed_under_its_new_number(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "ada", "id": UUID, "data": 1}, {"recipient": "ada", "data": 2})
    wire("POST", f"/v1/recipients/ada/messages/{UUID}/set-aside")
    bundle = wire.get("/v1/recipients/ada/peek").json()["bundle_id"]
    wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}")
    with live(running, "ada") as ada:
        wire("POST", f"/v1/recipients/ada/messages/{UUID}/release")
        frame = ada.frame()
    assert frame["message"]["id"] == UUID
    assert frame["message"]["sequence_number"] > 2


def test_all_clients_of_a_recipient_get_it_each_by_its_own_count(running: ServedHub, wire: Wire) -> None:
    with live(running, "ada") as first:
        wire.publish({"recipient": "ada", "data": 1})
        assert first.frame()["counter"] == 1
        with live(running, "ada") as second:
            wire.publish({"recipient": "ada", "data": 2})
            assert (first.frame()["counter"], second.frame()["counter"]) == (2, 1)


def test_replay_begins_after_the_number_given_and_goes_on_without_a_seam(running: ServedHub, wire: Wire) -> None:
    for value in range(10):
        wire.publish({"recipient": "ada", "data": value})
    fourth = wire.get("/v1/recipients/ada/messages?limit=4").json()["messages"][-1]["sequence_number"]
    with connect(live_url(running, "ada", after=fourth)) as own:
        assert json.loads(own.recv(10)) == {"type": "connected", "sequence_number": fourth, "client": ""}
        wire.publish({"recipient": "ada", "data": 10})
        frames = [json.loads(own.recv(10)) for _ in range(7)]
    assert [frame["message"]["data"] for frame in frames] == list(range(4, 11))
    assert [frame["counter"] for frame in frames] == list(range(1, 8))


def test_replay_under_a_stream_of_publishes_has_no_gap_and_no_repetition(running: ServedHub) -> None:
    hub = running.desk.hub
    hub.call(Publish.of([Message(recipient="ada", data=value) for value in range(700)]))
    with ExitStack() as stack:
        talks = []
        for value in range(700, 900):
            hub.call(Publish.of(Message(recipient="ada", data=value)))
            if value % 40 == 0:
                talks.append(stack.enter_context(live(running, "ada", after=0)))
        for talk in talks:
            assert talk.data(900) == list(range(900))


def test_replay_leaves_out_what_is_not_to_be_delivered(running: ServedHub, wire: Wire) -> None:
    ids = [f"0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b{number:02}" for number in range(4)]
    for value, own_id in enumerate(ids):
        wire.publish({"recipient": "ada", "id": own_id, "data": value})
    bundle = wire.get("/v1/recipients/ada/peek?max_messages=1").json()["bundle_id"]
    wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}")
    wire("DELETE", f"/v1/recipients/ada/messages/{ids[1]}")
    wire("POST", f"/v1/recipients/ada/messages/{ids[2]}/set-aside")
    with live(running, "ada", after=0) as ada:
        frames = ada.frames(2)
    assert [(frame["message"]["data"], frame["message"]["state"]) for frame in frames] == [
        (0, "collected"),
        (3, "waiting"),
    ]


def test_a_number_beyond_the_end_is_taken_as_the_end(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    visible = wire.get("/v1/recipients/ada/messages").json()["messages"][0]["sequence_number"]
    with connect(live_url(running, "ada", after=10**9)) as own:
        assert json.loads(own.recv(10))["sequence_number"] == visible
        wire.publish({"recipient": "ada", "data": 2})
        assert json.loads(own.recv(10))["message"]["data"] == 2


def test_who_no_longer_owns_the_mailbox_sends_nobody_back(
    running: ServedHub, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another hub may have gone on: where the mailbox ends, this one does not know."""
    wire.publish({"recipient": "ada", "data": 1})

    def lost() -> None:
        raise NotOwner("The lease of the store has ended.")

    monkeypatch.setattr(running.desk.hub.core.store, "require_owned", lost)
    with connect(live_url(running, "ada", after=7)) as socket_:
        told = json.loads(socket_.recv())
    assert (told["type"], told["reason"]) == ("disconnect", "failed")
    wait_until(lambda: not len(running.desk.post), "it is forgotten")


def test_live_delivery_does_not_dequeue(running: ServedHub, wire: Wire) -> None:
    with live(running, "ada") as ada:
        wire.publish({"recipient": "ada", "data": 1})
        assert ada.frame()["message"]["state"] == "waiting"
    assert wire.get("/v1/recipients/ada/peek").json()["messages"][0]["data"] == 1


# Sending


def test_a_sender_gets_the_id_at_once_and_then_that_it_is_durable(running: ServedHub) -> None:
    with live(running, "ada") as ada, live(running, "bob") as bob:
        ada.say(type="send", request=7, message={"recipient": "bob", "data": "hello"})
        sent, fate = ada.frames(2)
        assert (sent["type"], sent["request"]) == ("sent", 7)
        assert fate == {"type": "status", "id": sent["id"], "status": "processed"}
        pushed = bob.frame()
    assert pushed["message"]["id"] == sent["id"]
    assert pushed["message"]["data"] == "hello"


def test_the_senders_other_clients_get_an_echo_and_the_sending_one_does_not(running: ServedHub, wire: Wire) -> None:
    with live(running, "ada") as phone, live(running, "ada") as desk:
        phone.say(type="send", request=1, message={"recipient": "bob", "id": UUID, "data": "hello"})
        echo = desk.until("echo")
        assert echo == {"type": "echo", "message": wire.get("/v1/recipients/bob/messages").json()["messages"][0]}
        wire.publish({"recipient": "ada", "data": "next"})
        assert desk.frame()["counter"] == 1
        assert [frame["type"] for frame in phone.frames(3)] == ["sent", "status", "message"]


def test_what_is_sent_to_oneself_comes_as_a_message_and_not_as_an_echo_too(running: ServedHub) -> None:
    with live(running, "ada") as phone, live(running, "ada") as desk:
        phone.say(type="send", request=1, message={"recipient": "ada", "data": "note"})
        assert {frame["type"] for frame in phone.frames(3)} == {"sent", "status", "message"}
        phone.say(type="send", request=2, message={"recipient": "ada", "data": "end"})
        assert sorted(frame["type"] for frame in desk.frames(4)) == ["message", "message", "status", "status"]


def test_all_clients_of_a_sender_hear_what_became_of_what_it_sent(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "bob", "id": UUID, "data": 1})
    with live(running, "ada") as phone, live(running, "ada") as desk, live(running, "eve") as eve:
        phone.say(type="send", request=1, message={"recipient": "bob", "data": "hello"})
        known = phone.frame()["id"]
        assert desk.until("status") == phone.until("status") == {"type": "status", "id": known, "status": "processed"}
        phone.say(type="send", request=2, message={"recipient": "bob", "id": UUID, "data": 2})
        lost = desk.until("status")
        assert lost == phone.until("status")
        assert (lost["id"], lost["status"], lost["reason"][:16]) == (UUID, "lost", "message_conflict")
        wire.publish({"recipient": "eve", "data": "nothing before"})
        assert eve.frame()["counter"] == 1


def test_a_message_with_a_fault_is_a_problem_and_a_conflict_is_lost(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "bob", "id": UUID, "data": 1})
    with live(running, "ada") as ada:
        ada.say(type="send", request=1, message={"recipient": " ", "data": 1})
        problem = ada.frame()
        assert (problem["type"], problem["request"], problem["code"]) == ("problem", 1, "invalid_message")
        ada.say(type="send", request=2, message={"recipient": "bob", "id": UUID, "data": 2})
        sent, fate = ada.frames(2)
        assert (sent["id"], fate["status"]) == (UUID, "lost")
        assert fate["reason"].startswith("message_conflict")
        ada.say(type="send", request=3)
        assert ada.frame()["request"] == 3
        ada.say(type="send", request=4, message={"recipient": "bob", "data": 3})
        assert ada.frame()["type"] == "sent"


def test_many_sends_are_stored_in_the_order_sent(running: ServedHub, wire: Wire) -> None:
    with live(running, "ada") as ada:
        for value in range(300):
            ada.say(type="send", request=value, message={"recipient": "bob", "data": value})
        frames = ada.frames(600)
    assert sum(frame["type"] == "status" for frame in frames) == 300
    stored = wire.get("/v1/recipients/bob/messages?limit=1000").json()["messages"]
    assert [message["data"] for message in stored] == list(range(300))


# Collecting


@pytest.fixture
def chatting(tmp_path: Path) -> Any:
    settings = Settings(origin_groups={"chat": OriginGroupSettings(live_collect=True)})
    with start(tmp_path / "data", settings) as running:
        yield running


def test_a_client_may_collect_up_to_a_number(chatting: ServedHub) -> None:
    wire = Wire(chatting.url)
    with live(chatting, "ada") as ada:
        wire.publish(*[{"recipient": "ada", "origin": "chat", "kind": f"k{n % 2}", "data": n} for n in range(6)])
        wire.publish({"recipient": "ada", "origin": "other", "data": "stays"})
        fourth = numbers(ada.frames(7))[3]
        ada.say(type="collected", sequence_number=fourth)
        assert ada.frame() == {"type": "collected", "sequence_number": fourth, "messages": 4}
        ada.say(type="collected", sequence_number=fourth)
        assert ada.frame()["messages"] == 0
    history = wire.get("/v1/recipients/ada/messages").json()["messages"]
    assert [message["state"] for message in history] == ["collected"] * 4 + ["waiting"] * 3


def test_the_other_clients_hear_what_was_collected(chatting: ServedHub) -> None:
    wire = Wire(chatting.url)
    with live(chatting, "ada") as phone, live(chatting, "ada") as desk:
        wire.publish({"recipient": "ada", "origin": "chat", "data": 1})
        number = numbers(phone.frames(1))[0]
        phone.say(type="collected", sequence_number=number)
        assert desk.until("collected") == {"type": "collected", "sequence_number": number, "messages": 1}


def test_collecting_is_refused_beside_an_open_bundle_and_leaves_all_as_it_is(chatting: ServedHub) -> None:
    wire = Wire(chatting.url)
    wire.publish({"recipient": "ada", "origin": "chat", "data": 1}, {"recipient": "ada", "origin": "chat", "data": 2})
    bundle = wire.get("/v1/recipients/ada/peek?max_messages=1").json()["bundle_id"]
    with live(chatting, "ada") as ada:
        ada.say(type="collected", sequence_number=99)
        problem = ada.frame()
        assert (problem["type"], problem["code"], problem["bundle_id"]) == ("problem", "bundle_open", bundle)
        wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}")
        ada.say(type="collected", sequence_number=99)
        assert ada.frame()["messages"] == 1


def test_collecting_is_refused_where_it_is_not_switched_on(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    with live(running, "ada") as ada:
        ada.say(type="collected", sequence_number=99)
        problem = ada.frame()
    assert (problem["type"], problem["code"]) == ("problem", "invalid_request")
    assert "live_collect" in problem["detail"]


def test_collecting_completes_a_batch(chatting: ServedHub) -> None:
    wire = Wire(chatting.url)
    batch = wire("POST", "/v1/batches", {"key": "k"}).json()["id"]
    body = {"messages": [{"recipient": "ada", "origin": "chat", "data": 1}] * 3}
    wire("POST", "/v1/messages", body, headers={"Restante-Batch": batch})
    wire("POST", f"/v1/batches/{batch}/seal")
    with live(chatting, "ada", after=0) as ada:
        ada.frames(3)
        ada.say(type="collected", sequence_number=99)
        assert ada.frame()["messages"] == 3
    assert wire.get(f"/v1/batches/{batch}").json()["state"] == "complete"


# Slow readers


def test_a_client_that_reads_nothing_sees_the_gap_and_finds_the_rest_in_history(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_messages=8))
    with start(tmp_path / "data", settings) as running, live(running, "ada") as stuck, live(running, "ada") as quick:
        hub, filling = running.desk.hub, "x" * 40_000
        count = 1_000
        for value in range(count):
            hub.call(Publish.of(Message(recipient="ada", data={"value": value, "filling": filling})))
            assert quick.frame()["message"]["data"]["value"] == value
        shown: list[int] = []
        missed, counter = 0, 0
        while len(shown) < count:
            frame = stuck.frame()
            number = frame["message"]["sequence_number"]
            if frame["counter"] != counter + 1:
                page = hub.call(ReadHistory("ada", limit=1_000, after=len(shown), before=number))
                assert len(page.messages) == frame["counter"] - counter - 1
                shown += [message.data["value"] for message in page.messages]
                missed += len(page.messages)
            counter = frame["counter"]
            shown.append(frame["message"]["data"]["value"])
        assert shown == list(range(count))
        assert 100 < missed < count


def test_a_stuck_client_slows_nobody_and_takes_no_more_than_its_bound(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_messages=4, queue_bytes=64 * 1024))
    with start(tmp_path / "data", settings) as running, live(running, "ada"), live(running, "ada") as quick:
        for value in range(300):
            running.desk.hub.call(Publish.of(Message(recipient="ada", data="y" * 60_000 + str(value))))
            assert quick.frame()["counter"] == value + 1
        waiting = [len(connection.queue) for connection in running.desk.post.connections()]
        assert max(waiting) <= 4
        assert dropped(running) > 50


# Who may, and how many


def test_tokens_are_asked_and_a_recipients_token_opens_its_own_mailbox_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    ada = tokens.create(roles=[Role.RECIPIENT], recipients=["ada"])
    with start(folder) as running:
        for name, token, status in (("ada", None, 401), ("bob", ada, 403)):
            with pytest.raises(InvalidStatus) as refused, live(running, name, token=token):
                pass
            assert refused.value.response.status_code == status
        with live(running, "ada", token=ada) as talk:
            talk.say(type="send", request=1, message={"recipient": "bob", "data": 1})
            assert talk.frame()["code"] == "forbidden"


def test_a_socket_that_is_refused_is_a_line_of_the_log_as_other_requests_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = tmp_path / "data"
    folder.mkdir()
    TokenFile(folder / "tokens.json").create(roles=[Role.OPERATOR])
    with start(folder) as running:
        with pytest.raises(InvalidStatus), live(running, "ada"):
            pass
        wire = Wire(running.url)
        assert wire.get("/v1/recipients/ada/peek").status == 401
        wire.close()
    lines = [record for record in caplog.records if record.getMessage() == "request"]
    told = [{name: vars(line)["fields"][name] for name in ("route", "status", "code")} for line in lines]
    assert told == [
        {"route": f"/v1/recipients/{{recipient}}/{name}", "status": 401, "code": "unauthenticated"}
        for name in ("live", "peek")
    ]
    assert {line.levelname for line in lines} == {"INFO"}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_revoked_token_ends_the_connection_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secret = tokens.create(roles=[Role.RECIPIENT], expires_at=datetime.now(UTC) + timedelta(hours=1))
    with start(folder) as running, live(running, "ada", token=secret) as talk:
        tokens.revoke(tokens.listed()[0].id)
        frame = talk.frame()
        assert (frame["type"], frame["reason"]) == ("disconnect", "token_expired")
        with pytest.raises(ConnectionClosed) as closed:
            talk.frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize(
    ("limits", "names"), [({"connections_max": 2}, "ab"), ({"recipient_connections_max": 2}, "aa")]
)
def test_too_many_connections_are_refused_until_one_has_gone(
    tmp_path: Path, limits: dict[str, int], names: str
) -> None:
    with start(tmp_path / "data", Settings(live=LiveSettings(**limits))) as running:
        with live(running, names[0]), live(running, names[1]):
            with pytest.raises(InvalidStatus) as refused, live(running, "a"):
                pass
            assert refused.value.response.status_code == 429
            assert refused.value.response.headers["retry-after"] == "5"
            assert json.loads(refused.value.response.body or b"")["code"] == "overloaded"
        wait_until(lambda: not len(running.desk.post), "nobody is connected")
        with live(running, "a"):
            assert len(running.desk.post) == 1


@pytest.mark.parametrize(
    ("query", "parameter"), [({"after": "-1"}, "after"), ({"colour": "red"}, "colour"), ({"client": ""}, "client")]
)
def test_a_wrong_query_is_refused_by_name(running: ServedHub, query: dict[str, str], parameter: str) -> None:
    with pytest.raises(InvalidStatus) as refused, live(running, "ada", **query):
        pass
    problem = json.loads(refused.value.response.body or b"")
    assert (problem["status"], problem["parameter"]) == (400, parameter)


@pytest.mark.parametrize("said", ["nonsense", '{"type": "dance"}', "[]", b"\x00\x01"])
def test_what_is_no_frame_ends_the_connection_with_the_reason(running: ServedHub, said: str | bytes) -> None:
    with live(running, "ada") as talk:
        talk.socket.send(said)
        frame = talk.frame()
        assert (frame["type"], frame["reason"]) == ("disconnect", "protocol_error")
        with pytest.raises(ConnectionClosed):
            talk.frame()


def test_when_the_hub_drains_everybody_is_told_and_gets_what_waits_first(tmp_path: Path) -> None:
    running = start(tmp_path / "data")
    with ExitStack() as stack:
        talks = [stack.enter_context(live(running, f"r{number}")) for number in range(20)]
        running.desk.hub.call(Publish.of(table([f"r{number}" for number in range(20)], list(range(20)))))
        running.stop()
        for number, talk in enumerate(talks):
            message, goodbye = talk.frames(2)
            assert message["message"]["data"] == number
            assert (goodbye["type"], goodbye["reason"]) == ("disconnect", "draining")
            assert 0 <= goodbye["reconnect_after"] < 10
            with pytest.raises(ConnectionClosed) as closed:
                talk.frame()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001


# Server-sent events


def test_events_carry_the_same_frames_and_resume_after_the_last_id(running: ServedHub, wire: Wire) -> None:
    events = Events(running, "ada")
    assert (events.status, events.headers["content-type"]) == (200, "text/event-stream")
    stream = iter(events)
    assert next(stream)[1]["type"] == "connected"
    for value in range(3):
        wire.publish({"recipient": "ada", "data": value})
    found = [next(stream) for _ in range(3)]
    assert [frame["message"]["data"] for _, frame in found] == [0, 1, 2]
    assert [own_id for own_id, _ in found] == [frame["message"]["sequence_number"] for _, frame in found]
    events.close()
    again = Events(running, "ada", headers={"Last-Event-ID": str(found[0][0])})
    stream = iter(again)
    assert next(stream)[1] == {"type": "connected", "sequence_number": found[0][0], "client": ""}
    assert [next(stream)[1]["message"]["data"] for _ in range(2)] == [1, 2]
    again.close()


def test_a_slow_reader_of_events_misses_nothing(tmp_path: Path) -> None:
    with start(tmp_path / "data", Settings(live=LiveSettings(queue_messages=4))) as running:
        events = Events(running, "ada")
        stream = iter(events)
        next(stream)
        for value in range(800):
            running.desk.hub.call(Publish.of(Message(recipient="ada", data=[value, "z" * 20_000])))
        found = [next(stream)[1] for _ in range(800)]
        events.close()
    assert [frame["counter"] for frame in found] == list(range(1, 801))
    assert [frame["message"]["data"][0] for frame in found] == list(range(800))


def test_events_end_with_a_disconnect_when_the_hub_drains(tmp_path: Path) -> None:
    running = start(tmp_path / "data")
    events = Events(running, "ada")
    stream = iter(events)
    next(stream)
    running.stop()
    assert [frame["reason"] for _, frame in stream] == ["draining"]
    events.close()


def test_a_plain_get_is_told_what_to_ask_for(wire: Wire) -> None:
    answer = wire.get("/v1/recipients/ada/live")
    assert (answer.status, answer.problem["code"]) == (406, "not_acceptable")
    bad = wire.get("/v1/recipients/ada/live", accept="text/event-stream", last_event_id="x")
    assert (bad.status, bad.problem["parameter"]) == (400, "Last-Event-ID")


def test_events_are_asked_for_by_their_type_in_any_case(wire: Wire) -> None:
    for accept in ("Text/Event-Stream", "application/json, TEXT/EVENT-STREAM;q=0.5"):
        answer = wire.get("/v1/recipients/ada/live", accept=accept, last_event_id="x")
        assert answer.problem["parameter"] == "Last-Event-ID"


@pytest.mark.parametrize("accept", ["text/event-stream;q=0", "text/event-streams", "text/*", "*/*"])
def test_a_type_that_only_looks_like_events_gets_none(wire: Wire, accept: str) -> None:
    assert wire.get("/v1/recipients/ada/live", accept=accept, last_event_id="x").status == 406


def test_a_client_that_does_not_answer_pings_is_told_and_let_go(tmp_path: Path) -> None:
    settings = Settings(server=ServerSettings(answer_idle_seconds=0.3))
    with start(tmp_path / "data", settings) as running:
        parts = urlsplit(running.url)
        with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20) as own:
            own.sendall(
                b"GET /v1/recipients/ada/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            received = b""
            while piece := own.recv(65_536):
                received += piece
        assert b'{"type":"connected"' in received
        assert b'{"type":"disconnect","reason":"idle"}' in received
        wait_until(lambda: not len(running.desk.post), "nobody is connected")


def test_who_sends_without_reading_the_answers_is_not_read_from_either(chatting: ServedHub) -> None:
    with live(chatting, "ada") as ada:
        for value in range(2_000):
            ada.say(type="send", request=value, message={"recipient": "bob", "data": "x" * 500})
            ada.say(type="collected", sequence_number=1)
        (connection,) = chatting.desk.post.connections()
        assert len(connection._frames) <= 2 * 64 + 2
        frames = ada.frames(6_000)
    assert sum(frame["type"] == "status" for frame in frames) == 2_000


def test_clients_that_count_differently_each_get_their_own_counters_of_a_parcel(running: ServedHub) -> None:
    names = [f"r{number % 10}" for number in range(400)]
    with live(running, "r3") as early:
        running.desk.hub.call(Publish.of(table(["r3"] * 3, ["a", "b", "c"])))
        assert [frame["counter"] for frame in early.frames(3)] == [1, 2, 3]
        with live(running, "r3") as late, live(running, "r4") as other:
            running.desk.hub.call(Publish.of(table(names, list(range(400)))))
            for talk, first, place in ((early, 4, 3), (late, 1, 3), (other, 1, 4)):
                frames = talk.frames(40)
                assert [frame["counter"] for frame in frames] == list(range(first, first + 40))
                assert [frame["message"]["data"] for frame in frames] == list(range(place, 400, 10))


def test_a_parcel_may_hold_small_and_large_messages(running: ServedHub) -> None:
    sizes = [1, 60_000, 65_536, 70_000, 200_000, 2]
    with live(running, "r1") as talk:
        running.desk.hub.call(
            Publish.of(table(["r1", "r2"] * 100 + ["r1"] * 6, [""] * 200 + ["x" * size for size in sizes]))
        )
        frames = talk.frames(106)
    assert [len(frame["message"]["data"]) for frame in frames] == [0] * 100 + sizes


def test_when_pushing_fails_everybody_gets_the_messages_from_history(
    running: ServedHub, wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault that nobody has thought of must cost time, and no message."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with live(running, "ada") as ada, monkeypatch.context() as faulty:
        faulty.setattr("restante.server.live.connected_clients.letter_json", fail)
        faulty.setattr("restante.server.live.connected_clients.parcel_rows", fail)
        wire.publish({"recipient": "ada", "data": 1})
        running.desk.hub.call(Publish.of(table(["ada"] * 100, list(range(2, 102)))))
        assert ada.data(101) == list(range(1, 102))
    assert "get them from history" in caplog.text


def test_a_slow_reader_of_events_misses_nothing_either_when_bytes_are_what_fills_its_queue(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_bytes=100 * 1024))
    with start(tmp_path / "data", settings) as running:
        events = Events(running, "ada")
        stream = iter(events)
        next(stream)
        for value in range(600):
            running.desk.hub.call(Publish.of(Message(recipient="ada", data=[value, "z" * 30_000])))
        found = [next(stream)[1] for _ in range(600)]
        events.close()
    assert [frame["message"]["data"][0] for frame in found] == list(range(600))


def test_a_quick_client_gets_large_messages_of_one_commit_without_a_gap(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_bytes=64 * 1024))
    with start(tmp_path / "data", settings) as running, live(running, "ada") as ada:
        running.desk.hub.call(Publish.of([Message(recipient="ada", data="x" * 50_000) for _ in range(8)]))
        assert [frame["counter"] for frame in ada.frames(8)] == list(range(1, 9))


def test_events_are_whole_also_where_json_came_with_line_breaks(running: ServedHub) -> None:
    events = Events(running, "ada")
    stream = iter(events)
    next(stream)
    pretty = b'{\n  "a": 1,\r\n  "b": "c\\n"\n}'
    running.desk.hub.call(Publish.of(Message(recipient="ada", data=pretty, media_type="application/json")))
    assert next(stream)[1]["message"]["data"] == {"a": 1, "b": "c\n"}
    events.close()


def test_the_disconnect_is_the_last_event_though_messages_wait(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secret = tokens.create(roles=[Role.RECIPIENT])
    with start(folder) as running:
        events = Events(running, "ada", headers={"Authorization": f"Bearer {secret}"})
        stream = iter(events)
        next(stream)
        for value in range(300):
            running.desk.hub.call(Publish.of(Message(recipient="ada", data=[value, "z" * 30_000])))
        tokens.revoke(tokens.listed()[0].id)
        frames = [frame for _, frame in stream]
        events.close()
    assert frames[-1]["reason"] == "token_expired"
    assert [frame["type"] for frame in frames[:-1]] == ["message"] * (len(frames) - 1)


def test_who_is_told_to_go_gets_nothing_new_so_no_gap_can_hide(tmp_path: Path) -> None:
    """A message that comes while a slow client is sent away is left to its next connection."""
    running = start(tmp_path / "data")
    with live(running, "ada") as slow:
        hub = running.desk.hub
        for value in range(400):
            hub.call(Publish.of(Message(recipient="ada", data=[value, "x" * 50_000])))
        (connection,) = running.desk.post.connections()
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        wait_until(lambda: connection.ending, "it is told to go")
        hub.call(Publish.of(table(["ada"] * 300, list(range(300)))))
        hub.call(Publish.of(Message(recipient="ada", data=[0, "last"])))
        frames = []
        with suppress(ConnectionClosed):
            while True:
                frames.append(slow.frame())
        stopping.join()
    shown = [(frame["counter"], frame["message"]["sequence_number"]) for frame in frames if frame["type"] == "message"]
    assert all(counter == number for counter, number in shown), "counters tell of everything that is missing"
    assert max(number for _, number in shown) <= 400


def test_a_replay_that_fails_ends_the_connection_and_says_why(
    running: ServedHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("restante.server.live.replay.read_page", fail)
    with live(running, "ada", after=0) as ada:
        frame = ada.frame()
        assert (frame["type"], frame["reason"]) == ("disconnect", "failed")
        with pytest.raises(ConnectionClosed):
            ada.frame()
    assert "A replay failed" in caplog.text


def test_clients_of_partitions_that_moved_are_told_where_and_no_others(running: ServedHub) -> None:
    names = [f"r{number}" for number in range(12)]
    hub = running.desk.hub
    home = {name: hub.call(PartitionOf(name)) for name in names}
    partition = home[names[0]]
    with ExitStack() as stack:
        talks = {name: stack.enter_context(live(running, name)) for name in names}
        loop = running._loop
        assert loop is not None
        loop.call_soon_threadsafe(running.desk.post.move, {partition}, "http://hub-2.example")
        for name in names:
            if home[name] == partition:
                assert talks[name].frame() == {
                    "type": "disconnect",
                    "reason": "moved",
                    "owner": "http://hub-2.example",
                }
        running.desk.hub.call(Publish.of(table(names, list(range(12)))))
        for number, name in enumerate(names):
            if home[name] != partition:
                assert talks[name].data(1) == [number]


@pytest.mark.parametrize("character", ["x", "é", "\n", "\x01"])
def test_the_largest_text_is_sent_and_pushed_however_json_writes_it(running: ServedHub, character: str) -> None:
    text = character * (DATA_BYTES_MAX // len(character.encode()))
    with live(running, "ada") as sender, live(running, "bob") as talk:
        sender.say(type="send", request=1, message={"recipient": "bob", "text": text})
        assert sender.until("status")["status"] == "processed"
        assert talk.until("message")["message"]["text"] == text


def test_a_frame_that_is_too_long_ends_the_connection(running: ServedHub) -> None:
    with live(running, "ada") as talk:
        talk.say(type="send", request=1, message={"recipient": "bob", "data": "x" * 9_000_000})
        frame = talk.frame()
        assert (frame["type"], frame["reason"]) == ("disconnect", "protocol_error")


def test_a_send_with_a_wrong_request_is_a_problem_and_the_talk_goes_on(running: ServedHub) -> None:
    with live(running, "ada") as talk:
        talk.say(type="send", request="7", message={"recipient": "bob", "data": 1})
        problem = talk.frame()
        assert (problem["type"], problem["code"], "request" in problem) == ("problem", "invalid_request", False)
        talk.say(type="send", request=8, message={"recipient": "bob", "data": 1})
        assert talk.frame()["request"] == 8


def test_echoes_for_a_stuck_client_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_bytes=200 * 1024))
    with start(tmp_path / "data", settings) as running, live(running, "ada"), live(running, "ada") as sender:
        stuck = next(running.desk.post.connections())
        for value in range(40):
            sender.say(type="send", request=value, message={"recipient": "bob", "data": "x" * 100_000})
            assert sender.until("status")["status"] == "processed"
        sender.say(type="send", request=99, message={"recipient": "bob", "data": 1})
        sender.until("status")
        assert stuck._frames
        assert stuck.has_room_for(b"")
        assert running.desk.post.tally.echoes_dropped > 10


def test_what_is_released_where_mail_is_collected_by_number_is_pushed_before_it_is_collected(
    chatting: ServedHub,
) -> None:
    wire = Wire(chatting.url)
    wire.publish(*[{"recipient": "ada", "origin": "chat", "data": value} for value in range(2)])
    wire.publish({"recipient": "ada", "origin": "chat", "id": UUID, "data": 2})
    wire("POST", f"/v1/recipients/ada/messages/{UUID}/set-aside")
    wire.publish({"recipient": "ada", "origin": "chat", "data": 3})
    with live(chatting, "ada", after=0) as ada:
        last = numbers(ada.frames(3))[-1]
        wire("POST", f"/v1/recipients/ada/messages/{UUID}/release")
        assert ada.frame()["message"]["data"] == 2
        ada.say(type="collected", sequence_number=last)
        assert ada.frame()["messages"] == 3
