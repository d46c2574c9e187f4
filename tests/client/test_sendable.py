"""What `send` takes: a message, a dict, keyword arguments, a CloudEvent, lists of these, and frames as they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import restante
from restante import BufferedProducer, Message, ProducerClient
from restante.client.surface import sync
from restante.errors import InvalidMessage, InvalidRequest

LATER = datetime(2090, 1, 31, 12, tzinfo=UTC)


class Event:
    """What the events of the `cloudevents` package have in common, by whichever version."""

    def __init__(self, attributes: dict[str, Any], data: object = None) -> None:
        self._attributes, self._data = attributes, data

    def get_attributes(self) -> dict[str, Any]:
        return self._attributes

    def get_data(self) -> object:
        return self._data


def event(**more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "e-1", "source": "meters", "type": "reading", "recipient": "alice", **more}


def collected(hub: sync.Hub, recipient: str = "alice") -> list[Message]:
    found: list[Message] = []
    for bundle in hub.recipient(recipient).bundles(idle=0):
        found += bundle.messages
        bundle.dequeue()
    return found


def test_keyword_arguments_are_a_message(either: sync.Hub) -> None:
    assert either.send(recipient="alice", text="hello", id="first").accepted == 1
    assert either.producer.send(recipient="alice", data={"n": 1}, expires_at=LATER).accepted == 1
    first, second = collected(either)
    assert (first.id, first.text) == ("first", "hello")
    assert (second.data, second.expires_at) == ({"n": 1}, LATER)


def test_a_dict_is_a_message(either: sync.Hub) -> None:
    either.send({"recipient": "alice", "data": [1], "expires_at": "2090-01-31T12:00:00Z", "properties": {"a": "b"}})
    either.send({"recipient": "alice", "data_base64": "aGk=", "id": UUID(int=7)})
    first, second = collected(either)
    assert (first.data, first.expires_at, first.properties) == ([1], LATER, {"a": "b"})
    assert (second.data, second.id) == (b"hi", str(UUID(int=7)))


def test_a_str_is_text_by_every_way_into_a_hub(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        pipeline.send({"recipient": "alice", "data": "pipeline"})
    either.send(recipient="alice", data="argument")
    either.send([{"recipient": "alice", "data": "dict"}, Message(recipient="alice", data="message")])
    either.send(recipients=["alice", "bob"], data="broadcast")
    either.send(pa.table({"recipient": ["alice"], "data": ["column"]}))
    found = collected(either)
    assert {message.media_type for message in found} == {"text/plain"}
    assert [message.text for message in found] == ["pipeline", "argument", "dict", "message", "broadcast", "column"]


def test_a_str_is_a_value_of_json_if_the_message_says_so(either: sync.Hub) -> None:
    either.send(recipient="alice", data="a value", media_type="application/json")
    either.send(Message(recipient="alice", data="<a/>", media_type="application/xml"))
    value, other = collected(either)
    assert (value.data, value.text, value.media_type) == ("a value", None, "application/json")
    assert (other.data, other.media_type) == (b"<a/>", "application/xml")


def test_a_list_may_hold_any_of_them(either: sync.Hub) -> None:
    mixed = [
        Message(recipient="alice", text="value"),
        {"recipient": "alice", "text": "dict"},
        event(datacontenttype="text/plain", data="mapping of an event"),
        Event(event(id="e-2", datacontenttype="text/plain"), "event"),
    ]
    assert either.send(mixed).accepted == 4
    assert {message.text for message in collected(either)} == {"value", "dict", "mapping of an event", "event"}


def test_an_event_is_what_it_is_over_the_wire(either: sync.Hub) -> None:
    either.send(Event(event(time=LATER, subject="m1"), {"kwh": 3}))
    either.send(Event(event(id="e-2", datacontenttype="application/octet-stream"), b"\x00\x01"))
    first, second = collected(either)
    assert (first.origin, first.kind, first.data) == ("meters", "reading", {"kwh": 3})
    assert first.properties == {"ceid": "e-1", "time": "2090-01-31T12:00:00Z", "subject": "m1"}
    assert second.data == b"\x00\x01"
    assert either.send(event(data={"kwh": 3})).duplicates == 1


def test_the_frames_of_pandas_are_taken_as_they_come(either: sync.Hub) -> None:
    frame = pd.DataFrame({"recipient": ["bob", "alice"], "data": [{"n": 1, "t": "x"}, {"n": 2, "t": None}]})
    either.send(frame[frame.recipient == "alice"])
    frame = pd.DataFrame({"recipient": ["alice"], "data": ["text"], "properties": [{"a": "b"}]})
    either.send(frame.set_index(pd.Index([9])))
    times = pd.DataFrame({"recipient": ["alice"], "data": [{"at": pd.Timestamp("2090-01-31T12:00:00Z")}]})
    either.send(times)
    first, second, third = collected(either)
    assert first.data == {"n": 2, "t": None}
    assert (second.text, second.properties) == ("text", {"a": "b"})
    assert third.data == {"at": "2090-01-31T12:00:00Z"}


def test_the_frames_of_polars_are_taken_as_they_come(either: sync.Hub) -> None:
    data = [{"n": 1, "names": ["x", "y"], "inner": {"t": "z"}}]
    either.send(pl.DataFrame({"recipient": ["alice"], "data": data, "properties": [{"a": "b", "none": None}]}))
    either.send(pl.DataFrame({"recipient": ["alice"], "data": [["x", "y"]]}))
    either.send(pl.DataFrame({"recipient": ["alice"], "data": ["t"]}, schema_overrides={"data": pl.Categorical}))
    inside = pl.DataFrame({"t": ["c"], "n": [1]}, schema_overrides={"t": pl.Categorical}).to_struct("data")
    either.send(pl.DataFrame([pl.Series("recipient", ["alice"]), inside]))
    first, second, third, fourth = collected(either)
    assert (first.data, first.properties) == (data[0], {"a": "b"})
    assert (second.data, third.text, fourth.data) == (["x", "y"], "t", {"t": "c", "n": 1})


def test_dictionaries_of_arrow_may_be_data(either: sync.Hub) -> None:
    texts = pa.array(["same", "same"]).dictionary_encode()
    inside = pa.StructArray.from_arrays([texts], ["t"])
    either.send(pa.table({"recipient": ["alice", "alice"], "data": texts}))
    names = pa.array(["alice", "alice"])
    either.send(pa.RecordBatch.from_arrays([names, inside], ["recipient", "data"]))
    assert [message.data for message in collected(either)] == ["same", "same", {"t": "same"}, {"t": "same"}]


def test_dictionaries_of_arrow_may_be_in_properties(either: sync.Hub) -> None:
    keys: Any = pa.array(["a", "b"])
    values: Any = pa.array(["1", "2"])
    offsets: Any = pa.array([0, 2], pa.int32())
    for number, parts in enumerate([(keys.dictionary_encode(), values), (keys, values.dictionary_encode())]):
        properties = pa.MapArray.from_arrays(offsets, *parts)
        table = pa.table({"recipient": ["alice"], "data": [b"x"], "properties": properties})
        assert either.producer.send(table).accepted == 1
        assert collected(either)[0].properties == {"a": "1", "b": "2"}, number


def test_the_other_ways_to_send_take_the_same(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        pipeline.send({"recipient": "alice", "text": "pipeline"})
        pipeline.send([{"recipient": "alice", "text": "pipelines"}])
    with either.consignment("k") as consignment:
        consignment.stage("w", 0, [{"recipient": "alice", "text": "staged"}, event(id="e-3", data=1)])
        consignment.stage("w", 0, ({"recipient": "alice", "text": f"one by one {n}"} for n in range(2)))
    with BufferedProducer(either) as buffered:
        buffered.enqueue({"recipient": "alice", "text": "buffered"})
    with ProducerClient(either) as producer:
        producer.send_messages({"recipient": "alice", "text": "numbered"}, partition=either.partition_of("alice"))
        parcel = restante.Parcel(either.partition_of("alice"))
        assert parcel.try_add({"recipient": "alice", "text": "parcel"})
        producer.send_parcel(parcel)
    told = {message.text for message in collected(either)}
    assert told >= {"pipeline", "pipelines", "staged", "one by one 0", "one by one 1", "buffered", "numbered", "parcel"}


@pytest.mark.parametrize(
    ("sent", "field", "told"),
    [
        ({"recipient": "alice", "dat": 1}, "dat", "the field dat is unknown: allowed are id, recipient"),
        ({"data": 1}, "recipient", "recipient is required"),
        ({"recipient": "alice", "data": 1, "state": "waiting"}, "state", "state is read only"),
        ({"recipient": "alice", "data_base64": "?"}, "data_base64", "must be base64 text"),
        ({"recipient": "alice", "data_base64": 3}, "data_base64", "must be base64 text"),
        ({"recipient": "alice", "data": 1, "data_base64": "aGk="}, "data_base64", "give one of them"),
        ({"recipient": "alice", "data": 1, "expires_at": "soon"}, "expires_at", "must be a time like"),
        ({"recipient": "alice", "data": 1, "weight": "x"}, "weight", "weight must be an integer"),
        (
            {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": 1},
            "recipient",
            "recipient is required",
        ),
        (Event({"specversion": "1.0", "id": "1", "source": "s"}, 1), "type", "type is required"),
        ({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {1j}}, "data", "what JSON cannot say"),
    ],
)
def test_what_is_wrong_is_named_as_over_the_wire(either: sync.Hub, sent: object, field: str, told: str) -> None:
    with pytest.raises(InvalidMessage, match=told) as refused:
        either.send([Message(recipient="alice", text="fine"), sent])
    assert (refused.value.faults[0].index, refused.value.faults[0].field) == (1, field)
    assert not collected(either)


def test_every_wrong_one_of_a_list_is_named(either: sync.Hub) -> None:
    with pytest.raises(InvalidMessage) as refused:
        either.send([{"data": 1}, {"recipient": "alice", "data": 2}, {"recipient": "alice", "weight": 0, "odd": 1}])
    named = [(fault.index, fault.field) for fault in refused.value.faults]
    assert named == [(0, "recipient"), (2, "odd"), (2, "weight")]


@pytest.mark.parametrize("sent", ["hello", b"hello", 7, None, [7], ["hello"], {1, 2}])
def test_what_can_be_no_message_is_refused(either: sync.Hub, sent: object) -> None:
    with pytest.raises(InvalidRequest):
        either.send(sent)


def test_messages_or_fields_but_not_both(either: sync.Hub) -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        either.send(Message(recipient="alice", text="x"), recipient="bob")
    with pytest.raises(InvalidRequest, match="nothing to send"):
        either.send()
    with pytest.raises(InvalidMessage, match="the field to is unknown"):
        either.send(to="alice", text="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(("sent", "field"), [("hello", "text"), (b"hello", "data"), (bytearray(b"x"), "data")])
def test_text_or_bytes_alone_have_no_recipient(either: sync.Hub, sent: object, field: str) -> None:
    with pytest.raises(InvalidRequest, match=rf'A message needs a recipient: send\(recipient="alice", {field}=…\)'):
        either.send(sent)
