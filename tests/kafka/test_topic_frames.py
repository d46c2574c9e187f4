"""A topic as a frame of Spark, and a nightly run on readings that are in Kafka; with a real Kafka, Spark and hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import restante
from restante.errors import InvalidOperation, InvalidRequest
from restante.server.serve import ServedHub
from restante.spark.jobs import capture, nightly_run
from restante.spark.jobs.work import Work
from restante.spark.nightly.nightly_settlement import PRODUCTS
from restante.spark.sessions.start import session
from restante.spark.source.topic_frames import TopicSource, topic_frame
from restante.spark.tables.folders import Folders
from tests.kafka.broker import Broker
from tests.spark.small_spark import SMALL
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(900)]
DAY = date(2026, 3, 1)
HOUR_MS = 3_600_000


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


def captured(folder: Path) -> list[tuple[int, int, bytes]]:
    """As somebody reads it who knows nothing of Spark."""
    rows = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def stored(broker: Broker, topic: str) -> list[tuple[int, int, bytes]]:
    return sorted((one.partition(), one.offset(), one.value()) for one in broker.read(topic))


def test_a_capture_takes_the_records_of_a_topic_each_once(
    broker: Broker, spark: SparkSession, served: ServedHub, tmp_path: Path
) -> None:
    topic = broker.topic("captured", partitions=3)
    work = Work(spark=spark, url=served.url, tables=str(tmp_path / "tables"))
    options = capture.Options(topic=topic, brokers=broker.address)
    times = [HOUR_MS * (n % 5) for n in range(300)]
    broker.produce(topic, [{"key": b"k%d" % n, "value": b"%d" % n, "timestamp": at} for n, at in enumerate(times, 1)])
    assert capture.run(work, options).figures["changes"] == 300
    assert capture.run(work, options).figures["changes"] == 0
    broker.produce(topic, [{"value": b"late %d" % n} for n in range(20)])
    assert capture.run(work, options).figures["changes"] == 20
    place = tmp_path / "tables" / f"capture-{topic}"
    assert captured(place) == stored(broker, topic)
    hours = {path.name for path in place.glob("partition=*/hour=*")}
    assert hours >= {f"hour=1970-01-01T{n:02}" for n in range(1, 5)}


def test_a_capture_that_is_broken_off_takes_each_record_once(
    broker: Broker, spark: SparkSession, served: ServedHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic("broken-capture", partitions=2)
    work = Work(spark=spark, url=served.url, tables=str(tmp_path / "tables"))
    options = capture.Options(topic=topic, brokers=broker.address, roll=10)
    broker.produce(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(100)])
    moved, real = list[str](), Folders.move

    def move(self: Folders, source: str, target: str) -> None:
        if len(moved) == 3:
            raise OSError("power failure")
        moved.append(target)
        real(self, source, target)

    monkeypatch.setattr(Folders, "move", move)
    with pytest.raises(Exception, match="power failure"):
        capture.run(work, options)
    monkeypatch.undo()
    broker.produce(topic, [{"value": b"after", "partition": 0}])
    capture.run(work, options)
    assert captured(tmp_path / "tables" / f"capture-{topic}") == stored(broker, topic)


def test_a_capture_of_a_topic_that_was_made_again_says_so(
    broker: Broker, spark: SparkSession, served: ServedHub, tmp_path: Path
) -> None:
    topic, admin = broker.topic("made-again", partitions=1), broker.admin()
    work = Work(spark=spark, url=served.url, tables=str(tmp_path / "tables"))
    options = capture.Options(topic=topic, brokers=broker.address)
    broker.produce(topic, [{"value": b"%d" % n} for n in range(5)])
    capture.run(work, options)
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
    broker.admin_topic(topic, 1)
    with pytest.raises(InvalidOperation, match="deleted and made again"):
        capture.run(work, options)
    with pytest.raises(InvalidRequest, match="no topic"):
        capture.run(work, capture.Options(topic="nowhere", brokers=broker.address))


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
