"""`format("restante-topic")`: a Kafka topic as a stream of Spark, read by the Kafka client in Spark's own tasks; no jars.

An offset holds for each topic partition the offset up to which all was read, in Spark's checkpoint. The bounds alone say what a
micro-batch holds: the same bounds give the same records again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from restante.backplanes.kafka_library import DEFAULT_BROKERS
from restante.decoders import json_decoder
from restante.errors import InvalidOperation, InvalidRequest
from restante.limits import SPARK_IDLE_SECONDS
from restante.spark.source.topic_frames import COLUMNS, TopicRange, TopicSource, records_of, topic_ranges

NAME = "restante-topic"
Offset = dict[str, int]
"""The next offset of each topic partition, as Spark keeps it in its checkpoint."""


def stream_options(source: TopicSource) -> dict[str, str]:
    """The options of the stream. Values that come from the environment are looked up where it is read."""
    kafka = msgspec.json.encode(source.kafka).decode()
    return {"topic": source.topic, "brokers": source.brokers, "kafka": kafka}


class TopicStream(DataSource):
    """A topic, as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> TopicReader:  # noqa: ARG002, N802 - as Spark calls it
        given = {name: self.options[name] for name in ("topic", "brokers", "kafka") if name in self.options}
        if "topic" not in given:
            raise InvalidRequest("A stream of a topic needs the option topic.", parameter="topic")
        kafka = json_decoder(dict[str, str]).decode(given.get("kafka", "{}"))
        return TopicReader(
            TopicSource(topic=given["topic"], brokers=given.get("brokers", DEFAULT_BROKERS), kafka=kafka)
        )


@dataclass(frozen=True)
class _Stretch(InputPartition):
    """The stretch that one task reads."""

    wanted: TopicRange


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver, reads in the tasks."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._target: Offset | None = None
        """Where a query ends that takes what is available now."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return {str(number): first for number, first, _ in topic_ranges(self._source)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802 - Spark's name
        ranges = topic_ranges(self._source)
        _check(self._source.topic, start, ranges)
        ends = self._target or {str(number): end for number, _, end in ranges}
        if ends == start:
            time.sleep(SPARK_IDLE_SECONDS)  # Spark asks again at once.
        return ends

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = {str(number): end for number, _, end in topic_ranges(self._source)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """A topic partition that was added since begins at 0."""
        stretches = [(int(number), start.get(number, 0), until) for number, until in end.items()]
        return [_Stretch(wanted) for wanted in stretches if wanted[2] > wanted[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Stretch)
        return records_of(self._source.topic, self._source.settings(), partition.wanted)


def _check(topic: str, read: Mapping[str, int], ranges: Sequence[TopicRange]) -> None:
    """Whether the topic goes on where it was read up to."""
    for number, first, end in ranges:
        position = read.get(str(number), first)
        if position > end:
            raise InvalidOperation(
                f"{topic}/{number} was read up to {position}, but ends at {end}: it was deleted and made again, or is that of "
                "another cluster. Begin again, with another checkpoint."
            )
        if position < first:
            raise InvalidOperation(
                f"Kafka has removed records of {topic}/{number} that were not read: it begins at {first}, and was read up to "
                f"{position}. Begin again, with another checkpoint, and raise the retention of the topic."
            )
