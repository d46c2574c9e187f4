"""What the feed becomes in a topic, without any Kafka: the compacted form, and events in binary mode."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import restante
from restante.bridges.in_messages import RecordMapper
from restante.bridges.in_rules import InRule, RawRecord
from restante.bridges.out_choices import OutForm
from restante.bridges.out_compacted import compacted, erasures_of, without_erased
from restante.bridges.out_encoders import encoder
from restante.client.surface.surface import Hub
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.bridges.topic_columns import columns_of


@pytest.fixture
def hub() -> Iterator[Hub]:
    with restante.open(None, settings=Settings(partition_count=1), store=MemoryStore()) as hub:
        yield hub


def feed_of(hub: Hub) -> pa.Table:
    """Everything that happened so far."""
    return pa.concat_tables([page.table for page in hub.feed()], promote_options="default")


def collect(hub: Hub, recipient: str) -> None:
    bundle = hub.recipient(recipient).peek()
    assert bundle is not None
    hub.recipient(recipient).dequeue(bundle.bundle_id)


def left_in(records: list[tuple[bytes, bytes | None]]) -> dict[tuple[str, int], object]:
    """What compaction leaves."""
    found: dict[tuple[str, int], object] = {}
    for key, value in records:
        recipient, number = json.loads(key)
        found.pop((recipient, number), None)
        if value is not None:
            found[recipient, number] = json.loads(value)["data"]
    return found


@pytest.mark.parametrize("form", [OutForm.JSON, OutForm.CLOUDEVENTS])
def test_a_compacted_topic_has_what_waits(hub: Hub, form: OutForm) -> None:
    hub.send([{"recipient": name, "data": number} for number, name in enumerate(["ada", 'b"b', "ada", "eve", "eve"])])
    collect(hub, "ada")
    hub.send(recipient="ada", data=5)
    eve = hub.recipient("eve").history().messages
    hub.recipient("eve").set_aside(str(eve[0].id))
    collect(hub, "eve")
    hub.recipient("eve").release(str(eve[0].id))
    written = compacted(encoder(form))(feed_of(hub))
    waiting = left_in(list(zip(written.keys, written.values, strict=True)))
    assert sorted((name, str(data)) for (name, _), data in waiting.items()) == [
        ("ada", "5"),
        ('b"b', "1"),
        ("eve", "3"),
    ]
    numbers = {
        message.sequence_number
        for name in ("ada", 'b"b', "eve")
        for message in hub.recipient(name).history().messages
        if message.state is not None and message.state.value == "waiting"
    }
    assert {number for _, number in waiting} == numbers
    assert written.headers is None or [told is None for told in written.headers] == [
        value is None for value in written.values
    ]


def test_erased_messages_are_known_by_their_recipient_and_number(hub: Hub) -> None:
    hub.send([{"recipient": "ada", "data": 1}, {"recipient": "bob", "data": 2}])
    before = feed_of(hub)
    hub.recipient("ada").erase()
    hub.send(recipient="ada", data=3)
    table = feed_of(hub)
    erasures = erasures_of(table)
    assert erasures.keys() == {"ada"}
    kept = without_erased(pa.concat_tables([before, table.slice(table.num_rows - 1)]), erasures)
    assert kept.column("recipient").to_pylist() == ["bob", "ada"]
    assert without_erased(table, {}) is table


def test_events_in_binary_mode_come_back_as_they_were(hub: Hub) -> None:
    hub.send(
        [
            {
                "recipient": "ada",
                "data": {"n": 1},
                "origin": "shop",
                "kind": "order",
                "properties": {"traceparent": "00-ä"},
            },
            {"recipient": "bob", "text": "hällo", "origin": "shop", "kind": "note"},
            {"recipient": "eve", "data": b"\x00\xff", "origin": "shop", "kind": "blob", "media_type": "image/png"},
        ]
    )
    written = encoder(OutForm.CLOUDEVENTS_BINARY)(feed_of(hub))
    assert list(written.values) == [b'{"n":1}', "hällo".encode(), b"\x00\xff"]
    assert written.headers is not None
    told = [dict(headers or ()) for headers in written.headers]
    assert [(one["ce_specversion"], one["ce_source"], one["ce_type"]) for one in told] == [
        ("1.0", "shop", "order"),
        ("1.0", "shop", "note"),
        ("1.0", "shop", "blob"),
    ]
    assert told[2]["content-type"] == "image/png"
    records = [
        RawRecord(row, key, value, 0, tuple((name, str(text).encode()) for name, text in headers or ()))
        for row, (key, value, headers) in enumerate(zip(written.keys, written.values, written.headers, strict=True))
    ]
    back = RecordMapper(InRule(topic="t")).mapped(columns_of(records))
    assert back.misfits == {}
    assert isinstance(back.sent, list)
    assert [(one.recipient, one.origin, one.kind) for one in back.sent] == [
        ("ada", "shop", "order"),
        ("bob", "shop", "note"),
        ("eve", "shop", "blob"),
    ]
    assert back.sent[0].properties["traceparent"] == "00-ä"
