"""A Kafka topic as a frame, read by the Kafka client in Spark's own tasks: one task for each topic partition, no jars.

Which records are read is decided when the frame is made: those between the beginning and the end that each topic partition
has then. So the frame is the same however often Spark reads it, as long as the topic keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from restante.backplanes.kafka_library import (
    kafka_client,
    kafka_library,
    kafka_settings,
    partition_reach,
    topic_partitions,
    unavailable,
)
from restante.errors import Unavailable

COLUMNS = "key binary, value binary, partition int, offset bigint, timestamp_ms bigint"
_RANGES = "partition int, first bigint, end bigint"
_LOOK_SECONDS = 1.0
_SILENT_LOOKS_MAX = 60
_AT_ONCE = 10_000
TopicRange = tuple[int, int, int]
"""A partition, the first offset, and the offset after the last."""


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """Which topic, and where."""

    topic: str
    brokers: str
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the Kafka client."""

    def settings(self) -> dict[str, Any]:
        """The settings of a consumer that commits nothing. The log is each process's own."""
        own = {name: value for name, value in kafka_settings(self.brokers, self.kafka).items() if name != "logger"}
        reading = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
        return {**own, **reading, "group.id": f"restante.spark.{self.topic}", "auto.offset.reset": "error"}


def topic_frame(spark: SparkSession, source: TopicSource) -> DataFrame:
    """The records that are committed in the topic now."""
    ranges = [each for each in topic_ranges(source) if each[2] > each[1]]
    frame = spark.createDataFrame(ranges, _RANGES).repartition(max(len(ranges), 1))
    return frame.mapInArrow(_reader(source.topic, source.settings()), COLUMNS)


def topic_ranges(source: TopicSource) -> list[TopicRange]:
    """The range of offsets that each topic partition has now."""
    library: Any = kafka_library()
    consumer = kafka_client(library.Consumer, source.settings())
    try:
        numbers = topic_partitions(consumer, source.topic)
        places = [library.TopicPartition(source.topic, number) for number in numbers]
        return [(place.partition, *partition_reach(consumer, place)) for place in places]
    except library.KafkaException as error:
        raise unavailable(error) from error
    finally:
        consumer.close()


def _reader(topic: str, settings: dict[str, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a task: it is carried to where Spark runs it, so it has nothing but values."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from records_of(topic, settings, (row["partition"], row["first"], row["end"]))

    return read


def records_of(topic: str, settings: dict[str, Any], wanted: TopicRange) -> Iterator[pa.RecordBatch]:
    """The records of a topic partition between two offsets, in order."""
    library: Any = kafka_library()
    number, first, end = wanted
    consumer = kafka_client(library.Consumer, settings)
    try:
        consumer.assign([library.TopicPartition(topic, number, first)])
        silent, done = 0, False
        while not done:
            messages = consumer.consume(_AT_ONCE, _LOOK_SECONDS)
            silent = 0 if messages else silent + 1
            if silent > _SILENT_LOOKS_MAX:
                raise Unavailable(f"Kafka gave no record of {topic}/{number} for {_SILENT_LOOKS_MAX} seconds.")
            found = [message for message in messages if _is_record(message, library)]
            # A record beyond the end, or the end of the topic, shows that all is read: markers of transactions are no records.
            done = len(found) < len(messages) or bool(found and found[-1].offset() >= end - 1)
            kept = [message for message in found if message.offset() < end]
            if kept:
                yield _batch(kept, number)
    finally:
        consumer.close()


def _is_record(message: Any, library: Any) -> bool:  # noqa: ANN401 - of an untyped library
    """Whether a message is a record; the end of the partition is none, and any other error is raised."""
    error = message.error()
    if error is None:
        return True
    if error.code() != library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named there
        raise unavailable(library.KafkaException(error))
    return False


def _batch(messages: Sequence[Any], number: int) -> pa.RecordBatch:
    kind = type(messages[0])
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(list(map(kind.key, messages)), pa.binary()),
            "value": pa.array(list(map(kind.value, messages)), pa.binary()),
            "partition": pa.array([number] * len(messages), pa.int32()),
            "offset": pa.array(list(map(kind.offset, messages)), pa.int64()),
            "timestamp_ms": pa.array([moment for _, moment in map(kind.timestamp, messages)], pa.int64()),
        }
    )
