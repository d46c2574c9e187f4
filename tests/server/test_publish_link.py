"""The pipelined link over a real WebSocket: frames, their order, their answers, and its end."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from restante.limits import PRODUCER_GROUP_MAX
from restante.model.access.access import Role
from restante.model.storage.partition import partition_of
from restante.server.access.tokens import TokenFile
from restante.server.connections.short_frames import ShortFrames
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.test_fuzz import HANDSHAKE
from tests.server.test_publishing import arrow_body
from tests.server.wire import Wire
from tests.waiting import wait_until

ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"
HOME = partition_of("ada", 16)


def address(running: ServedHub, path: str = "/v1/publish") -> str:
    return running.url.replace("http", "ws") + path


@pytest.fixture(params=["short", "long"])
def link(
    running: ServedHub, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClientConnection]:
    """A link whose small frames go the short way, and one where all frames go the long way."""
    if request.param == "long":
        monkeypatch.setattr(ShortFrames, "_submitted", lambda *_: False)
    with connect(address(running)) as link:
        yield link


@pytest.fixture
def shorts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each frame whether it went the short way."""
    found: list[bool] = []
    takes = ShortFrames.takes

    def noted(self: ShortFrames, frame: bytes | None) -> bool:
        found.append(takes(self, frame))
        return found[-1]

    monkeypatch.setattr(ShortFrames, "takes", noted)
    return found


def text(number: int, *messages: dict[str, object], **more: object) -> str:
    return json.dumps({"number": number, **more, "messages": messages})


def binary(number: int, table: pa.Table, **more: object) -> bytes:
    head = json.dumps({"number": number, **more}).encode()
    return struct.pack(">I", len(head)) + head + arrow_body(table)


def numbered(first: int, *, group: int = 7, level: int = 0) -> dict[str, Any]:
    producer = {"group": group, "owner_level": level, "published_sequence": first}
    return {"partition": HOME, "producer": producer}


def data_of(wire: Wire) -> list[object]:
    return [message["data"] for message in wire.get("/v1/recipients/ada/messages?limit=1000").json()["messages"]]


def json_table(values: list[int]) -> pa.Table:
    return pa.table(
        {
            "recipient": ["ada"] * len(values),
            "data": [str(value).encode() for value in values],
            "media_type": ["application/json"] * len(values),
        }
    )


def answers(link: ClientConnection, count: int) -> list[dict[str, Any]]:
    return [json.loads(link.recv(timeout=30)) for _ in range(count)]


def warm_up(link: ClientConnection, shorts: list[bool]) -> None:
    """Send a frame: the first may come before anybody takes frames on their short way."""
    link.send(text(0, {"recipient": "zoe", "data": 0}))
    assert answers(link, 1)[0]["accepted"] == 1
    shorts.clear()


def test_each_frame_is_answered_by_its_number_as_a_publish_is(link: ClientConnection, wire: Wire) -> None:
    link.send(text(7, {"recipient": "ada", "id": ID, "data": 1}))
    (first,) = answers(link, 1)
    assert (first["number"], first["accepted"], first["duplicates"]) == (7, 1, 0)
    assert first["partitions"][0]["first_sequence_number"] == 1
    link.send(text(8, {"recipient": "ada", "id": ID, "data": 1}))
    assert answers(link, 1) == [{"number": 8, "accepted": 0, "duplicates": 1, "partitions": []}]
    assert [message["data"] for message in wire.get("/v1/recipients/ada/messages").json()["messages"]] == [1]


def test_frames_are_stored_in_the_order_sent_large_and_small_alike(link: ClientConnection, wire: Wire) -> None:
    expected: list[int] = []
    for number in range(60):
        if number % 3 == 1:
            data = [number * 1_000 + place for place in range(300)]
            link.send(binary(number, json_table(data)))
        else:
            data = [number * 1_000]
            link.send(text(number, {"recipient": "ada", "data": data[0]}))
        expected += data
    assert sorted(answer["number"] for answer in answers(link, 60)) == list(range(60))
    body = wire.get("/v1/recipients/ada/peek").json()
    assert [message["data"] for message in body["messages"]] == expected


