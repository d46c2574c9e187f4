"""A pass over a micro-batch gets what it said that it needs, and no other pass gets less for it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import restante
from restante.spark.source.narrowed_reads import Narrow, narrow_of_task, narrowed
from tests.spark.served import SparkHub

COLUMNS = ("change", "recipient", "message_sequence_number")


class Passes:
    """Each micro-batch is read as a whole, narrowed in several ways, and as a whole again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.found: dict[str, list[Row]] = {}

    def take(self, changes: DataFrame, number: int) -> None:
        self.found = {"before": changes.collect()}
        ways = {
            "columns": Narrow(batch=number, columns=COLUMNS),
            "without": Narrow(batch=number, columns=COLUMNS, without=("collected",)),
            "first": Narrow(batch=number, columns=COLUMNS, only_first=True),
            "another batch": Narrow(batch=number + 1, columns=COLUMNS, without=("collected",)),
        }
        for name, narrow in ways.items():
            with narrowed(self._spark, narrow):
                self.found[name] = changes.collect()
        with pytest.raises(ZeroDivisionError), narrowed(self._spark, ways["without"]):
            raise ZeroDivisionError
        self.found["after"] = changes.collect()


def passes_over(spark: SparkSession, hub: SparkHub, folder: Path, *, start: str) -> Passes:
    passes = Passes(spark)
    stream = spark.readStream.format("restante").options(url=hub.url, startingPosition=start).load()
    writer = stream.writeStream.foreachBatch(passes.take).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    return passes


def send_and_collect(hub: SparkHub) -> None:
    """Six messages of one recipient, so of one partition, all of them collected."""
    with hub.connect() as connected:
        connected.producer.send([restante.Message(recipient="alice", data={"n": n}) for n in range(6)])
        for bundle in connected.recipient("alice").bundles(idle=0):
            bundle.dequeue()


def ordered(rows: list[Row]) -> list[str]:
    return sorted(map(str, rows))


def test_a_pass_over_the_feed_gets_what_it_needs_and_the_next_one_everything(
    spark: SparkSession, hub: SparkHub, tmp_path: Path
) -> None:
    send_and_collect(hub)
    found = passes_over(spark, hub, tmp_path, start="earliest").found
    assert Counter(row["change"] for row in found["before"]) == {"published": 6, "collected": 6}
    assert ordered(found["after"]) == ordered(found["before"]) == ordered(found["another batch"])
    assert Counter(row["change"] for row in found["columns"]) == {"published": 6, "collected": 6}
    assert {(row["recipient"], row["data"], row["id"], row["at"]) for row in found["columns"]} == {
        ("alice", None, None, None)
    }
    assert {row["message_sequence_number"] for row in found["columns"]} == set(range(1, 7))
    assert Counter(row["change"] for row in found["without"]) == {"published": 6, "collected": 1}, "one as a sign"
    assert [row["change"] for row in found["first"]] == ["published"]


def test_a_pass_over_what_is_stored_gets_the_columns_that_it_needs(
    spark: SparkSession, hub: SparkHub, tmp_path: Path
) -> None:
    send_and_collect(hub)
    found = passes_over(spark, hub, tmp_path, start="bootstrap").found
    assert len(found["before"]) == len(found["columns"]) == len(found["without"]) == 6
    assert ordered(found["after"]) == ordered(found["before"])
    assert all(row["data"] and row["state"] == "collected" for row in found["before"])
    assert {(row["change"], row["data"], row["state"]) for row in found["columns"]} == {("stored", None, None)}
    assert len(found["first"]) == 1


def test_outside_of_a_task_everything_is_needed() -> None:
    assert narrow_of_task() is None
