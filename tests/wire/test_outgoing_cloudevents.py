"""CloudEvents out: an event that came in goes out as the same event."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.publishing.message import Message
from restante.wire.cloudevents import has_no_controls
from restante.wire.incoming.incoming import decode_messages
from restante.wire.media import CLOUDEVENTS_BATCH
from restante.wire.outgoing.outgoing import bundle_cloudevents
from tests.model.strategies import json_values, messages, unhurried
from tests.model.strategies import names as recipients
from tests.model.strategies import texts as anything
from tests.wire.tables import ID, bundle_of, columns_of, table_of

names = st.from_regex(r"\A[a-z0-9]{1,8}\Z").filter(
    lambda name: name not in {"id", "source", "type", "data", "weight", "ceid", "time", "subject", "dataschema"}
)


def events_of(*sent: Message) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = msgspec.json.decode(b"".join(bundle_cloudevents(bundle_of(table_of(*sent)))))
    return events


def there_and_back(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sent = decode_messages(msgspec.json.encode(events), content_type=CLOUDEVENTS_BATCH, headers={})
    assert isinstance(sent, list)
    return events_of(*sent)


OTHER_DATA: list[dict[str, Any]] = [
    {"data": "hello", "datacontenttype": "text/plain"},
    {"data_base64": "/w==", "datacontenttype": "text/plain"},
    {"data_base64": "aGVsbG8=", "datacontenttype": "application/pdf"},
]


plain = anything.filter(has_no_controls)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    event: dict[str, Any] = draw(st.dictionaries(names, plain, max_size=3))
    event |= {"specversion": "1.0", "source": draw(recipients), "type": draw(recipients), "recipient": draw(recipients)}
    event["id"] = draw(recipients | st.uuids().map(str))
    event |= {
        "documenttype": draw(plain),
        "weight": draw(st.integers(2, 2**31 - 1)),
        "bundleable": draw(st.booleans()),
    }
    if draw(st.booleans()):
        event |= {"data": draw(json_values), "datacontenttype": "application/json"}
    else:
        event |= draw(st.sampled_from(OTHER_DATA))
    if draw(st.booleans()):
        event |= {"time": "2030-01-01T00:00:00Z", "subject": "s", "dataschema": "urn:x"}
    if draw(st.booleans()):
        event["expirytime"] = "2035-12-31T23:59:59.000001Z"
    return event


@unhurried
@given(st.lists(events(), max_size=4))
def test_events_go_out_as_they_came_in(sent: list[dict[str, Any]]) -> None:
    assert there_and_back(sent) == sent


@unhurried
@given(
    st.lists(
        messages().filter(lambda sent: has_no_controls(f"{sent.origin}{sent.kind}{sent.document_type}")), max_size=4
    )
)
def test_any_message_is_an_event_that_may_be_sent_again(sent: list[Message]) -> None:
    table = table_of(*sent)
    shown = events_of(*sent)
    again = decode_messages(msgspec.json.encode(shown), content_type=CLOUDEVENTS_BATCH, headers={})
    assert isinstance(again, list)
    columns = columns_of(again)
    for name in ("recipient", "origin", "kind", "document_type", "media_type"):
        assert getattr(columns, name).to_array().to_pylist() == table.column(name).to_pylist()
    assert columns.weight.tolist() == table.column("weight").to_pylist()
    assert columns.bundleable.tolist() == table.column("bundleable").to_pylist()


def uuid_of(text: str) -> str:
    return str(uuid5(NAMESPACE_URL, text))


@pytest.mark.parametrize(
    ("own", "source", "original"),
    [
        (ID, "post", "order-1"),
        (uuid_of("order-1"), "post", "order-1"),
        (uuid_of("other\norder-1"), "post", "order-1"),
        (uuid_of("post\norder-1"), "post", "order-2"),
        (uuid_of(f"post\n{ID}"), "post", ID),
        (uuid_of("post\na\nb"), "post", "a\nb"),
        ("order-1", "post", "order-2"),
    ],
)
def test_a_property_gives_a_message_no_other_id(own: str, source: str, original: str) -> None:
    sent = Message(recipient="a", id=own, origin=source, data=b"1", properties={"ceid": original})
    assert [event["id"] for event in events_of(sent, sent)] == [own, own]


def test_the_id_of_an_event_is_shown_however_its_message_is_sent() -> None:
    own = uuid_of("post\norder-1")
    sent = Message(recipient="a", id=own, origin="post", data=b"1", properties={"ceid": "order-1"})
    assert [event["id"] for event in events_of(sent)] == ["order-1"]


def test_a_subject_with_control_characters_is_left_out() -> None:
    assert "subject" not in events_of(Message(recipient="a", data=b"1", properties={"subject": "a\nb"}))[0]


def test_properties_that_cannot_be_attributes_are_left_out() -> None:
    properties = {
        "Upper": "x",
        "with-dash": "x",
        "id": "x",
        "recipient": "x",
        "data": "x",
        "time": "no time",
        "ok1": "y",
    }
    (event,) = events_of(Message(recipient="anna", id=ID, data=b"", properties=properties))
    assert event == {
        "specversion": "1.0",
        "id": ID,
        "source": "default",
        "type": "default",
        "recipient": "anna",
        "documenttype": "default",
        "weight": 1,
        "bundleable": True,
        "datacontenttype": "application/octet-stream",
        "data_base64": "",
        "ok1": "y",
    }


def test_a_claim_check_has_no_data() -> None:
    (event,) = events_of(Message(recipient="anna"))
    assert "data" not in event
    assert "data_base64" not in event
