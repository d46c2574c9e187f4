"""Reading what a hub stores: all of it, as of one position of each partition, and only what is asked for."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import restante
import restante.spark
from tests.spark.served import SparkHub


def fill(hub: SparkHub, count: int = 30, *, recipients: int = 5) -> None:
    with hub.connect() as connected:
        connected.producer.send(
            [
                restante.Message(
                    recipient=f"r{n % recipients}",
                    origin=f"o{n % 2}",
                    kind=f"k{n % 3}",
                    data={"n": n},
                    properties={"n": str(n)} if n % 2 else {},
                )
                for n in range(count)
            ]
        )


def read(spark: SparkSession, hub: SparkHub, **options: str) -> DataFrame:
    return spark.read.format("restante").options(**options).load(hub.url)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(json.loads(row["data"])["n"]) for row in frame.select("data").collect())


def test_all_that_is_stored_is_read_as_the_hub_has_it(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    with hub.connect() as connected:
        bundle = next(iter(connected.recipient("r1").bundles(idle=0)))
        bundle.dequeue()
        expected = {
            message.id: (own, message)
            for own in range(5)
            for message in connected.recipient(f"r{own}").history().messages
        }
    found = {row["id"]: row for row in read(spark, hub).collect()}
    assert found.keys() == expected.keys()
    for own, (number, message) in expected.items():
        row = found[own]
        assert row["recipient"] == f"r{number}"
        assert (row["change"], row["state"]) == ("stored", message.state.value if message.state else None)
        assert row["sequence_number"] == row["message_sequence_number"] == message.sequence_number
        assert (row["origin"], row["kind"], row["media_type"]) == (message.origin, message.kind, message.media_type)
        assert json.loads(row["data"]) == message.data
        assert (row["properties"] or {}) == (message.properties or {})
        assert (row["collected_at"] is None) == (message.collected_at is None)
    assert {row["state"] for row in found.values()} == {"waiting", "collected"}


def test_an_empty_hub_gives_a_frame_without_rows(spark: SparkSession, hub: SparkHub) -> None:
    assert read(spark, hub).collect() == []


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        ({"recipient": "r1"}, lambda n: n % 5 == 1),
        ({"recipient": '["r1", "r2"]'}, lambda n: n % 5 in (1, 2)),
        ({"origin": "o1", "kind": "k2"}, lambda n: n % 2 == 1 and n % 3 == 2),
        ({"publishedBefore": "2020-01-01T00:00:00Z"}, lambda n: False),
        ({"publishedAfter": "2020-01-01T00:00:00Z"}, lambda n: True),
    ],
    ids=["recipient", "recipients", "origin and kind", "before", "after"],
)
def test_options_say_what_is_read(spark: SparkSession, hub: SparkHub, options: dict[str, str], keeps: object) -> None:
    fill(hub)
    assert callable(keeps)
    assert numbers(read(spark, hub, **options)) == [n for n in range(30) if keeps(n)]


@pytest.mark.parametrize(
    ("condition", "keeps"),
    [
        ("recipient = 'r1'", lambda n: n % 5 == 1),
        ("recipient in ('r1', 'r2') and origin = 'o0'", lambda n: n % 5 in (1, 2) and n % 2 == 0),
        ("recipient = 'r1' and recipient = 'r2'", lambda n: False),
        ("kind = 'k1' and state = 'waiting'", lambda n: n % 3 == 1),
        ("state = 'collected'", lambda n: False),
        ("change = 'published'", lambda n: False),
        ("at > '2020-01-01' and at <= '2100-01-01'", lambda n: True),
        ("at >= '2100-01-01'", lambda n: False),
        ("at < '2020-01-01'", lambda n: False),
    ],
)
def test_filters_go_to_the_hub_and_are_not_applied_by_spark_again(
    spark: SparkSession, hub: SparkHub, condition: str, keeps: object
) -> None:
    fill(hub)
    assert callable(keeps)
    frame = read(spark, hub).where(condition)
    assert numbers(frame) == [n for n in range(30) if keeps(n)]
    assert "Filter (" not in plan(frame)


def test_a_filter_on_partitions_reads_only_those(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    with hub.connect() as connected:
        own = connected.partition_of("r1")
    frame = read(spark, hub).where(f.col("partition") == own)
    assert frame.rdd.getNumPartitions() == 1
    assert {row["partition"] for row in frame.collect()} == {own}
    assert read(spark, hub, partitions=str(own)).count() == frame.count() > 0


def test_a_filter_that_the_hub_does_not_know_is_applied_by_spark(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    frame = read(spark, hub).where("recipient like '%1' and sequence_number > 0")
    assert numbers(frame) == [n for n in range(30) if n % 5 == 1]
    assert "Filter (" in plan(frame)


def test_a_filter_too_long_for_a_request_is_applied_by_spark(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    names = ["r1", *(f"nobody-{number}" for number in range(300))]
    frame = read(spark, hub).where(f.col("recipient").isin(names))
    assert numbers(frame) == [n for n in range(30) if n % 5 == 1]
    assert read(spark, hub).where("at <= TIMESTAMP'9999-12-31 23:59:59.999999'").count() == 30


def test_fewer_columns_are_asked_for_by_option_or_schema(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    by_option = read(spark, hub, columns="recipient,kind")
    by_schema = spark.read.format("restante").schema("kind string, recipient string").load(hub.url)
    assert by_option.columns == ["recipient", "kind"]
    assert sorted(by_option.select("kind", "recipient").collect()) == sorted(by_schema.collect())
    assert by_schema.count() == 30


def test_a_string_column_is_text_and_is_read_as_text(spark: SparkSession, hub: SparkHub) -> None:
    rows = [("a", "grüße", None), ("a", "{}", "application/json"), ("b", "x,y\n", "text/csv"), ("b", "", None)]
    frame = spark.createDataFrame(rows, "recipient string, data string, media_type string")
    frame.write.format("restante").mode("append").options(url=hub.url, key="texts").save()
    with hub.connect() as connected:
        connected.send(
            [{"recipient": "c", "data": b"\xff", "media_type": "text/plain"}, {"recipient": "c", "data": b"b"}]
        )
        kept = [message.text for name in "ab" for message in connected.recipient(name).history().messages]
        kinds = [message.media_type for name in "ab" for message in connected.recipient(name).history().messages]
    assert sorted(kept, key=str) == sorted(["grüße", None, "x,y\n", ""], key=str)
    assert sorted(map(str, kinds)) == ["application/json", "text/csv", "text/plain", "text/plain"]
    read_back = read(spark, hub, columns="text,recipient")
    assert read_back.schema.simpleString() == "struct<text:string,recipient:string>"
    expected = [("a", "grüße"), ("a", None), ("b", "x,y\n"), ("b", ""), ("c", None), ("c", None)]
    found = [(row["recipient"], row["text"]) for row in read_back.collect()]
    assert sorted(found, key=str) == sorted(expected, key=str)
    by_schema = spark.read.format("restante").schema("text string").load(hub.url).where("text IS NOT NULL")
    assert by_schema.count() == 3
    again = read(spark, hub, columns="recipient,text").where("text IS NOT NULL")
    again.write.format("restante").mode("append").options(url=hub.url, key="again", kind="copy").save()
    with hub.connect() as connected:
        copies = [own for own in connected.recipient("a").history().messages if own.kind == "copy"]
    assert [(own.text, own.media_type) for own in copies] == [("grüße", "text/plain")]


def test_a_bootstrap_is_as_of_the_positions_that_come_with_it(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub)
    frame, positions = restante.spark.bootstrap(spark, url=hub.url)
    fill(hub, 7)
    with hub.connect() as connected:
        next(iter(connected.recipient("r0").bundles(idle=0))).dequeue()
    assert numbers(frame) == list(range(30))
    assert {row["state"] for row in frame.collect()} == {"waiting"}
    assert sum(positions.values()) == 30
    assert read(spark, hub).count() == 37


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recipent": "r1"}, "There is no option 'recipent'"),
        ({"columns": "colour"}, "There is no column 'colour'"),
        ({"partitions": "99"}, "There is no partition 99: the hub has 16"),
    ],
)
def test_a_mistake_is_said(spark: SparkSession, hub: SparkHub, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(said)):
        read(spark, hub, **options).collect()


def test_times_are_those_of_the_hub(spark: SparkSession, hub: SparkHub) -> None:
    fill(hub, 1)
    with hub.connect() as connected:
        (message,) = connected.recipient("r0").history().messages
    assert message.published_at is not None
    moment = message.published_at
    for condition, count in (
        (f.col("at") == moment, 1),
        (f.col("at") >= moment, 1),
        (f.col("at") > moment, 0),
        (f.col("at") <= moment, 1),
        (f.col("at") < moment, 0),
        (f.col("at") < moment + timedelta(microseconds=1), 1),
    ):
        assert read(spark, hub).where(condition).count() == count


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
