"""Transactional producers on a real Kafka: that of the Python client and that of the C library do the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest

from restante.bridges import out_producers
from restante.bridges.native_kafka import native_library
from restante.bridges.out_producers import ColumnProducer, OutGroup, OutPlace, OutProducer, PlainProducer
from restante.bridges.out_records import OutRecords, text_bytes
from tests.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
Make = Callable[..., OutProducer]


@pytest.fixture
def group(broker: Broker) -> Iterator[OutGroup]:
    name = uuid.uuid4().hex
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": name})
    yield OutGroup(name, consumer)
    consumer.close()


@pytest.fixture(params=["plain", "column"])
def make(request: pytest.FixtureRequest, broker: Broker, group: OutGroup) -> Make:
    common = {"bootstrap.servers": broker.address, "enable.idempotence": True, "partitioner": "murmur2_random"}
    kind: Any = PlainProducer
    if request.param == "column":
        library = native_library()
        assert library is not None, "the wheel of confluent-kafka has it"
        kind = partial(ColumnProducer, library)
    return lambda **more: kind({**common, "transactional.id": uuid.uuid4().hex, **more}, group)


def records(keys: list[bytes], values: list[bytes | None]) -> OutRecords:
    return OutRecords(keys, values, np.arange(len(keys)))


def test_what_is_committed_is_there_with_its_offset_and_what_is_aborted_is_not(
    broker: Broker, make: Make, group: OutGroup
) -> None:
    topic, positions = broker.topic("out", partitions=1), broker.topic("positions", partitions=3)
    producer = make()
    producer.begin()
    producer.produce(topic, records([b"a", b"", "ä".encode()], [b"1", b"", None]))
    producer.commit(OutPlace(positions, 2, 41))
    producer.begin()
    producer.produce(topic, records([b"a"], [b"never"]))
    producer.abort()
    producer.begin()
    column = text_bytes(pa.array(["x", "b", "c"]).slice(1))
    producer.produce(topic, OutRecords(column, column, np.arange(2)))
    producer.commit(OutPlace(positions, 2, 43))
    found = [(one.key(), one.value()) for one in broker.read(topic)]
    assert found == [(b"a", b"1"), (b"", b""), ("ä".encode(), None), (b"b", b"b"), (b"c", b"c")]
    (at,) = group.consumer.committed([confluent_kafka.TopicPartition(positions, 2)], timeout=20)
    assert at.offset == 43


def test_more_than_there_is_room_for_goes_in_order(broker: Broker, make: Make) -> None:
    topic, positions = broker.topic("full", partitions=1), broker.topic("positions", partitions=1)
    producer = make(**{"queue.buffering.max.messages": 12_000})
    values: list[bytes | None] = [b"%d" % number for number in range(30_000)]
    producer.begin()
    producer.produce(topic, records([b"k"] * len(values), values))
    producer.commit(OutPlace(positions, 0, 1))
    assert [one.value() for one in broker.read(topic)] == values


def test_one_of_the_same_id_fences_those_before_it(broker: Broker, make: Make) -> None:
    topic, positions = broker.topic("fenced", partitions=1), broker.topic("positions", partitions=1)
    before = make(**{"transactional.id": "one"})
    before.begin()
    make(**{"transactional.id": "one"})
    before.produce(topic, records([b"k"], [b"from the grave"]))
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        before.commit(OutPlace(positions, 0, 1))
    assert raised.value.args[0].fatal()
    assert broker.read(topic) == []


def test_a_setting_that_there_is_not_is_said(make: Make) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match=r"no\.such\.thing"):
        make(**{"no.such.thing": "1"})


def test_headers_go_the_plain_way(broker: Broker, group: OutGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"bootstrap.servers": broker.address, "transactional.id": uuid.uuid4().hex}
    assert isinstance(out_producers.out_producer(settings, group, headers=True), PlainProducer)
    assert isinstance(out_producers.out_producer(settings, group, headers=False), ColumnProducer)
    monkeypatch.setattr(out_producers, "native_library", lambda: None)
    assert isinstance(out_producers.out_producer(settings, group, headers=False), PlainProducer)
