"""Bridges while brokers and hubs are killed: nothing is lost, nothing is there twice, and the bridge goes on by itself."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.bridges.bridge_in import BridgeIn, InOptions
from restante.bridges.bridge_out import BridgeOut, OutOptions
from restante.bridges.in_rules import InRule
from restante.client.surface.surface import Hub
from tests.crash.served import Served
from tests.kafka.broker import Broker
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
QUICK = {"reconnect.backoff.max.ms": "200", "topic.metadata.refresh.interval.ms": "1000"}


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"key": f"c{n % 4}", "value": json.dumps({"n": n}).encode()} for n in range(first, last)]


def expected(count: int) -> dict[str, list[int]]:
    return {f"c{c}": list(range(c, count, 4)) for c in range(4)}


def mailboxes(hub: Hub) -> dict[str, list[int]]:
    return {
        f"c{c}": [message.data["n"] for message in hub.recipient(f"c{c}").history(limit=1_000).messages]
        for c in range(4)
    }


def waiting(hub: Hub) -> int:
    return sum(status.waiting for status in hub.partitions())


def test_a_bridge_in_outlives_a_killed_broker(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("broker-in", partitions=2)
    broker.produce(topic, orders(0, 400))
    options = InOptions(rules=(InRule(topic=topic),), brokers=broker.address, group=topic, batch=20, kafka=QUICK)
    bridge = BridgeIn(hub, options)
    thread = threading.Thread(target=bridge.run)
    thread.start()
    try:
        wait_until(lambda: waiting(hub) >= 100, "the first records")
        broker.kill()
        broker.start()
        broker.produce(topic, orders(400, 800))
        wait_until(lambda: waiting(hub) >= 800, "all records")
    finally:
        bridge.stop()
        thread.join(60)
    assert mailboxes(hub) == expected(800)


def test_a_bridge_in_outlives_a_killed_hub(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("hub-in", partitions=2)
    broker.produce(topic, orders(0, 800))
    served = Served(tmp_path / "data", partition_count=4)
    served.start()
    hub = restante.connect(served.url, retries=0)
    options = InOptions(rules=(InRule(topic=topic),), brokers=broker.address, group=topic, batch=25, kafka=QUICK)
    bridge = BridgeIn(hub, options)
    thread = threading.Thread(target=bridge.run)
    thread.start()
    try:
        wait_until(lambda: bridge.counts.stored >= 100, "the first records")
        served.kill()
        served.start()
        wait_until(lambda: bridge.counts.records >= 800, "all records")
    finally:
        bridge.stop()
        thread.join(60)
    with restante.connect(served.url) as again:
        assert mailboxes(again) == expected(800)
    hub.close()
    assert served.end() == 0


def test_a_bridge_out_outlives_a_killed_broker(broker: Broker, hub: Hub) -> None:
    topic = broker.topic("broker-out", partitions=2)
    hub.send([{"recipient": f"c{n % 4}", "data": {"n": n}} for n in range(300)])
    bridge = BridgeOut(hub, OutOptions(topic=topic, brokers=broker.address, group=topic, kafka=QUICK))
    thread = threading.Thread(target=bridge.run)
    thread.start()
    try:
        wait_until(lambda: bridge.counts.stored >= 100, "the first changes")
        broker.kill()
        hub.send([{"recipient": f"c{n % 4}", "data": {"n": n}} for n in range(300, 600)])
        broker.start()
        wait_until(lambda: bridge.counts.lag == 0 and bridge.counts.stored >= 600, "all changes")
    finally:
        bridge.stop()
        thread.join(90)
    found: dict[str, list[int]] = defaultdict(list)
    for record in broker.read(topic):
        found[record.key().decode()].append(json.loads(record.value())["data"]["n"])
    assert dict(found) == expected(600)
