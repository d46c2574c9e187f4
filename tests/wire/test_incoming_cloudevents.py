"""CloudEvents in: structured, batch and binary mode, all mapped alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pyarrow as pa
import pytest

from restante.errors import Fault, InvalidMessage, InvalidRequest
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.wire.incoming.incoming import decode_messages
from restante.wire.incoming.shapes import sound
from restante.wire.media import ARROW, CLOUDEVENT, CLOUDEVENTS_BATCH, JSON
from tests.wire.tables import ID, faults_of, taken_in

LEAST = {"specversion": "1.0", "id": ID, "source": "post", "type": "letter", "recipient": "anna"}


def messages_of(body: bytes, content_type: str | None, headers: dict[str, str] | None = None) -> Sequence[Message]:
    found = decode_messages(body, content_type=content_type, headers=headers or {})
    assert not isinstance(found, pa.Table)
    return sound(found)


def event(**attributes: Any) -> Message:
    body = msgspec.json.encode({**LEAST, **attributes})
    (message,) = messages_of(body, CLOUDEVENT)
    assert list(messages_of(b"[" + body + b"]", CLOUDEVENTS_BATCH)) == [message]
    return message


def refused(attributes: dict[str, object]) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        messages_of(msgspec.json.encode([LEAST, attributes]), CLOUDEVENTS_BATCH)
    return caught.value


def test_attributes_become_fields_and_the_rest_properties() -> None:
    message = event(
        data={"a": [1.5]},
        datacontenttype="application/vnd.x+json",
        documenttype="card",
        weight=7,
        bundleable=False,
        expirytime="2030-01-01T00:00:00Z",
        time="2029-01-01T00:00:00Z",
        subject="greetings",
        dataschema="https://example.com/schema",
        traceparent="00-1",
        count=5,
        urgent=True,
        ratio=1.50,
        nothing=None,
    )
    assert message == Message(
        id=ID,
        recipient="anna",
        origin="post",
        kind="letter",
        document_type="card",
        weight=7,
        bundleable=False,
        data=b'{"a":[1.5]}',
        media_type="application/vnd.x+json",
        expires_at=datetime(2030, 1, 1, tzinfo=UTC),
        properties={
            "time": "2029-01-01T00:00:00Z",
            "subject": "greetings",
            "dataschema": "https://example.com/schema",
            "traceparent": "00-1",
            "count": "5",
            "urgent": "true",
            "ratio": "1.5",
        },
    )


def test_data_may_be_json_or_base64_or_nothing() -> None:
    assert (event(data=None).data, event(data=None).media_type) == (b"null", JSON)
    assert (event(data_base64="aGk=").data, event(data_base64="aGk=").media_type) == (b"hi", None)
    assert event().data is msgspec.UNSET


def test_text_of_another_type_is_meant_as_it_reads() -> None:
    assert event(data="a\nb", datacontenttype="text/plain").data == b"a\nb"
    assert event(data={"a": 1}, datacontenttype="text/plain").data == b'{"a":1}'
    assert event(data="a", datacontenttype="application/json").data == b'"a"'


def test_an_id_that_is_no_uuid_becomes_one_and_is_kept() -> None:
    message = event(id="A/1")
    assert message.id == str(uuid5(NAMESPACE_URL, "post\nA/1"))
    assert message.properties == {"ceid": "A/1"}
    assert event(id=ID.upper()).id == ID.upper()
    assert event(id=ID.upper()).properties == {}


@pytest.mark.parametrize("missing", sorted(LEAST))
def test_what_every_event_needs_is_named_when_it_is_missing(missing: str) -> None:
    error = refused({name: value for name, value in LEAST.items() if name != missing})
    assert faults_of(error) == [(1, missing)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("specversion", "0.3"),
        ("specversion", 1.0),
        ("id", ""),
        ("id", 5),
        ("source", {}),
        ("type", []),
        ("weight", "heavy"),
        ("weight", 1.5),
        ("bundleable", "yes"),
        ("expirytime", "soon"),
        ("time", "yesterday"),
        ("time", "2030-01-01T00:00:00"),
        ("extension", {"a": 1}),
        ("extension", [1]),
        ("Upper", "x"),
        ("with_underscore", "x"),
        ("", "x"),
        ("ceid", "x"),
        ("data_base64", "?"),
        ("datacontenttype", 1),
    ],
)
def test_a_wrong_attribute_is_named(name: str, value: object) -> None:
    assert faults_of(refused({**LEAST, name: value})) == [(1, name)]


@pytest.mark.parametrize("name", ["id", "source", "type", "subject"])
@pytest.mark.parametrize("text", ["a\0b", "\t", "a\nb", "\x7f", "a\x85"])
def test_control_characters_are_refused_in_every_mode(name: str, text: str) -> None:
    said: dict[str, object] = {**LEAST, name: text}
    assert faults_of(refused(said)) == [(1, name)]
    (alone,) = alone_faults(msgspec.json.encode(said), CLOUDEVENT, {})
    headers = {f"ce-{attribute}": quote(str(value)) for attribute, value in said.items()}
    (binary,) = alone_faults(b"", None, headers)
    assert {(fault.index, fault.code, fault.field) for fault in (alone, binary)} == {(0, "invalid_message", name)}


def alone_faults(body: bytes, content_type: str | None, headers: dict[str, str]) -> Sequence[Fault]:
    taken = decode_messages(body, content_type=content_type, headers=headers)
    assert isinstance(taken, Flawed)
    return taken.faults


def test_data_in_two_ways_is_refused() -> None:
    assert faults_of(refused({**LEAST, "data": 1, "data_base64": ""})) == [(1, "data_base64")]


def test_all_events_that_are_wrong_are_listed() -> None:
    body = msgspec.json.encode([5, LEAST, {}, {**LEAST, "source": "s" * 65}])
    with pytest.raises(InvalidMessage) as caught:
        messages_of(body, CLOUDEVENTS_BATCH)
    named = set(faults_of(caught.value))
    assert named == {(0, None), (3, "origin")} | {(2, name) for name in LEAST}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"{}", CLOUDEVENTS_BATCH), (b"", CLOUDEVENT), (b"[", CLOUDEVENTS_BATCH), (b'{"a":"\xff"}', CLOUDEVENT)],
)
def test_a_body_that_is_no_json_of_events_is_a_clear_error(body: bytes, content_type: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        messages_of(body, content_type)
    assert caught.value.message


def binary(**headers: str) -> dict[str, str]:
    return {**{f"ce-{name}": value for name, value in LEAST.items()}, **headers, "host": "hub"}


def test_binary_mode_takes_headers_and_the_body_as_it_is() -> None:
    headers = binary(
        **{
            "ce-subject": "Euro%20%E2%82%AC%20%F0%9F%98%80",
            "ce-weight": "3",
            "ce-bundleable": "false",
            "ce-expirytime": "2030-01-01T00:00:00Z",
            "ce-count": "5",
            "ce-quoted": '"a \\"b\\" %25"',
        }
    )
    (message,) = messages_of(b"\x00\xff", "image/png", headers)
    assert message == Message(
        id=ID,
        recipient="anna",
        origin="post",
        kind="letter",
        weight=3,
        bundleable=False,
        data=b"\x00\xff",
        media_type="image/png",
        expires_at=datetime(2030, 1, 1, tzinfo=UTC),
        properties={"subject": "Euro € 😀", "count": "5", "quoted": 'a "b" %'},
    )


def test_binary_mode_takes_bodies_of_any_type() -> None:
    (message,) = messages_of(b' {"a": 1} ', JSON, binary())
    assert (message.data, message.media_type) == (b'{"a":1}', JSON)
    (message,) = messages_of(b"bytes", ARROW, binary())
    assert (message.data, message.media_type) == (b"bytes", ARROW)
    (message,) = messages_of(b"bytes", None, binary())
    assert (message.data, message.media_type) == (b"bytes", None)
    (message,) = messages_of(b"", None, binary())
    assert message.data is msgspec.UNSET
    (message,) = messages_of(b"", "text/plain", binary())
    assert message.data == b""


def test_json_in_binary_mode_is_checked_by_the_rules() -> None:
    for body in (b"{", b"\xff", b"", b"[" * 100_000):
        _, faults = taken_in(body, JSON, binary())
        assert [fault.field for fault in faults] == ["data"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subject", "%FF"),
        ("weight", "1.5"),
        ("bundleable", "1"),
        ("weight", "1" * 50),
        ("expirytime", "x"),
        ("ceid", "x"),
    ],
)
def test_a_wrong_header_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        messages_of(b"", None, binary(**{f"ce-{name}": value}))
    assert faults_of(caught.value) == [(0, name)]


def test_a_header_that_is_missing_is_named() -> None:
    headers = binary()
    del headers["ce-source"]
    with pytest.raises(InvalidMessage) as caught:
        messages_of(b"", "text/plain", headers)
    assert faults_of(caught.value) == [(0, "source")]


def test_structured_bodies_are_not_taken_for_binary_ones() -> None:
    (message,) = messages_of(msgspec.json.encode({**LEAST, "source": "inside"}), CLOUDEVENT, binary())
    assert message.origin == "inside"
