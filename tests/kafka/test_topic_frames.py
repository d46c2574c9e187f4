"""A topic as a frame of Spark, and a nightly run on readings that are in Kafka; with a real Kafka, Spark and hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import restante
from restante.errors import InvalidRequest
from restante.server.serve import ServedHub
from restante.spark.jobs import nightly_run
from restante.spark.jobs.work import Work
from restante.spark.nightly.nightly_settlement import PRODUCTS
from restante.spark.sessions.start import session
from restante.spark.source.topic_frames import TopicSource, topic_frame
from tests.kafka.broker import Broker
from tests.spark.conftest import SMALL

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(900)]
DAY = date(2026, 3, 1)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session(master="local[2]", settings=SMALL)
    yield started
    started.stop()


def source(broker: Broker, topic: str) -> TopicSource:
    return TopicSource(topic=topic, brokers=broker.address)


def offsets(spark: SparkSession, wanted: TopicSource) -> list[tuple[int, int, bytes]]:
    return sorted((row.partition, row.offset, bytes(row.value)) for row in topic_frame(spark, wanted).collect())


def test_a_frame_has_each_committed_record_once(broker: Broker, spark: SparkSession) -> None:
    """Also beside markers of transactions, records that were taken back, and partitions that are empty."""
    topic = broker.topic("framed", partitions=3)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for commits in (True, False, True):
        producer.begin_transaction()
        for number in range(50):
            producer.produce(topic, b"%d" % number if commits else b"no", key=b"k", partition=number % 2)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush()
            producer.abort_transaction(30)
    frame = topic_frame(spark, source(broker, topic))
    broker.produce(topic, [{"value": b"late", "partition": 0}])
    found = sorted((row.partition, row.offset, bytes(row.value)) for row in frame.collect())
    assert len({(partition, offset) for partition, offset, _ in found}) == 100
    numbers = sorted(range(50)) * 2
    assert sorted(int(value) for _, _, value in found) == sorted(numbers)
    assert len(offsets(spark, source(broker, topic))) == 101


def test_an_empty_topic_is_an_empty_frame_and_none_an_error(broker: Broker, spark: SparkSession) -> None:
    assert offsets(spark, source(broker, broker.topic("empty"))) == []
    with pytest.raises(InvalidRequest, match="no topic"):
        topic_frame(spark, source(broker, "nowhere"))


def test_a_nightly_run_takes_its_readings_from_a_topic(
    broker: Broker, spark: SparkSession, served: ServedHub, tmp_path: Path
) -> None:
    topic = broker.topic("readings", partitions=3)
    readings = [
        {
            "meter": n % 6,
            "actor": f"a{n % 3}",
            "area": "north",
            "meter_group": 0,
            "quarter": n // 6,
            "energy_wh": 100 + n,
        }
        for n in range(6 * 96)
    ]
    wrong: list[object] = [
        {"meter": 1},
        "no reading",
        {**readings[0], "quarter": 96},
        {**readings[0], "area": "nowhere"},
    ]
    broker.produce(topic, [{"value": json.dumps(each).encode()} for each in [*readings, *wrong]])
    work = Work(spark=spark, url=served.url, tables=str(tmp_path / "tables"))
    options = nightly_run.Options(night=DAY, topic=topic, brokers=broker.address)
    first = nightly_run.run(work, options)
    assert (first.figures["readings"], first.figures["actors"]) == (len(readings), 3)
    assert first.figures["messages"] == 3 * (len(PRODUCTS) + 1)
    assert nightly_run.run(work, options).figures["batch"] == first.figures["batch"]
    with restante.connect(served.url) as hub:
        (summary,) = [
            one for one in hub.recipient("a1").history().messages if one.document_type == "settlement-summary"
        ]
    assert isinstance(summary.data, dict)
    assert summary.data["energy_wh"] == sum(100 + n for n in range(6 * 96) if n % 3 == 1)
