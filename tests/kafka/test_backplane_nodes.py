"""Three nodes on one PostgreSQL, with a backplane on a real Kafka: owners are killed under load, and nobody is refused."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.calls.backplane import ReadBackplane
from restante.model.shards.ranges import even_ranges, shard_of
from restante.model.storage.partition import partition_of
from tests.kafka.broker import Broker
from tests.kafka.test_backplane_faults import found
from tests.nodes.node_processes import PARTITIONS, SHARDS, NodeCluster, NodeProcess
from tests.server.wire import Wire
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(280)]
EXPECTED = {"stored": 201, "accepted": 202}


def settings(broker: Broker, topic: str) -> dict[str, str]:
    return {
        "RESTANTE_BACKPLANE__TOPIC": topic,
        "RESTANTE_BACKPLANE__BROKERS": broker.address,
        "RESTANTE_BACKPLANE__STORED_SECONDS": "60",
    }


@contextmanager
def three_nodes(broker: Broker, folder: Path, topic: str) -> Iterator[NodeCluster]:
    cluster = NodeCluster(folder, settings=settings(broker, topic))
    try:
        for node in cluster.nodes:
            until_it_takes(node)
        yield cluster
    finally:
        cluster.close()


def until_it_takes(node: NodeProcess) -> None:
    """A node says 503 until it has looked at the topic."""
    wire = Wire(node.url)
    body = {"messages": [{"recipient": "first", "data": node.name}]}
    wait_until(lambda: wire("POST", "/v1/messages", body).status == 201, "the node takes publishes")
    wire.close()


def mailboxes() -> list[str]:
    """One in each shard."""
    ranges, found = even_ranges(PARTITIONS, SHARDS), dict[int, str]()
    for number in range(1_000):
        found.setdefault(shard_of(ranges, partition_of(f"c{number}", PARTITIONS)), f"c{number}")
    return list(found.values())


class NodeSenders:
    """For each mailbox one numbered message after the other, at one node; no answer but the expected one is taken."""

    def __init__(self, node: NodeProcess, kind: str) -> None:
        self.sent = dict.fromkeys(mailboxes(), 0)
        self.refused: list[Any] = []
        self._url = node.url
        self._kind = kind
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(name,)) for name in self.sent]
        for thread in self._threads:
            thread.start()

    def _send(self, name: str) -> None:
        wire = Wire(self._url)
        wire._connection.timeout = 90
        while not self._stopping.is_set() and not self.refused:
            body = {"messages": [{"recipient": name, "data": self.sent[name]}]}
            answer = wire("POST", "/v1/messages", body, headers={"restante-accept": self._kind})
            if answer.status == EXPECTED[self._kind]:
                self.sent[name] += 1
                self._stopping.wait(0.005)
            else:
                self.refused.append((name, answer))
        wire.close()

    def wait_for_more(self, count: int = 15) -> None:
        """Until each mailbox was sent so many more."""
        wanted = {name: sent + count for name, sent in self.sent.items()}
        wait_until(
            lambda: bool(self.refused) or all(self.sent[name] >= least for name, least in wanted.items()), "more"
        )
        assert not self.refused

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(100)
            assert not thread.is_alive()


def check(cluster: NodeCluster, sent: Mapping[str, int]) -> None:
    with restante.connect(cluster.nodes[2].url) as hub:
        for name, count in sent.items():
            wait_until(lambda name=name, count=count: len(found(hub, name)) >= count, "all are stored")  # type: ignore[misc]
            assert found(hub, name) == list(range(count))


@pytest.mark.parametrize("kind", ["accepted", pytest.param("stored", marks=pytest.mark.long)])
def test_owners_are_killed_under_load_and_no_publisher_is_refused(broker: Broker, tmp_path: Path, kind: str) -> None:
    with three_nodes(broker, tmp_path, broker.topic("killed-nodes", partitions=PARTITIONS)) as cluster:
        senders = NodeSenders(cluster.nodes[2], kind)
        try:
            senders.wait_for_more()
            for turn in range(3):
                node = cluster.nodes[turn % 2]
                node.kill()
                senders.wait_for_more()
                node.start()
                senders.wait_for_more()
        finally:
            senders.stop()
        check(cluster, senders.sent)


def test_what_is_merely_accepted_is_taken_while_the_database_is_away(broker: Broker, tmp_path: Path) -> None:
    with three_nodes(broker, tmp_path, broker.topic("away-database", partitions=PARTITIONS)) as cluster:
        senders = NodeSenders(cluster.nodes[2], "accepted")
        try:
            senders.wait_for_more()
            cluster.server.stop(signal.SIGQUIT)
            senders.wait_for_more(40)
            cluster.server.start()
            senders.wait_for_more()
        finally:
            senders.stop()
        check(cluster, senders.sent)
        with restante.connect(cluster.nodes[0].url) as hub:
            status = hub.link.call(ReadBackplane())
        assert (status.refused, len(status.partitions)) == (0, PARTITIONS)


def test_a_node_refuses_a_topic_of_another_size_at_its_start(broker: Broker, tmp_path: Path) -> None:
    few = settings(broker, broker.topic("small", partitions=4))
    with pytest.raises(AssertionError, match="has 4 partitions, and the hub 32"):
        NodeCluster(tmp_path, "a", few)
