"""The bridge out, on a real Kafka: each change is in the topic once, keyed by its recipient and in its order."""

from __future__ import annotations

import io
import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from restante.bridges.bridge_out import BridgeOut, OutOptions
from restante.bridges.out_choices import OutChanges, OutForm
from restante.bridges.out_records import OutRecords
from restante.client.surface.surface import Hub
from restante.errors import InvalidOperation, InvalidRequest
from tests.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
NAMES = [f"r{number}" for number in range(7)]


def fill(hub: Hub, first: int, last: int, **fields: Any) -> None:
    hub.send([{"recipient": NAMES[n % 7], "data": {"n": n}, "origin": "shop", **fields} for n in range(first, last)])


def options(broker: Broker, topic: str, **more: Any) -> OutOptions:
    return OutOptions(topic=topic, brokers=broker.address, until_end=True, **more)


def carried(hub: Hub, wished: OutOptions) -> BridgeOut:
    bridge = BridgeOut(hub, wished)
    bridge.run()
    return bridge


def by_recipient(broker: Broker, topic: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for record in broker.read(topic):
        found[record.key().decode()].append(json.loads(record.value())["data"]["n"])
    return dict(found)


def expected(count: int) -> dict[str, list[int]]:
    return {name: list(range(number, count, 7)) for number, name in enumerate(NAMES)}


def test_changes_are_in_the_topic_once_and_in_order(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("changes", partitions=3)
    fill(hub, 0, 300)
    first = carried(hub, options(broker, topic))
    assert first.counts.stored == 300
    assert by_recipient(broker, topic) == expected(300)
    fill(hub, 300, 400)
    assert carried(hub, options(broker, topic)).counts.stored == 100
    assert carried(hub, options(broker, topic)).counts.stored == 0
    assert by_recipient(broker, topic) == expected(400)
    record = json.loads(broker.read(topic)[0].value())
    assert {"sequence_number", "change", "at", "id", "recipient", "origin", "kind", "media_type"} <= record.keys()


def test_what_is_in_the_topic_is_not_written_again_when_the_hub_did_not_hear_of_it(broker: Broker, hub: Hub) -> None:
    """A process that was killed between its commit in Kafka and its checkpoint at the hub: as if it were set back."""
    topic = broker.topic("unheard", partitions=2)
    fill(hub, 0, 200)
    carried(hub, options(broker, topic))
    fill(hub, 200, 250)
    for status in hub.partitions():
        hub.group("bridge").reset(status.partition, "beginning")
    assert carried(hub, options(broker, topic)).counts.stored == 50
    assert by_recipient(broker, topic) == expected(250)


def test_processes_share_partitions_of_the_hub(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("together", partitions=2)
    fill(hub, 0, 500)
    bridges = [BridgeOut(hub, options(broker, topic, member=f"m{number}")) for number in range(3)]
    threads = [threading.Thread(target=bridge.run) for bridge in bridges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert by_recipient(broker, topic) == expected(500)


def test_a_bridge_that_is_stopped_before_it_is_a_member_ends(broker: Broker, hub: Hub) -> None:
    bridge = BridgeOut(hub, OutOptions(topic=broker.topic("early", partitions=1), brokers=broker.address))
    bridge.stop()
    running = threading.Thread(target=bridge.run, daemon=True)
    running.start()
    running.join(120)
    assert not running.is_alive()


def test_a_zombie_that_comes_late_writes_nothing(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("zombie", partitions=1)
    fill(hub, 0, 50)
    carried(hub, options(broker, topic))
    zombie = BridgeOut(hub, options(broker, topic))
    zombie._offsets = zombie._library.Consumer({**zombie._settings, "group.id": f"restante.bridge.{topic}"})
    (page,) = [page for page in hub.feed() if page.partition == hub.partition_of("r0")][:1]
    line = zombie._line(page_of(page))
    assert line.position >= page.position - 1
    # The next producer of the partition fences it off.
    fill(hub, 50, 100)
    carried(hub, options(broker, topic))
    with pytest.raises(zombie._library.KafkaException):
        zombie._commit(line, page_of(page), OutRecords([b"r0"], [b"from the grave"], np.zeros(1, np.int64)))
    zombie._offsets.close()
    assert by_recipient(broker, topic) == expected(100)


def page_of(page: Any) -> Any:
    class Page:
        table, partition, position, generation = page.table, page.partition, page.position, 1

    return Page()


def test_cloudevents_and_filters(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("events-out", partitions=1)
    fill(hub, 0, 7, kind="order")
    fill(hub, 7, 14, kind="other")
    carried(hub, options(broker, topic, form=OutForm.CLOUDEVENTS, kinds=("order",), group="events"))
    records = broker.read(topic)
    assert len(records) == 7
    event = json.loads(records[0].value())
    assert (event["specversion"], event["source"], event["type"]) == ("1.0", "shop", "order")
    assert dict(records[0].headers())["content-type"] == b"application/cloudevents+json"


def test_avro_by_a_schema_file(broker: Broker, hub: Hub, tmp_path: Path) -> None:
    fields = [{"name": "recipient", "type": "string"}, {"name": "sequence_number", "type": "long"}]
    inner = {"type": "record", "name": "Data", "fields": [{"name": "n", "type": "int"}]}
    schema = {"type": "record", "name": "Order", "fields": [*fields, {"name": "data", "type": inner}]}
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(schema))
    topic = broker.topic("avro", partitions=1)
    fill(hub, 0, 7)
    hub.send(recipient="r0", data={"n": "seven"})
    with pytest.raises(InvalidRequest, match="does not fit"):
        carried(hub, options(broker, topic, form=OutForm.AVRO, schema=path, group="avro"))
    bridge = carried(hub, options(broker, topic, form=OutForm.AVRO, schema=path, group="avro", skip_misfits=True))
    assert bridge.counts.poisoned == 1
    data: list[Any] = [fastavro.schemaless_reader(io.BytesIO(one.value()), schema, None) for one in broker.read(topic)]
    assert sorted(one["data"]["n"] for one in data) == list(range(7))
    with pytest.raises(InvalidRequest, match="schema"):
        BridgeOut(hub, options(broker, topic, form=OutForm.AVRO))


def test_all_changes_may_be_written(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("all", partitions=1)
    fill(hub, 0, 7)
    bundle = hub.recipient("r0").peek()
    assert bundle is not None
    hub.recipient("r0").dequeue(bundle.bundle_id)
    carried(hub, options(broker, topic, changes=OutChanges.ALL, group="all"))
    changes = [json.loads(record.value())["change"] for record in broker.read(topic)]
    assert sorted(changes) == ["collected", *["published"] * 7]


def test_a_topic_of_positions_with_too_few_partitions_is_refused(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("few", partitions=1)
    broker.admin_topic(f"{topic}.positions", partitions=1)
    with pytest.raises(InvalidOperation, match="partitions"):
        carried(hub, options(broker, topic))


def test_a_compacted_topic_has_what_waits_and_nothing_of_the_erased(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("waiting", partitions=2, **{"cleanup.policy": "compact"})
    kept = options(broker, topic, compacted=True, group="waiting")
    fill(hub, 0, 21)
    carried(hub, kept)
    bundle = hub.recipient("r0").peek()
    assert bundle is not None
    hub.recipient("r0").dequeue(bundle.bundle_id)
    hub.recipient("r1").erase()
    fill(hub, 21, 28)
    assert carried(hub, kept).counts.stored == len(bundle.messages) + 3 + 7
    found: dict[str, list[int]] = defaultdict(list)
    last = {record.key(): record.value() for record in broker.read(topic)}
    for key, value in last.items():
        if value is not None:
            found[json.loads(key)[0]].append(json.loads(value)["data"]["n"])
    whole = {name: list(range(number, 28, 7)) for number, name in enumerate(NAMES)}
    assert {name: sorted(numbers) for name, numbers in found.items()} == {**whole, "r0": [21], "r1": [22]}
