"""The bridge in, on a real Kafka: each record is in its mailbox once, in order, whatever crashes and whoever reads beside."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from restante.bridges.bridge_in import BridgeIn, InOptions
from restante.bridges.in_rules import DataForm, InRule, Tombstones
from restante.client.surface.surface import Hub
from restante.errors import InvalidOperation, InvalidRequest
from tests.kafka.broker import Broker
from tests.kafka.raw_headers import produce_with_header

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"key": f"c{n % 5}", "value": json.dumps({"n": n}).encode()} for n in range(first, last)]


def options(broker: Broker, *rules: InRule, group: str = "bridge", **more: Any) -> InOptions:
    return InOptions(rules=rules, brokers=broker.address, group=group, until_end=True, **more)


def carried(hub: Hub, wished: InOptions) -> BridgeIn:
    bridge = BridgeIn(hub, wished)
    bridge.run()
    return bridge


def numbers(hub: Hub, recipient: str) -> list[int]:
    return [message.data["n"] for message in hub.recipient(recipient).history(limit=1_000).messages]


def expected(count: int) -> dict[str, list[int]]:
    return {f"c{c}": list(range(c, count, 5)) for c in range(5)}


def mailboxes(hub: Hub) -> dict[str, list[int]]:
    return {f"c{c}": numbers(hub, f"c{c}") for c in range(5)}


def test_records_are_in_mailboxes_once_and_in_order(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("orders", partitions=3)
    broker.produce(topic, orders(0, 300))
    rule = InRule(topic=topic)
    first = carried(hub, options(broker, rule, batch=70))
    assert (first.counts.records, first.counts.stored) == (300, 300)
    assert mailboxes(hub) == expected(300)
    broker.produce(topic, orders(300, 400))
    again = carried(hub, options(broker, rule))
    assert (again.counts.records, again.counts.skipped) == (100, 0)
    # Another group has no offsets, and reads all of it again.
    other = carried(hub, options(broker, rule, group="other", batch=33))
    assert (other.counts.records, other.counts.skipped, other.counts.stored) == (400, 400, 0)
    assert mailboxes(hub) == expected(400)
    assert other.counts.lag == 0
    (message,) = hub.recipient("c0").history(limit=1).messages
    assert (message.origin, message.kind, message.media_type) == (topic, topic, "application/json")
    assert message.properties["kafka.time"].endswith("Z")


def test_processes_share_topic_partitions_and_stale_ones_do_no_harm(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("shared", partitions=4)
    broker.produce(topic, orders(0, 600))
    rules = InRule(topic=topic)
    bridges = [BridgeIn(hub, options(broker, rules, group=group, batch=40)) for group in ("one", "one", "stale")]
    threads = [threading.Thread(target=bridge.run) for bridge in bridges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert mailboxes(hub) == expected(600)
    assert sum(bridge.counts.stored for bridge in bridges) == 600


def test_headers_and_paths_name_recipients_and_headers_are_properties(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("headers", partitions=1)
    headers = [("to", b"zoe"), ("trace", b"t-1"), ("raw", b"\xff\x00")]
    broker.produce(topic, [{"key": "k", "value": b'{"customer":{"id":17}}', "headers": headers}])
    carried(hub, options(broker, InRule(topic=topic, recipient="header:to", origin="shop", kind="order"), group="h"))
    (message,) = hub.recipient("zoe").history().messages
    assert (message.origin, message.kind, message.data) == ("shop", "order", {"customer": {"id": 17}})
    assert {**message.properties, "kafka.time": ""} == {
        "to": "zoe",
        "trace": "t-1",
        "raw.base64": "/wA=",
        "kafka.key": "k",
        "kafka.time": "",
    }
    carried(hub, options(broker, InRule(topic=topic, recipient="json:customer.id"), group="j", prefix="again:"))
    assert len(hub.recipient("17").history().messages) == 1
    with pytest.raises(InvalidRequest):
        carried(hub, options(broker, InRule(topic=topic, recipient="value")))
    with pytest.raises(InvalidRequest, match="no topic"):
        carried(hub, options(broker, InRule(topic="nothing-here")))


def test_cloudevents_in_both_modes(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("events", partitions=1)
    event = {"specversion": "1.0", "id": "e1", "source": "shop", "type": "order", "recipient": "ada", "data": {"n": 1}}
    binary = [("ce_specversion", b"1.0"), ("ce_id", b"e2"), ("ce_source", "ladén".encode()), ("ce_type", b"order")]
    broker.produce(
        topic,
        [
            {"value": json.dumps(event), "headers": [("content-type", b"application/cloudevents+json; charset=utf-8")]},
            {"key": "ada", "value": b'{"n": 2}', "headers": [*binary, ("content-type", b"application/json")]},
            {"key": "ada", "value": b"{}", "headers": [("ce_specversion", b"1.0"), ("ce_id", b"e3")]},
        ],
    )
    bridge = carried(hub, options(broker, InRule(topic=topic, poison="misfits")))
    found = hub.recipient("ada").history().messages
    assert [(one.origin, one.kind, one.data) for one in found] == [
        ("shop", "order", {"n": 1}),
        ("ladén", "order", {"n": 2}),
    ]
    assert bridge.counts.poisoned == 1
    (misfit,) = hub.recipient("misfits").history().messages
    assert "source" in misfit.properties["kafka.reason"]


def test_what_does_not_fit_is_kept_with_its_reason_and_blocks_nothing(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("misfits", partitions=1)
    records: list[dict[str, Any]] = [
        {"key": "a", "value": b'{"n": 0}'},
        {"value": b'{"n": 1}'},
        {"key": b"\xff", "value": b'{"n": 2}'},
        {"key": "a", "value": b"no json"},
        {"key": "a", "value": None},
        {"key": "x" * 300, "value": b'{"n": 5}'},
        {"key": "a", "value": b'{"n": 6}'},
    ]
    broker.produce(topic, records)
    rule = InRule(topic=topic, poison="kept")
    for group in ("first", "second"):
        bridge = carried(hub, options(broker, rule, group=group))
        assert (bridge.counts.poisoned, bridge.counts.tombstones) == (4, 1)
    assert numbers(hub, "a") == [0, 6]
    kept = hub.recipient("kept").history().messages
    assert [one.properties["kafka.offset"] for one in kept] == ["1", "2", "3", "5"]
    assert all(one.properties["kafka.reason"] for one in kept)
    assert kept[0].data == b'{"n": 1}'


def test_misfits_go_to_a_dead_letter_topic_if_one_is_named(broker: Broker, hub: Hub) -> None:
    topic, dead = broker.topic("sick", partitions=1), broker.topic("dead", partitions=1)
    broker.produce(topic, [{"key": "a", "value": b"1"}, {"value": b"2", "headers": [("h", b"x")]}, {"key": "a"}])
    rule = InRule(topic=topic, dead_letter=dead, values=DataForm.TEXT, tombstones=Tombstones.POISON)
    bridge = carried(hub, options(broker, rule))
    assert [one.text for one in hub.recipient("a").history().messages] == ["1"]
    letters = broker.read(dead)
    assert [letter.value() for letter in letters] == [b"2", None]
    headers = dict(letters[0].headers())
    assert (headers["h"], headers["restante-offset"], headers["restante-source"]) == (b"x", b"1", f"{topic}/0".encode())
    assert bridge.counts.poisoned == 2


@pytest.mark.parametrize("limit", ["1000000", "2000000"], ids=["client", "topic"])
def test_a_dead_letter_that_is_too_large_with_its_headers_goes_without_its_value(
    broker: Broker, hub: Hub, limit: str
) -> None:
    """Either the client refuses it, or the topic does."""
    topic, dead = (
        broker.topic("large", partitions=1),
        broker.topic("dead", partitions=1, **{"max.message.bytes": "999999"}),
    )
    broker.produce(topic, [{"value": b"x" * 999_900}, {"key": "a", "value": b"1"}])
    rule = InRule(topic=topic, dead_letter=dead, values=DataForm.TEXT)
    carried(hub, options(broker, rule, kafka={"message.max.bytes": limit}))
    assert [one.text for one in hub.recipient("a").history().messages] == ["1"]
    (letter,) = broker.read(dead)
    headers = dict(letter.headers())
    assert (letter.value(), headers["restante-offset"], headers["restante-source"]) == (
        None,
        b"0",
        f"{topic}/0".encode(),
    )


@pytest.mark.parametrize("aside", ["mailbox", "topic"])
def test_a_header_whose_name_is_no_text_blocks_nothing(broker: Broker, hub: Hub, aside: str) -> None:
    topic, dead = broker.topic("names", partitions=1), broker.topic("dead", partitions=1)
    broker.produce(topic, [{"key": "a", "value": b'{"n": 0}', "headers": [("h", b"x")]}])
    produce_with_header(broker.address, topic, b'{"n": 1}', b"\xff\x9b")
    broker.produce(topic, [{"key": "a", "value": b'{"n": 2}', "headers": [("h", b"y")]}])
    rule = InRule(topic=topic, dead_letter=dead if aside == "topic" else None)
    bridge = carried(hub, options(broker, rule))
    assert numbers(hub, "a") == [0, 2]
    assert [one.properties["h"] for one in hub.recipient("a").history().messages] == ["x", "y"]
    assert bridge.counts.poisoned == 1
    if aside == "topic":
        assert [letter.value() for letter in broker.read(dead)] == [b'{"n": 1}']
    else:
        (kept,) = hub.recipient("bridge-poison").history().messages
        assert (kept.data, kept.properties["kafka.reason"]) == (b'{"n": 1}', "The name of a header is no UTF-8.")


def test_a_topic_that_was_made_again_is_not_skipped_in_silence(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("again", partitions=1)
    broker.produce(topic, orders(0, 10))
    hub.send([{"recipient": "x", "data": 1, "source_position": 50}], source=f"{topic}/0")
    with pytest.raises(InvalidOperation, match="made again"):
        carried(hub, options(broker, InRule(topic=topic), group="again"))
