"""A hub whose publishes go through a topic of a real Kafka: what it needs of the topic, once, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from restante import Message
from restante.assembly import open_hub
from restante.backplanes.kafka import KafkaBackplane
from restante.calls.mailboxes import ReadHistory
from restante.calls.publishing import Publish
from restante.errors import InvalidOperation, InvalidSettings, MessageConflict
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.door.hub import OpenHub
from restante.model.backplane.accept import Accept
from restante.ports.backplane import Delivered, Undelivered
from restante.settings import BackplaneSettings, Settings
from tests.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


def settings(broker: Broker, topic: str, **backplane: object) -> Settings:
    own = BackplaneSettings(topic=topic, brokers=broker.address, **backplane)  # type: ignore[arg-type]
    return Settings(partition_count=4, housekeeping_seconds=0, backplane=own)


@contextmanager
def opened(folder: Path, chosen: Settings) -> Iterator[OpenHub]:
    hub = open_hub(folder, settings=chosen)
    try:
        yield hub
    finally:
        hub.close()


def history(hub: OpenHub, recipient: str) -> list[Message]:
    return list(hub.call(ReadHistory(recipient, limit=1_000)).messages)


def until_stored(hub: OpenHub, messages: int) -> None:
    while hub.core.memory(BackplaneMemory).totals.messages < messages:
        assert not threading.Event().wait(0.01)


def test_publishes_go_through_the_topic_and_are_stored_once(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("backplane", partitions=4)
    with opened(tmp_path, settings(broker, topic)) as hub:
        few = hub.call(Publish.of([Message(recipient=f"r{n}", data=n) for n in range(10)]))
        assert (few.accepted, few.stored) == (10, True)
        table = pa.table({"recipient": [f"r{n % 10}" for n in range(5_000)], "data": [b"x" * 200] * 5_000})
        many = hub.call(Publish.of(table))
        assert many.accepted == 5_000
        merely = hub.call(Publish.of(Message(recipient="r0", text="last"), accept=Accept.ACCEPTED))
        assert (merely.stored, len(merely.positions)) == (False, 1)
        until_stored(hub, 5_011)
        assert [len(history(hub, f"r{n}")) for n in range(10)] == [502] + [501] * 9
        assert history(hub, "r0")[-1].text == "last"
    records = broker.read(topic)
    with opened(tmp_path, settings(broker, topic)) as hub:
        again = hub.call(Publish.of(Message(recipient="r1", text="after"), accept=Accept.ACCEPTED))
        until_stored(hub, 1)
        assert again.positions[0].position == sum(
            record.partition() == again.positions[0].partition for record in records
        )
        assert hub.core.memory(BackplaneMemory).totals.records == 1, (
            "the new owner begins at the position that is stored"
        )
        assert len(history(hub, "r1")) == 502


def test_each_message_goes_to_the_partition_of_its_recipient(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("placed", partitions=4)
    with opened(tmp_path, settings(broker, topic)) as hub:
        hub.call(Publish.of(Message(recipient="ada", text="hello")))
        place = hub.locate("ada").partition
    assert [record.partition() for record in broker.read(topic)] == [place]


@pytest.mark.parametrize(("partitions", "told"), [(3, "--alter"), (5, "another one")])
def test_a_topic_of_another_size_is_an_error_at_start(
    broker: Broker, tmp_path: Path, partitions: int, told: str
) -> None:
    topic = broker.topic("size", partitions=partitions)
    with pytest.raises(InvalidSettings, match=told), opened(tmp_path, settings(broker, topic)):
        pass


def test_a_topic_that_is_not_there_is_an_error_at_start(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="--create"), opened(tmp_path, settings(broker, "nothing-here")):
        pass


def test_a_topic_of_small_records_is_an_error_at_start(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("small", partitions=4, **{"max.message.bytes": "100000"})
    with pytest.raises(InvalidSettings, match=r"max\.message\.bytes"), opened(tmp_path, settings(broker, topic)):
        pass
    with opened(tmp_path, settings(broker, topic, record_bytes_max=65_536)) as hub:
        sent = [Message(recipient="ada", data=b"x" * 40_000) for _ in range(10)]
        assert hub.call(Publish.of(sent)).accepted == 10
        assert len(history(hub, "ada")) == 10


def test_a_topic_that_was_made_again_is_an_error_at_start(broker: Broker, tmp_path: Path) -> None:
    topic, other = (broker.topic("again", partitions=4) for _ in range(2))
    with opened(tmp_path, settings(broker, topic)) as hub:
        hub.call(Publish.of(_some()))
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(30)
    _made_again(broker, topic)
    with pytest.raises(InvalidOperation, match="made again"), opened(tmp_path, settings(broker, topic)):
        pass
    with opened(tmp_path, settings(broker, other)) as hub:
        assert hub.call(Publish.of(_some())).accepted == 20


def _some() -> list[Message]:
    return [Message(recipient=f"r{n}", data=n) for n in range(20)]


def _made_again(broker: Broker, topic: str) -> None:
    while topic in broker.admin().list_topics(timeout=10).topics:
        assert not threading.Event().wait(0.05)
    broker.admin_topic(topic, 4)


def test_conflicts_are_told_and_block_nothing(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("conflict", partitions=4)
    with opened(tmp_path, settings(broker, topic)) as hub:
        hub.call(Publish.of(Message(recipient="ada", id="one", text="first")))
        with pytest.raises(MessageConflict):
            hub.call(Publish.of(Message(recipient="ada", id="one", text="other")))
        hub.call(Publish.of(Message(recipient="ada", text="next")))
        assert [message.text for message in history(hub, "ada")] == ["first", "next"]


def test_a_record_that_the_topic_does_not_take_is_reported_as_lost(broker: Broker) -> None:
    topic = broker.topic("refusing", partitions=1, **{"max.message.bytes": "100000"})
    backplane = KafkaBackplane(BackplaneSettings(topic=topic, brokers=broker.address))
    reports: list[Delivered | Undelivered] = []
    try:
        for count, size in enumerate((200_000, 1_000), start=1):
            backplane.produce(0, b"x" * size, reports.append)
            while len(reports) < count:
                assert not threading.Event().wait(0.01)
    finally:
        backplane.close()
    lost, delivered = reports
    assert isinstance(lost, Undelivered)
    assert not lost.maybe
    assert delivered == Delivered(0)