def test_small_plain_frames_go_the_short_way_and_no_other(running: ServedHub, shorts: list[bool]) -> None:
    one = {"recipient": "ada", "data": 1}
    frames: list[tuple[str | bytes, bool]] = [
        (text(1, one), True),
        (text(2, one, partition=HOME), True),
        (text(3, {"recipient": "ada", "text": "Zoë", "properties": {"a": "b"}}), True),
        (text(4, one, **numbered(0)), False),
        (text(5, one, partition=None), False),
        (text(6, one, batch=ID), False),
        (text(7, *[one] * 200), False),
        (text(8), False),
        (binary(9, json_table([1])), False),
    ]
    with connect(address(running)) as link:
        warm_up(link, shorts)
        for frame, _ in frames:
            link.send(frame)
            assert "number" in answers(link, 1)[0]
        assert shorts == [short for _, short in frames]
        # The last one took the long way: it may be answered a moment before its place is free.
        for number in range(10, 20):
            link.send(text(number, one))
            assert answers(link, 1)[0]["accepted"] == 1
    assert shorts[-1]


def test_frames_that_alternate_between_the_ways_are_stored_in_order(
    running: ServedHub, wire: Wire, shorts: list[bool]
) -> None:
    with connect(address(running)) as link:
        for number in range(300):
            message: dict[str, object] = {"recipient": "ada", "data": number}
            if number % 7 == 3:
                link.send(text(number, message | {"source_position": number}, source="journal"))
            else:
                link.send(text(number, message))
        found = answers(link, 300)
    assert [answer.get("problem") for answer in found] == [None] * 300
    assert sorted(answer["number"] for answer in found) == data_of(wire) == list(range(300))
    assert any(shorts)
    assert not all(shorts)


def test_answers_to_small_frames_leave_in_the_order_of_the_frames_refused_ones_among_them(
    running: ServedHub, shorts: list[bool]
) -> None:
    with connect(address(running)) as link:
        warm_up(link, shorts)
        for number in range(500):
            link.send(text(number, {"recipient": "ada", "id": ID, "data": number % 2}))
        found = answers(link, 500)
    assert [answer["number"] for answer in found] == list(range(500))
    assert [answer["number"] for answer in found if "problem" in answer] == list(range(1, 500, 2))
    assert all(shorts)


def test_a_conflict_and_a_duplicate_on_the_short_way_are_answered_as_on_the_long_one(
    running: ServedHub, shorts: list[bool]
) -> None:
    with connect(address(running)) as link:
        warm_up(link, shorts)
        for number, data in enumerate((1, 1, 2)):
            link.send(text(number, {"recipient": "ada", "id": ID, "data": data}))
        first, again, other = answers(link, 3)
    assert (first["accepted"], again["duplicates"]) == (1, 1)
    assert other["problem"]["code"] == "message_conflict"
    assert other["problem"]["errors"][0]["id"] == ID
    assert all(shorts)


def test_a_client_that_reads_no_answers_is_not_read_from_for_ever(running: ServedHub, shorts: list[bool]) -> None:
    """What it sent is stored, as far as it was read; others are not held up, and nothing takes room once it has gone."""
    frame = text(1, {"recipient": "ada", "data": 1}).encode()
    with closing(socket.create_connection(("127.0.0.1", urlsplit(running.url).port or 0), 30)) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.sendall(HANDSHAKE)
        assert b" 101 " in stuck.recv(4_096)
        masked = struct.pack(">BB", 0x81, 0x80 | len(frame)) + bytes(4) + frame
        stuck.settimeout(2)
        with suppress(TimeoutError):
            for _ in range(10_000):
                stuck.sendall(masked * 50)
            pytest.fail("the hub reads for ever from a client that reads nothing")
        assert False in shorts
        with connect(address(running)) as link:
            link.send(text(1, {"recipient": "ben", "data": 1}))
            assert answers(link, 1)[0]["accepted"] == 1
    room = running.desk.room
    wait_until(lambda: (room.publishes, room.publish_bytes) == (0, 0))


