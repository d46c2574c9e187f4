"""Reading the feed as a stream: from where it is told, as much as it may, and on from its checkpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

import restante
from restante.errors import PositionAhead
from restante.spark.source.answer_rows import SourceRows
from restante.spark.source.hub_pages import ChangesPartition, stretch_batches
from restante.spark.source.options import reading_of
from restante.spark.source.schemas import CHANGES
from tests.spark.served import HubHere, SparkHub


def send(hub: SparkHub, *numbers: int) -> None:
    with hub.connect() as connected:
        connected.producer.send(
            [restante.Message(recipient=f"r{n % 5}", kind=f"k{n % 2}", data={"n": n}) for n in numbers]
        )


def collect(hub: SparkHub, recipient: str) -> None:
    with hub.connect() as connected:
        for bundle in connected.recipient(recipient).bundles(idle=0):
            bundle.dequeue()


class Stream:
    """A query that takes what is available now, each time it is asked, on from its checkpoint."""

    def __init__(self, spark: SparkSession, hub: SparkHub, folder: Path) -> None:
        self._spark = spark
        self._hub = hub
        self._checkpoint = str(folder / "checkpoint")
        self.batches: list[list[Row]] = []

    def take(self, **options: str) -> list[Row]:
        """What is new since it was asked last."""
        before = len(self.batches)
        frame = self._spark.readStream.format("restante").options(**{"url": self._hub.url, **options}).load()
        query = (
            frame.writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        return [row for batch in self.batches[before:] for row in batch]

    def _keep(self, frame: DataFrame, _: int) -> None:
        self.batches.append(frame.collect())


@pytest.fixture
def stream(spark: SparkSession, hub: SparkHub, tmp_path: Path) -> Stream:
    return Stream(spark, hub, tmp_path)


def numbers(rows: list[Row]) -> list[int]:
    return sorted(json.loads(row["data"])["n"] for row in rows if row["data"] is not None)


def test_a_stream_begins_with_what_is_stored_and_goes_on_with_every_change(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(20))
    collect(hub, "r1")
    first = stream.take()
    assert {row["change"] for row in first} == {"stored"}
    assert numbers(first) == list(range(20))
    assert {row["recipient"] for row in first if row["state"] == "collected"} == {"r1"}
    assert stream.take() == []
    send(hub, 20, 21)
    collect(hub, "r0")
    rest = stream.take()
    assert Counter(row["change"] for row in rest) == {"published": 2, "collected": 5}
    assert numbers(rest) == [20, 21]
    assert {row["recipient"] for row in rest if row["change"] == "collected"} == {"r0"}
    assert all(row["bundle_id"] for row in rest if row["change"] == "collected")


def test_a_micro_batch_has_no_more_than_it_may_and_the_restart_keeps_the_place(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(100))
    found = stream.take(startingPosition="earliest", maxMessagesPerTrigger="30")
    assert [len(batch) for batch in stream.batches] == [30, 30, 30, 10]
    send(hub, *range(100, 110))
    found += stream.take(startingPosition="earliest", maxMessagesPerTrigger="30")
    assert numbers(found) == list(range(110))


def test_long_stretches_are_read_in_ranges(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(100))
    found = stream.take(startingPosition="earliest", rangeSize="7")
    assert numbers(found) == list(range(100))
    places = [(row["partition"], row["sequence_number"]) for row in found]
    assert len(set(places)) == 100


def test_latest_is_what_comes_from_now_on(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(10))
    assert stream.take(startingPosition="latest") == []
    send(hub, 10)
    assert numbers(stream.take(startingPosition="latest")) == [10]


def test_numbers_say_where_to_begin(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(10))
    with hub.connect() as connected:
        ends = {str(own.partition): own.visible_sequence for own in connected.partitions()}
    send(hub, 10, 11)
    assert numbers(stream.take(startingPosition=json.dumps(ends))) == [10, 11]


def test_options_and_columns_say_what_is_read(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(20))
    found = stream.take(startingPosition="earliest", recipient='["r1", "r2"]', kind="k0", columns="recipient,change")
    assert sorted(found) == sorted([Row("r1", "published")] * 2 + [Row("r2", "published")] * 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingPosition": '{"0": 0}'}, "startingPosition names no position for partitions 1, 2"),
        ({"startingPosition": '{"77": 0}'}, "There is no partition 77"),
    ],
)
def test_a_start_that_is_not_there_is_said(stream: Stream, options: dict[str, str], said: str) -> None:
    with pytest.raises(StreamingQueryException, match=re.escape(said)):
        stream.take(**options)


def test_another_hub_under_the_same_checkpoint_is_noticed(
    stream: Stream, hub: SparkHub, spark: SparkSession, tmp_path: Path
) -> None:
    send(hub, *range(50))
    stream.take()
    with hub.another() as other:
        send(other, 1)
        stream._hub = other
        with pytest.raises(StreamingQueryException, match="This is not the hub that was read before"):
            stream.take()


def test_other_partitions_under_the_same_checkpoint_are_noticed(stream: Stream, hub: SparkHub) -> None:
    send(hub, *range(10))
    stream.take(partitions="0,1")
    for partitions in ("0", "0,1,2"):
        with pytest.raises(StreamingQueryException, match="Name the same partitions as before"):
            stream.take(partitions=partitions)


def test_a_stretch_beyond_the_end_of_the_hub_is_refused(hub: SparkHub) -> None:
    send(hub, 0)
    with hub.connect() as connected:
        partition = connected.partition_of("r0")
    reading = reading_of({"url": hub.url})
    with pytest.raises(PositionAhead, match="This is not the hub that was read before"):
        list(stretch_batches(reading, SourceRows.of(CHANGES), ChangesPartition(partition, 0, 99)))


def test_what_retention_has_removed_is_said_to_be_gone(spark: SparkSession, tmp_path: Path) -> None:
    settings = restante.Settings(collected_retention_seconds=0, feed_retention_seconds=0)
    with restante.open(tmp_path / "hub", settings=settings) as connected:
        connected.producer.send([restante.Message(recipient="r0", data={"n": n}) for n in range(50)])
        for bundle in connected.recipient("r0").bundles(idle=0):
            bundle.dequeue()
        connected.file()
        assert connected.retain() > 0
    with HubHere(tmp_path / "hub") as hub:
        start = json.dumps({str(partition): 0 for partition in range(16)})
        with pytest.raises(StreamingQueryException, match="no longer has the changes after 0"):
            Stream(spark, hub, tmp_path).take(startingPosition=start)
