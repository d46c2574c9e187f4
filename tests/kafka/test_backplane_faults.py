"""A backplane while brokers and hubs are killed: what was acknowledged is stored once, in order."""

from __future__ import annotations

import random
import signal
import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

import restante
from restante import Message
from restante.assembly import open_hub
from restante.calls.publishing import Publish
from restante.client.surface.surface import Hub
from restante.errors import RestanteError, Unavailable
from restante.model.backplane.accept import Accept
from restante.settings import BackplaneSettings, Settings
from restante.stores.memory import MemoryStore
from tests.crash.served import Served
from tests.kafka.broker import Broker
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
SENDERS = 4


def served(broker: Broker, topic: str, folder: Path) -> Served:
    return Served(
        folder,
        partition_count=4,
        backplane__topic=topic,
        backplane__brokers=broker.address,
        backplane__delivery_seconds=3,
        backplane__stored_seconds=5,
        backplane__kafka='{"reconnect.backoff.max.ms" = "200", "topic.metadata.refresh.interval.ms" = "1000"}',
    )


class Senders:
    """Each sends one numbered message after the other to its own mailbox, the same until it is acknowledged."""

    def __init__(self, url: str, kinds: tuple[str, ...], timeout: float = 10) -> None:
        self.sent = [0] * SENDERS
        self.refusals: list[str] = []
        self._url = url
        self._timeout = timeout
        self._kinds = kinds
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        with restante.connect(self._url, retries=0, timeout=self._timeout) as hub:
            while not self._stopping.is_set():
                self._send_one(hub, number)

    def _send_one(self, hub: Hub, number: int) -> None:
        at = self.sent[number]
        message = Message(recipient=f"c{number}", id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{number}/{at}")), data=at)
        while True:
            try:
                hub.send(message, accept=self._kinds[at % len(self._kinds)])  # type: ignore[arg-type]
            except Unavailable as refusal:
                self.refusals.append(str(refusal))
                time.sleep(0.05)
            else:
                self.sent[number] += 1
                return

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()


def found(hub: Hub, name: str) -> list[int]:
    numbers: list[int] = []
    after = None
    while True:
        page = hub.recipient(name).history(limit=1_000, after=after)
        numbers += [message.data for message in page.messages]
        if page.next is None:
            return numbers
        after = page.next


def check(url: str, senders: Senders) -> None:
    with restante.connect(url) as hub:
        wait_until(lambda: sum(status.waiting for status in hub.partitions()) >= sum(senders.sent), "all are stored")
        for number in range(SENDERS):
            assert found(hub, f"c{number}") == list(range(senders.sent[number]))


def test_a_killed_broker_loses_nothing(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("killed-broker", partitions=4)
    with served(broker, topic, tmp_path / "data") as hub:
        senders = Senders(hub.url, ("stored", "accepted"))
        try:
            wait_until(lambda: min(senders.sent) >= 40, "the first messages")
            broker.kill()
            wait_until(lambda: bool(senders.refusals), "publishers are told that Kafka is away")
            broker.start()
            reached = [count + 40 for count in senders.sent]
            wait_until(lambda: all(now >= then for now, then in zip(senders.sent, reached, strict=True)), "it goes on")
        finally:
            senders.stop()
        check(hub.url, senders)


def test_an_owner_that_is_killed_stores_each_record_once(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("killed-owner", partitions=4)
    chance = random.Random(7)
    with served(broker, topic, tmp_path / "data") as hub:
        senders = Senders(hub.url, ("accepted", "accepted", "stored"))
        try:
            for _ in range(6):
                reached = sum(senders.sent) + 60
                wait_until(lambda reached=reached: sum(senders.sent) >= reached, "some messages")  # type: ignore[misc]
                time.sleep(chance.uniform(0, 0.05))
                hub.kill()
                hub.start()
        finally:
            senders.stop()
        check(hub.url, senders)
        assert hub.end() == 0
        hub.check_folder()


def test_a_backlog_is_stored_once_by_owners_that_are_killed_over_it(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("backlog", partitions=4)
    _fill(broker, topic, 20_000)
    expected = {f"c{number}": 5_000 for number in range(SENDERS)}
    hub = served(broker, topic, tmp_path / "data")
    for pause in (0.0, 0.02, 0.05, 0.1):
        hub.start()
        time.sleep(pause)
        hub.kill()
    with hub, restante.connect(hub.url) as client:
        wait_until(lambda: sum(status.waiting for status in client.partitions()) >= 20_000, "the backlog")
        for number in range(SENDERS):
            assert found(client, f"c{number}") == list(range(expected[f"c{number}"]))


def _fill(broker: Broker, topic: str, count: int) -> None:
    """A door that goes away: its messages are in the topic, and nobody has stored them here."""
    own = BackplaneSettings(topic=topic, brokers=broker.address)
    chosen = Settings(partition_count=4, housekeeping_seconds=0, backplane=own)
    door = open_hub(None, store=MemoryStore(), settings=chosen)
    messages = [Message(recipient=f"c{n % SENDERS}", data=n // SENDERS) for n in range(count)]
    for start in range(0, count, 100):
        door.call(Publish.of(messages[start : start + 100], accept=Accept.ACCEPTED))
    door.close()


def test_copies_of_records_are_stored_once(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("copies", partitions=4)
    _fill(broker, topic, 2_000)
    producer = Producer({"bootstrap.servers": broker.address})
    for record in broker.read(topic):
        producer.produce(topic, record.value(), partition=record.partition())
    assert producer.flush(60) == 0
    with served(broker, topic, tmp_path / "data") as hub, restante.connect(hub.url) as client:
        last = client.send(recipient="last", text="after the copies")
        assert last.accepted == 1
        wait_until(lambda: sum(status.waiting for status in client.partitions()) >= 2_001, "all records")
        for number in range(SENDERS):
            assert found(client, f"c{number}") == list(range(2_000 // SENDERS))


def test_a_door_that_was_thought_dead_harms_nobody(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("zombie", partitions=4)
    messages = [Message(recipient="c0", id=f"m{n}", data=n) for n in range(50)]
    with served(broker, topic, tmp_path / "data") as hub:
        hub.process.send_signal(signal.SIGSTOP)
        with restante.connect(hub.url, retries=0, timeout=1) as impatient, pytest.raises(RestanteError):
            impatient.send(messages)
        own = BackplaneSettings(topic=topic, brokers=broker.address)
        chosen = Settings(partition_count=4, housekeeping_seconds=0, backplane=own)
        other = open_hub(None, store=MemoryStore(), settings=chosen)
        assert other.call(Publish.of(messages, accept=Accept.ACCEPTED)).accepted == 50
        other.call(Publish.of(Message(recipient="c0", id="m50", data=50), accept=Accept.ACCEPTED))
        other.close()
        hub.process.send_signal(signal.SIGCONT)
        with restante.connect(hub.url) as client:
            again = client.send(messages)
            assert (again.accepted, again.duplicates) == (0, 50)
            wait_until(lambda: len(found(client, "c0")) >= 51, "all messages")
            assert found(client, "c0") == list(range(51))