def test_a_refused_frame_has_its_problem_and_the_others_go_on(link: ClientConnection) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}))
    link.send(text(2, {"recipient": "ada", "data": 1}, {"recipient": "", "data": 1}))
    link.send(text(3, {"recipient": "ada", "data": 1}))
    found = {answer["number"]: answer for answer in answers(link, 3)}
    assert found[2]["problem"]["code"] == "invalid_message"
    assert [error["index"] for error in found[2]["problem"]["errors"]] == [1]
    assert (found[1]["accepted"], found[3]["accepted"]) == (1, 1)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        '{"messages": []}',
        '{"number": 1, "messages": [], "colour": 1}',
        '{"number": "1", "messages": []}',
        '{"number": 1, "messages": {"recipient": "ada", "data": 1}}',
        '{"number": 1, "messages": {"messages": [{"recipient": "ada", "data": 1}]}}',
        b"",
        b"\x00\x00",
        b"\xff\xff\xff\xff{}",
        struct.pack(">I", 2) + b"{}",
    ],
)
def test_a_frame_that_cannot_be_read_is_answered_and_the_link_lives(link: ClientConnection, frame: str | bytes) -> None:
    link.send(frame)
    assert answers(link, 1)[0]["problem"]["code"] == "invalid_request"
    link.send(text(9, {"recipient": "ada", "data": 1}))
    assert answers(link, 1)[0]["accepted"] == 1


def test_a_frame_whose_arrow_is_damaged_is_answered_by_its_number(link: ClientConnection) -> None:
    table = pa.table({"recipient": ["ada"], "data": [b"1"]})
    link.send(binary(5, table)[:-40])
    (answer,) = answers(link, 1)
    assert (answer["number"], answer["problem"]["code"]) == (5, "invalid_request")


def test_a_frame_may_name_its_partition(link: ClientConnection, wire: Wire) -> None:
    home = wire.get("/v1/recipients/ada/partition").json()["partition"]
    link.send(text(1, {"recipient": "ada", "data": 1}, partition=home))
    link.send(text(2, {"recipient": "ada", "data": 1}, partition=(home + 1) % 16))
    link.send(text(3, {"recipient": "ada", "data": 1}, partition=99))
    found = {answer["number"]: answer for answer in answers(link, 3)}
    assert found[1]["accepted"] == 1
    assert found[2]["problem"]["code"] == "partition_mismatch"
    assert found[3]["problem"]["code"] == "partition_unknown"


def test_a_batch_that_is_no_uuid_is_refused_and_its_field_named(link: ClientConnection) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}, batch="b"))
    problem = answers(link, 1)[0]["problem"]
    assert (problem["code"], problem["field"]) == ("invalid_request", "batch")


def test_frames_that_have_a_source_keep_their_place_among_others(link: ClientConnection, wire: Wire) -> None:
    for number in range(60):
        message: dict[str, object] = {"recipient": "ada", "data": number}
        sourced = {"source_position": number} if number % 2 else {}
        link.send(text(number, message | sourced, **({"source": "journal"} if number % 2 else {})))
    assert [json.loads(link.recv(30)).get("accepted") for _ in range(60)] == [1] * 60
    assert data_of(wire) == list(range(60))


def test_numbered_frames_follow_each_other_without_waiting_and_are_all_stored_in_order(
    link: ClientConnection, wire: Wire
) -> None:
    for number in range(300):
        link.send(text(number, {"recipient": "ada", "data": number}, **numbered(number)))
    found = answers(link, 300)
    assert [answer.get("problem") for answer in found] == [None] * 300
    assert [answer["number"] for answer in found] == list(range(300))
    assert data_of(wire) == list(range(300))
    state = wire.get(f"/v1/partitions/{HOME}/producers/7").json()
    assert state["last_published_sequence_number"] == 299


