"""JSON bodies: every field, every fault by its index, and data kept as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import FAULTS_SHOWN_MAX
from restante.model.publishing.message import Message
from restante.wire.incoming.incoming import decode_messages
from restante.wire.incoming.shapes import sound
from restante.wire.media import JSON
from tests.model.strategies import json_values, unhurried
from tests.wire.tables import ID, faults_of, taken_in


def decoded(*messages: object, **others: object) -> Sequence[Message]:
    found = decode_messages(
        msgspec.json.encode({"messages": messages, **others}), content_type=JSON, headers={"host": "hub"}
    )
    assert not isinstance(found, pa.Table)
    return sound(found)


def decoded_raw(message: bytes) -> Message:
    found = decode_messages(b'{"messages":[' + message + b"]}", content_type=JSON, headers={})
    assert not isinstance(found, pa.Table)
    (only,) = sound(found)
    return only


def read(body: bytes) -> Sequence[Message]:
    found = decode_messages(body, content_type=JSON, headers={})
    assert not isinstance(found, pa.Table)
    return sound(found)


def refused(*messages: object) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        decoded(*messages)
    return caught.value


def test_every_field_is_taken() -> None:
    (message,) = decoded(
        {
            "id": ID,
            "recipient": "anna",
            "origin": "post",
            "kind": "letter",
            "document_type": "card",
            "weight": 3,
            "bundleable": False,
            "data_base64": "aGVsbG8=",
            "media_type": "text/plain",
            "properties": {"a": "b"},
            "expires_at": "2030-01-31T12:00:00.000001+05:30",
        }
    )
    assert message == Message(
        id=ID,
        recipient="anna",
        origin="post",
        kind="letter",
        document_type="card",
        weight=3,
        bundleable=False,
        data=b"hello",
        media_type="text/plain",
        properties={"a": "b"},
        expires_at=datetime(2030, 1, 31, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    )


def test_what_is_absent_takes_its_default() -> None:
    assert list(decoded({"recipient": "anna"})) == [Message(recipient="anna")]
    assert list(decoded()) == []


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (b"null", b"null"),
        (b'{ "a" : [ 1.00 , 2e5 ] }', b'{"a":[1.00,2e5]}'),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (b"1e999", b"1e999"),
        (b'{"a":1,"a":2}', b'{"a":1,"a":2}'),
        (b'"a  b\\n\\u0041\\/"', b'"a  b\\n\\u0041\\/"'),
        ('"é €"'.encode(), '"é €"'.encode()),
        (b"[" * 300 + b"]" * 300, b"[" * 300 + b"]" * 300),
        (b"\n\t7\r ", b"7"),
    ],
)
def test_data_is_kept_as_it_is_written_but_compact(written: bytes, kept: bytes) -> None:
    message = decoded_raw(b'{"recipient":"anna","data":' + written + b"}")
    assert (message.data, message.media_type) == (kept, JSON)
    columns, faults = taken_in(b'{"messages":[{"recipient":"anna","data":' + written + b"}]}", JSON)
    assert faults == []
    assert columns.data.to_pylist() == [kept]


def test_a_media_type_of_its_own_stays() -> None:
    message = decoded_raw(b'{"recipient":"anna","data": {"a": 1},"media_type":"application/vnd.x+json"}')
    assert (message.data, message.media_type) == (b'{"a":1}', "application/vnd.x+json")


@unhurried
@given(st.lists(json_values, max_size=5))
def test_any_value_is_the_same_as_in_process(values: list[Any]) -> None:
    body = msgspec.json.encode({"messages": [{"recipient": "a", "data": value} for value in values]})
    spaced = msgspec.json.format(body, indent=2)
    expected = [Message(recipient="a", data=msgspec.json.encode(value), media_type=JSON) for value in values]
    assert decode_messages(body, content_type=JSON, headers={}) == expected
    assert decode_messages(spaced, content_type=JSON, headers={}) == expected
    assert decode_messages(memoryview(bytearray(body)), content_type=JSON, headers={}) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", None),
        ("id", 5),
        ("recipient", None),
        ("recipient", ["anna"]),
        ("origin", 1),
        ("kind", True),
        ("document_type", None),
        ("weight", 1.0),
        ("weight", "1"),
        ("weight", True),
        ("bundleable", None),
        ("bundleable", "true"),
        ("bundleable", 1),
        ("media_type", 7),
        ("properties", []),
        ("properties", {"a": 1}),
        ("properties", {"a": None}),
        ("expires_at", "tomorrow"),
        ("expires_at", 1893456000),
        ("expires_at", None),
        ("data_base64", "not base64!"),
        ("data_base64", "YQ"),
        ("data_base64", 5),
        ("unknown", 1),
        ("Recipient", "anna"),
        ("sequence_number", 1),
        ("published_at", None),
        ("collected_at", "2030-01-01T00:00:00Z"),
        ("state", "waiting"),
    ],
)
def test_a_wrong_field_is_named_with_its_message(field: str, value: object) -> None:
    error = refused({"recipient": "anna"}, {"recipient": "bob", "id": ID.upper(), field: value})
    assert faults_of(error) == [(1, field)]
    (fault,) = error.faults
    assert fault.code == "invalid_message"
    assert field in fault.detail
    assert fault.id == (None if field == "id" else ID)


def test_a_time_without_a_zone_is_refused_as_in_process() -> None:
    _, faults = taken_in(b'{"messages":[{"recipient":"a","data":1,"expires_at":"2030-01-01T00:00:00"}]}', JSON)
    assert [(fault.field, "time zone" in fault.detail) for fault in faults] == [("expires_at", True)]


def test_data_in_two_ways_is_refused() -> None:
    assert faults_of(refused({"recipient": "anna", "data": None, "data_base64": ""})) == [(0, "data_base64")]


def test_a_message_that_is_no_object_is_refused_by_its_index() -> None:
    assert faults_of(refused({"recipient": "a"}, [], "x", None)) == [(1, None), (2, None), (3, None)]


def test_every_bad_message_is_listed_also_those_that_break_rules() -> None:
    error = refused(
        {"recipient": "anna", "data": 1},
        {"recipient": "", "weight": "x", "state": "waiting"},
        {"origin": 5},
        {"recipient": "  ", "data": 1},
        {"recipient": "anna", "kind": "k" * 257, "weight": 2**80},
    )
    expected = {(1, "recipient"), (1, "weight"), (1, "state"), (2, "origin"), (2, "recipient"), (3, "recipient")}
    assert set(faults_of(error)) == expected | {(4, "kind"), (4, "weight")}
    assert [fault.index for fault in error.faults] == sorted(fault.index for fault in error.faults)
    assert "4 of the messages" in error.message


def test_no_more_is_looked_at_than_can_be_shown() -> None:
    error = refused(*[{"x": 1}] * 300)
    assert {fault.index for fault in error.faults} == set(range(FAULTS_SHOWN_MAX))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"messages":[],"extra":1}', "extra"),
        (b'{"mesages":[]}', "mesages"),
        (b"{}", "messages"),
    ],
)
def test_a_wrong_field_of_the_body_is_named(body: bytes, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as caught:
        decode_messages(body, content_type=JSON, headers={})
    assert caught.value.details == {"field": named}


@pytest.mark.parametrize("space", [b"", b" \n\t"])
def test_a_bare_list_and_one_message_are_bodies_too(space: bytes) -> None:
    message = b'{"recipient": "anna", "id": "%b", "data": {"a": [1, 2]}}' % ID.encode()
    forms = (b'{"messages": [%b]}', b"[%b]", b"%b")
    wrapped, listed, alone = (read(space + form % message) for form in forms)
    assert wrapped == listed == alone == [Message(recipient="anna", id=ID, data=b'{"a":[1,2]}', media_type=JSON)]
    assert read(space + b"[]") == []


@pytest.mark.parametrize(
    ("body", "index", "field"),
    [
        (b'[{"recipient":"a","data":1},{"recipient":"a","wieght":1}]', 1, "wieght"),
        (b' [{"recipient":"a","data":1}, {"data":1}]', 1, "recipient"),
        (b"[1]", 0, None),
        (b'{"recipient":"a","wieght":1}', 0, "wieght"),
        (b'{"data":1}', 0, "recipient"),
        (b'{"recipient":"a","state":"waiting"}', 0, "state"),
    ],
)
def test_faults_of_a_list_and_of_one_message_have_index_and_field(body: bytes, index: int, field: str | None) -> None:
    with pytest.raises(InvalidMessage) as caught:
        read(body)
    assert (index, field) in {(fault.index, fault.field) for fault in caught.value.faults}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[1",
        b'"x"',
        b'{"messages":{}}',
        b'{"messages":null}',
        b'{"messages":[{"recipient":"a","data":NaN}]}',
        b'{"messages":[{"recipient":"a","data":-Infinity}]}',
        b'{"messages":[{"recipient":"a","data":01}]}',
        b'{"messages":[{"recipient":"a","data":"\\ud800"}]}',
        b'{"messages":[{"recipient":"\\udc00"}]}',
        b'{"messages":[{"recipient":"a","data":"\xff"}]}',
        b'{"messages":[{"recipient":"a","media_type":"text/plain","data":"\xc3"}]}',
        b'{"messages":[{"recipient":"a","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"messages":' + b"[" * 100_000,
        b"\xef\xbb\xbf{}",
        b'{"messages":[]}{}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_body_that_is_not_right_json_is_a_clear_error(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_messages(body, content_type=JSON, headers={})
    assert type(caught.value) is InvalidRequest
    assert caught.value.message


def test_huge_numbers_are_faults_of_their_message() -> None:
    body = b'{"messages":[{"recipient":"a","data":1,"weight":' + b"9" * 5000 + b"}]}"
    with pytest.raises(InvalidMessage) as caught:
        taken_in(body, JSON)
    assert faults_of(caught.value) == [(0, "weight")]
    _, faults = taken_in(b'{"messages":[{"recipient":"a","data":1,"weight":99999999999999999999999}]}', JSON)
    assert [fault.field for fault in faults] == ["weight"]


def test_times_are_understood_in_any_zone() -> None:
    (message,) = decoded({"recipient": "a", "expires_at": "2030-01-01T00:00:00Z"})
    assert message.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
