"""From a real hub into the tables, and out of them with readers that know nothing of us."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante import Message
from restante.client.surface.surface import Hub
from restante.errors import InvalidRequest
from restante.spark.analytical.analytical_changes import states
from restante.spark.analytical.analytical_tables import tables_at
from restante.spark.jobs import analytical_store
from restante.spark.jobs.analytical_store import Options
from restante.spark.jobs.work import Work
from tests.spark.served import SparkHub


def sent(hub: Hub, recipient: str, *, count: int) -> None:
    hub.producer.send([Message(recipient=recipient, origin="billing", data={"number": each}) for each in range(count)])


def collect(hub: Hub, recipient: str) -> None:
    bundle = hub.recipient(recipient).peek()
    assert bundle is not None
    bundle.dequeue()


def counted(spark: SparkSession, folder: str) -> dict[str, int]:
    tables = tables_at(spark, folder)
    rows = states(tables.messages.frame(), tables.deliveries.frame()).groupBy("state").count().collect()
    return {row["state"]: row["count"] for row in rows}


def test_a_run_takes_in_what_is_stored_and_the_next_one_goes_on_after_it(
    spark: SparkSession, hub: SparkHub, tables: str
) -> None:
    work = Work(spark=spark, url=hub.url, tables=tables)
    with hub.connect() as connected:
        sent(connected, "alice", count=5)
        collect(connected, "alice")
        sent(connected, "bob", count=3)
        first = analytical_store.run(work, Options()).figures
        assert (first["messages"], first["deliveries"]) == (8, 5), "stored messages, in whatever state"
        assert (first["lag_numbers"], first["lag_seconds"]) == (0, 0.0)

        before = datetime.now(UTC).isoformat(timespec="milliseconds")
        collect(connected, "bob")
        sent(connected, "carol", count=2)
        second = analytical_store.run(work, Options()).figures
        assert (second["messages"], second["deliveries"]) == (2, 3)
        assert (first["watermark"], before <= str(second["watermark"])) == (None, True)
        assert counted(spark, tables) == {"collected": 8, "waiting": 2}
    ended = analytical_store.start(work, Options())
    ended.query.awaitTermination()
    hub.be_gone()
    last = ended.wait().figures
    assert (last["micro_batches"], last["lag_numbers"]) == (0, None), "a hub that is away does not undo anything"


def test_other_readers_need_nothing_of_us_and_a_folder_may_be_relative(
    spark: SparkSession, hub: SparkHub, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(tables).parent)
    with hub.connect() as connected:
        sent(connected, "alice", count=4)
        collect(connected, "alice")
    analytical_store.run(Work(spark=spark, url=hub.url, tables=f"./{Path(tables).name}"), Options())
    messages = DeltaTable(str(Path(tables, "messages")))
    deliveries = DeltaTable(str(Path(tables, "deliveries")))
    assert messages.to_pandas()["data"].tolist() == [b'{"number":%d}' % each for each in range(4)]
    assert pl.read_delta(tables + "/messages").height == 4
    database = duckdb.connect()
    database.register("messages", messages.to_pyarrow_dataset())
    database.register("deliveries", deliveries.to_pyarrow_dataset())
    joined = database.execute(
        "SELECT m.recipient, d.state, count(*) FROM messages m JOIN deliveries d ON d.partition = m.partition "
        "AND d.message_sequence_number = m.sequence_number GROUP BY ALL"
    ).fetchall()
    assert joined == [("alice", "collected", 4)]


def test_an_interval_that_is_none_is_refused(spark: SparkSession, hub: SparkHub, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="'soon' is no interval"):
        analytical_store.start(Work(spark=spark, url=hub.url, tables=tables), Options(trigger="soon"))
