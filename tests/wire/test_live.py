"""The frames of live delivery: what one side writes the other reads, and what is wrong is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from restante.errors import InvalidMessage, InvalidRequest
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message, State
from restante.wire import live
from restante.wire.outgoing.outgoing import message_texts
from restante.wire.outgoing.single_rows import letter_json
from tests.model.strategies import json_media_types, media_types, times, unhurried
from tests.wire.tables import ID, MICROSECONDS, judged, table_of

ODD = [
    Message(recipient="ada", id=ID, data={"text": "Grüße 🙂", 'a"b\\c': [1, 2.5, "\u2028"]}),
    Message(recipient='"ada" \\ é 漢字 🙂', id=ID, origin="a\\b", kind='"', document_type="ñ", data=None),
    Message(recipient="ada", id=ID, data=b"\x00\xff\x10", media_type="application/pdf"),
    Message(recipient="ada", id=ID, data=b""),
    Message(recipient="ada", id=ID, data=b'{"raw":1}', media_type="application/vnd.x+json"),
    Message(recipient="ada", id=ID, data=UNSET),
    Message(recipient="ada", id=ID, data=UNSET, media_type="application/json"),
    Message(recipient="ada", id=ID, data=1, expires_at=datetime(2100, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    Message(recipient="ada", id=ID, data=1, expires_at=datetime(203, 1, 2, tzinfo=UTC)),
    Message(recipient="ada", id=ID, data=1, properties={"b": '"', "a": "\n\x01ö"}, weight=2**31 - 1, bundleable=False),
    Message(recipient="ada", data="made id"),
]
NULL_INSIDE = Message(recipient="ada", id=ID, data=[None])
"""Not known by sight to be right, so it is pushed as columns."""

printable = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
named = printable.filter(lambda name: name not in {".", ".."})
contents = st.one_of(
    st.fixed_dictionaries({"data": st.binary(max_size=50)}, optional={"media_type": media_types}),
    st.fixed_dictionaries({"data": st.dictionaries(printable, printable | st.integers(0, 2**60) | st.floats(0, 1))}),
    st.fixed_dictionaries({"data": printable.map(msgspec.json.encode), "media_type": json_media_types}),
    st.just({"data": UNSET}),
)
plain = st.builds(
    lambda content, fields: Message(**content, **fields),
    contents,
    st.fixed_dictionaries(
        {"recipient": named},
        optional={
            "id": st.uuids().map(str) | named,
            "origin": printable,
            "kind": printable,
            "document_type": printable,
            "weight": st.integers(3, 2**31 - 1),
            "bundleable": st.booleans(),
            "properties": st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), printable, max_size=3),
            "expires_at": times,
        },
    ),
)


def pushed_as(message: Message) -> tuple[bytes, bytes] | None:
    """The JSON of a message that was just stored, made one by one and made of columns; None where only columns do."""
    letter = letter_of(message, claim_check_origins=None)
    if letter is None:
        return None
    table = table_of(message)
    own_id = table["id"][0].as_py()
    (expected,) = message_texts(table)
    return letter_json(letter, own_id, table["sequence_number"][0].as_py(), MICROSECONDS), expected


@pytest.mark.parametrize("message", ODD, ids=range(len(ODD)))
def test_a_letter_is_written_as_its_columns_would_be(message: Message) -> None:
    found = pushed_as(message)
    assert found is not None
    assert found[0] == found[1]


@unhurried
@given(plain)
def test_any_letter_is_written_as_its_columns_would_be(message: Message) -> None:
    found = pushed_as(message)
    # Columns take a closer look at values with the word null in them: the encoder writes it for numbers that JSON does not have.
    assert found is not None or (isinstance(message.data, dict) and b"null" in msgspec.json.encode(message.data))
    assert found is None or found[0] == found[1]


# What the hub says


@pytest.mark.parametrize("message", [*ODD, NULL_INSIDE], ids=range(len(ODD) + 1))
def test_a_client_reads_the_message_that_was_pushed(message: Message) -> None:
    table = table_of(message)
    (shown,) = to_messages(table)
    (text,) = message_texts(table)
    frame = live.decode_hub_frame(live.message_frame(12, text))
    assert isinstance(frame, live.Pushed)
    assert frame.counter == 12
    assert frame.given.message() == shown
    assert frame.given.message().state is State.WAITING
    echo = live.decode_hub_frame(live.echo_frame(text).decode())
    assert isinstance(echo, live.Echo)
    assert echo.message == shown


def test_a_message_that_was_collected_says_when() -> None:
    table = table_of(ODD[0], state=State.COLLECTED)
    frame = live.decode_hub_frame(live.message_frame(1, message_texts(table)[0]))
    assert isinstance(frame, live.Pushed)
    message = frame.given.message()
    assert (message.state, message.collected_at) == (State.COLLECTED, table["collected_at"][0].as_py())


@pytest.mark.parametrize(
    ("frame", "written"),
    [
        (live.Connected(7, "phone"), {"type": "connected", "sequence_number": 7, "client": "phone"}),
        (live.Connected(0, ""), {"type": "connected", "sequence_number": 0, "client": ""}),
        (live.SendAccepted(3, ID), {"type": "sent", "request": 3, "id": ID}),
        (live.Fate(ID, "processed"), {"type": "status", "id": ID, "status": "processed"}),
        (live.Fate(ID, "lost", "why"), {"type": "status", "id": ID, "status": "lost", "reason": "why"}),
        (live.Collected(9, 0), {"type": "collected", "sequence_number": 9, "messages": 0}),
        (live.Disconnect("idle"), {"type": "disconnect", "reason": "idle"}),
        (
            live.Disconnect("draining", reconnect_after=0.5),
            {"type": "disconnect", "reason": "draining", "reconnect_after": 0.5},
        ),
        (
            live.Disconnect("moved", owner="http://b:1", detail="ö"),
            {"type": "disconnect", "reason": "moved", "owner": "http://b:1", "detail": "ö"},
        ),
    ],
)
def test_what_the_hub_says_is_read_as_it_was_said(
    frame: live.Connected | live.SendAccepted | live.Fate | live.Collected | live.Disconnect, written: dict[str, Any]
) -> None:
    text = live.encode_hub_frame(frame)
    assert json.loads(text) == written
    assert live.decode_hub_frame(text) == frame


@pytest.mark.parametrize("request_number", [None, 0, 5])
def test_a_problem_is_read_by_its_fields_and_names_its_request(request_number: int | None) -> None:
    problem = {"type": "/docs/problems#forbidden", "code": "forbidden", "status": 403}
    found = live.decode_hub_frame(live.problem_frame(request_number, problem))
    named = {} if request_number is None else {"request": request_number}
    assert found == {"type": "problem", "code": "forbidden", "status": 403, **named}


@pytest.mark.parametrize("text", ['{"type": "weather", "counter": "x"}', '{"type": 7}', "{}"])
def test_a_type_that_is_not_known_is_passed_over(text: str) -> None:
    assert live.decode_hub_frame(text) is None


def test_fields_that_are_not_known_are_passed_over() -> None:
    text = '{"type": "sent", "request": 1, "id": "x", "colour": "red"}'
    assert live.decode_hub_frame(text) == live.SendAccepted(1, "x")


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "message", "counter": 1}',
        '{"type": "message", "counter": "1", "message": {}}',
        '{"type": "status", "id": "x", "status": "perhaps"}',
        '{"type": "disconnect"}',
        "[]",
        "nonsense",
        "",
    ],
)
def test_a_frame_of_the_hub_that_is_malformed_is_an_error(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        live.decode_hub_frame(text)


# What a client says


@pytest.mark.parametrize("message", [*ODD, NULL_INSIDE], ids=range(len(ODD) + 1))
def test_the_hub_reads_the_message_that_a_client_sends(message: Message) -> None:
    frame = live.decode_client_frame(live.encode_send(41, message))
    assert isinstance(frame, live.LiveSend)
    assert frame.request == 41
    sent, faults = judged([message])
    read, others = judged([frame.decoded()])
    assert faults == others == []
    if message.id is not None:
        assert to_messages(table_of(frame.decoded())) == to_messages(table_of(message))
    else:
        assert len(read) == len(sent) == 1
        assert frame.decoded().id is None


def test_the_hub_reads_up_to_where_a_client_has_collected() -> None:
    assert live.decode_client_frame(live.encode_collect(2**63 - 1)) == live.Collect(2**63 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "",
        "[]",
        "7",
        "{}",
        '{"type": "dance"}',
        '{"type": "message", "counter": 1, "message": {}}',
        '{"type": "send", "request": 1}',
        '{"type": "send", "request": "1", "message": {}}',
        '{"type": "send", "request": 1, "message": {}, "colour": "red"}',
        '{"type": "collected"}',
        '{"type": "collected", "sequence_number": 1.5}',
        '{"type": "collected", "sequence_number": 1, "messages": 2}',
        '{"type": "send", "request": 1, "message": ' + "[" * 100_000,
        "\ud800",
    ],
    ids=range(15),
)
def test_a_frame_of_a_client_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        live.decode_client_frame(text)


@pytest.mark.parametrize(
    "message", ["{}", '{"recipient": 7}', '{"recipient": "ada", "wieght": 1}', "[]", '{"recipient": "a", "id": null}']
)
def test_a_message_with_a_fault_is_found_when_it_is_looked_into(message: str) -> None:
    frame = live.decode_client_frame(f'{{"type": "send", "request": 1, "message": {message}}}')
    assert isinstance(frame, live.LiveSend)
    with pytest.raises((InvalidMessage, InvalidRequest)):
        frame.decoded()
