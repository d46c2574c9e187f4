"""One message for many: the data once on the wire, a message for each recipient, the same id for all."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import restante
from restante import Message
from restante.client.publishing.sendable import sendable
from restante.client.surface import sync
from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import SEND_BYTES_MAX, SEND_MESSAGES_MAX
from restante.model.publishing.few_or_many import few_or_many
from restante.server.serve import ServedHub
from restante.wire.publish import encode_publish

ALL = ["ada", "bob", "carol"]


def told(hub: sync.Hub, recipient: str) -> list[tuple[str | None, Any]]:
    return [(message.id, message.data) for message in hub.recipient(recipient).history().messages]


def post(running: ServedHub, body: object) -> tuple[int, dict[str, Any]]:
    request = Request(f"{running.url}/v1/messages", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_each_recipient_gets_it_under_the_same_id(either: sync.Hub) -> None:
    assert either.send(recipients=ALL, data={"n": 1}, id="one").accepted == 3
    assert [told(either, name) for name in ALL] == [[("one", {"n": 1})]] * 3
    assert either.send({"recipients": ALL, "data": {"n": 1}, "id": "one"}).duplicates == 3
    assert either.send(recipient="bob", data={"n": 1}, id="one").duplicates == 1


@pytest.mark.parametrize(
    "data", [{"text": "héllo"}, {"data": b"\x00"}, {"data": None}, {"data": "text"}, {"data": [1.5]}]
)
def test_whatever_the_data_is(either: sync.Hub, data: dict[str, Any]) -> None:
    either.send(recipient="alone", id="x", **data)
    either.send(recipients=tuple(ALL), id="x", **data)
    (alone,) = either.recipient("alone").history().messages
    for name in ALL:
        (message,) = either.recipient(name).history().messages
        assert (message.data, message.text, message.media_type) == (alone.data, alone.text, alone.media_type)


def test_lists_may_mix(either: sync.Hub) -> None:
    sent = [
        {"recipients": ALL, "text": "all"},
        Message(recipient="ada", text="you"),
        {"recipients": ["bob"], "text": "b"},
    ]
    assert either.send(sent).accepted == 5
    assert [data for _, data in told(either, "ada")] == ["all", "you"]
    assert either.send([*sent, *[Message(recipient="ada", text="more")] * 80]).accepted == 85


def test_the_data_is_once_in_the_body() -> None:
    sent = sendable({"recipients": [f"r{n}" for n in range(1_000)], "text": "x" * 1_000_000})
    encoded = encode_publish(few_or_many(sent), random=bytes, now_ms=0)
    assert encoded.content_type == "application/json"
    assert len(encoded.body) < 1_020_000


def test_many_recipients_are_one_send(either: sync.Hub) -> None:
    names = [f"r{number}" for number in range(5_000)]
    assert either.send(recipients=names, text="hello", id="x").accepted == 5_000
    assert either.send(recipients=names, text="hello", id="x").duplicates == 5_000


def test_other_ways_to_send_spread_it_too(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        pipeline.send({"recipients": ALL, "text": "pipeline"})
    with either.consignment("k") as consignment:
        assert consignment.stage("w", 0, {"recipients": ALL, "text": "staged"}) == 3
        assert consignment.stage("w", 0, ({"recipients": ALL, "text": str(n)} for n in range(2))) == 6
    with restante.BufferedProducer(either) as buffered:
        buffered.enqueue({"recipients": ALL, "text": "buffered"})
    for name in ALL:
        assert {data for _, data in told(either, name)} == {"pipeline", "staged", "0", "1", "buffered"}


def test_where_one_is_asked_for_it_is_refused(either: sync.Hub) -> None:
    with pytest.raises(InvalidRequest, match="one recipient"):
        restante.Parcel(0).try_add({"recipients": ALL, "text": "x"})
    with either.recipient("ada").live() as live, pytest.raises(InvalidRequest, match="one recipient"):
        live.send({"recipients": ALL, "text": "x"})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"recipients": [], "text": "x"}, "recipients"),
        ({"recipients": ALL, "recipient": "ada", "text": "x"}, "recipients"),
        ({"recipients": "ada", "text": "x"}, "recipients"),
        ({"recipients": ["ada", " "], "text": "x"}, "recipient"),
        ({"recipients": ["ada", 7], "text": "x"}, None),
        ({"text": "x"}, "recipient"),
    ],
)
def test_what_is_wrong_is_named(
    running: ServedHub, either: sync.Hub, fields: dict[str, Any], field: str | None
) -> None:
    with pytest.raises(InvalidMessage) as refused:
        either.send([{"recipients": ALL, "text": "fine"}, fields])
    fault = refused.value.faults[0]
    at = 4 if field == "recipient" and "recipients" in fields else fault.index
    assert fault.index in (3, at)
    assert field is None or fault.field == field
    status, problem = post(running, [{"recipients": ALL, "text": "fine"}, fields])
    assert (status, problem["code"]) == (400, "invalid_message")
    assert problem["errors"][0]["index"] in (3, at)
    assert not told(either, "ada")


def test_what_it_becomes_is_bounded(running: ServedHub, either: sync.Hub) -> None:
    names = [f"r{number}" for number in range(100)]
    large = "x" * (SEND_BYTES_MAX // 100 + 1)
    with pytest.raises(InvalidRequest, match="bytes are too much for one send"):
        either.send(recipients=names, text=large)
    for data in (large.encode(), bytearray(large, "ascii"), {"value": large}, {"value": large, "none": None}, [large]):
        with pytest.raises(InvalidRequest, match="bytes are too much for one send"):
            either.send(recipients=names, data=data)
    status, problem = post(running, {"recipients": names, "text": large})
    assert (status, problem["code"]) == (400, "invalid_request")
    crowd = ["r"] * (SEND_MESSAGES_MAX // 2 + 1)
    with pytest.raises(InvalidRequest, match="messages are too many for one send"):
        either.send([{"recipients": crowd, "text": "x"}] * 2)


def test_it_is_known_over_http(running: ServedHub) -> None:
    status, receipt = post(running, {"recipients": ALL, "text": "hello", "id": "m"})
    assert (status, receipt["accepted"]) == (201, 3)
    status, receipt = post(running, {"messages": [{"recipients": ALL, "text": "hello", "id": "m"}]})
    assert (status, receipt["duplicates"]) == (201, 3)