def test_large_and_small_numbered_frames_keep_their_order(link: ClientConnection, wire: Wire) -> None:
    expected: list[int] = []
    for number in range(30):
        count = 200 if number % 3 == 1 else 1
        values = [len(expected) + place for place in range(count)]
        if count > 1:
            link.send(binary(number, json_table(values), **numbered(values[0])))
        else:
            link.send(text(number, {"recipient": "ada", "data": values[0]}, **numbered(values[0])))
        expected += values
    assert [answer.get("problem") for answer in answers(link, 30)] == [None] * 30
    assert wire.get("/v1/recipients/ada/peek").json()["messages"][-1]["sequence_number"] == len(expected)
    assert data_of(wire) == expected[:1_000]


def test_no_frame_overtakes_the_numbered_ones_before_it(link: ClientConnection, wire: Wire) -> None:
    """One of a group is stored in a commit: others that come behind must wait for those that wait."""
    sent = 0
    for turn in range(10):
        for _ in range(5):
            link.send(text(sent, {"recipient": "ada", "data": sent}, **numbered(sent - 2 * turn)))
            sent += 1
        link.send(text(sent, {"recipient": "ada", "data": sent}, **numbered(turn, group=8)))
        link.send(text(sent + 1, {"recipient": "ada", "data": sent + 1}))
        sent += 2
    assert [answer.get("problem") for answer in answers(link, sent)] == [None] * sent
    assert data_of(wire) == list(range(sent))


def test_a_numbered_frame_again_is_answered_as_it_was(link: ClientConnection, wire: Wire) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}, **numbered(0)))
    link.send(text(2, {"recipient": "ada", "data": 1}, **numbered(0)))
    first, again = answers(link, 2)
    assert "replayed" not in first
    assert again == first | {"number": 2, "replayed": True}
    assert data_of(wire) == [1]


def test_a_numbered_frame_that_is_refused_says_why_and_so_do_those_behind_it(
    link: ClientConnection, wire: Wire
) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}, **numbered(0, level=1)))
    link.send(text(2, {"recipient": "", "data": 1}, **numbered(1, level=1)))
    link.send(text(3, {"recipient": "ada", "data": 3}, **numbered(2, level=1)))
    link.send(text(4, {"recipient": "ada", "data": 4}, **numbered(0, level=0)))
    problems: dict[int, Any] = {answer["number"]: answer.get("problem") for answer in answers(link, 4)}
    assert problems[1] is None
    assert problems[2]["code"] == "invalid_message"
    assert (problems[3]["code"], problems[3]["expected"]) == ("invalid_client_state", 1)
    assert (problems[4]["code"], problems[4]["received"], problems[4]["current"]) == ("producer_disconnected", 0, 1)
    assert data_of(wire) == [1]


def test_the_largest_group_passes_a_frame_exactly(link: ClientConnection, wire: Wire) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}, **numbered(0, group=PRODUCER_GROUP_MAX)))
    assert answers(link, 1)[0]["accepted"] == 1
    (shown,) = wire.get(f"/v1/partitions/{HOME}/producers").json()["producers"]
    assert shown["producer_group"] == PRODUCER_GROUP_MAX


@pytest.mark.parametrize(
    "more",
    [
        {"producer": {"group": 7, "owner_level": 0, "published_sequence": 0}},
        {"partition": 0, "producer": {"group": "7", "owner_level": 0, "published_sequence": 0}},
        {"partition": 0, "producer": {"group": 7, "owner_level": 0}},
        {"partition": 0, "producer": {"group": 2**63, "owner_level": 0, "published_sequence": 0}},
        {"partition": 0, "producer": {"group": 2**200, "owner_level": 0, "published_sequence": 0}},
        {"partition": 0, "producer": {"group": 7, "owner_level": 2**15, "published_sequence": 0}},
        {"partition": 0, "producer": {"group": 7, "owner_level": 0, "published_sequence": 2**31}},
        {"partition": 0, "producer": {"group": 7, "owner_level": 0, "published_sequence": -1}},
    ],
)
def test_numbers_that_make_no_sense_are_refused(link: ClientConnection, wire: Wire, more: dict[str, object]) -> None:
    link.send(text(1, {"recipient": "ada", "data": 1}, **more))
    assert answers(link, 1)[0]["problem"]["code"] == "invalid_request"
    assert data_of(wire) == []


def test_a_frame_that_finds_no_room_is_told_to_come_back(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"publishes_waiting_max": 1}, ServerSettings))
    with start(tmp_path / "data", settings) as running, connect(address(running)) as link:
        running.desk.room.publishes = 1
        link.send(text(1, {"recipient": "ada", "data": 1}))
        (refused,) = answers(link, 1)
        assert (refused["number"], refused["problem"]["code"], refused["problem"]["retriable"]) == (
            1,
            "overloaded",
            True,
        )
        running.desk.room.publishes = 0
        link.send(text(2, {"recipient": "ada", "data": 1}))
        assert answers(link, 1)[0]["accepted"] == 1
        assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)


def test_a_defect_is_answered_by_the_number_of_its_frame(
    link: ClientConnection, running: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a secret of the inside")

    for way in ("publish_soon", "publish_letters_soon"):
        monkeypatch.setattr(type(running.desk.hub), way, broken)
    link.send(text(4, {"recipient": "ada", "data": 1}))
    (answer,) = answers(link, 1)
    assert (answer["number"], answer["problem"]["code"]) == (4, "internal")
    assert "secret" not in json.dumps(answer)


def test_the_link_asks_for_a_token_where_the_hub_does(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    publisher = tokens.create(roles=[Role.PUBLISHER], origins=["mine"])
    recipient = tokens.create(roles=[Role.RECIPIENT], recipients=["ada"])
    with start(tmp_path / "data") as running:
        for headers, status in (({}, 401), ({"authorization": f"Bearer {recipient}"}, 403)):
            with pytest.raises(InvalidStatus) as refused:
                connect(address(running), additional_headers=headers)
            assert refused.value.response.status_code == status
            assert json.loads(refused.value.response.body)["status"] == status
        with connect(address(running), additional_headers={"authorization": f"Bearer {publisher}"}) as link:
            link.send(text(1, {"recipient": "ada", "data": 1, "origin": "mine"}))
            link.send(text(2, {"recipient": "ada", "data": 1, "origin": "other"}))
            found = {answer["number"]: answer for answer in answers(link, 2)}
        assert found[1]["accepted"] == 1
        assert found[2]["problem"]["code"] == "forbidden"


def test_there_is_no_other_link(running: ServedHub) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(address(running, "/v1/elsewhere"))
    assert refused.value.response.status_code == 404


@pytest.mark.parametrize("count", [0, 1, 400])
def test_a_hub_that_ends_answers_what_it_has_and_says_goodbye(tmp_path: Path, count: int) -> None:
    """What it stored it also answers, and what it answers it has stored."""
    settings = Settings(server=msgspec.convert({"drain_seconds": 9}, ServerSettings))
    running = start(tmp_path / "data", settings)
    with connect(address(running)) as link, ThreadPoolExecutor(1) as ending:
        link.send(text(0, {"recipient": "ada", "data": 0}))
        found = answers(link, 1)
        for number in range(1, count + 1):
            link.send(text(number, {"recipient": "ada", "data": number}))
        ended = ending.submit(running.stop)
        found += [json.loads(text) for text in link]
        ended.result()
        assert link.close_code == 1001
    assert [answer["number"] for answer in found] == list(range(len(found)))
    with start(tmp_path / "data") as again:
        assert data_of(Wire(again.url)) == list(range(len(found)))
