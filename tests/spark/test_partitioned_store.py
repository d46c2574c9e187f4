"""A store laid out by a property: queries read little, runs read what changed, and readers see the old or the new one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StructType

from restante.errors import InvalidRequest
from restante.spark.jobs import partitioned_store
from restante.spark.jobs.partitioned_store import CopyState, Options
from restante.spark.jobs.work import Figure, Work
from restante.spark.source.schemas import CHANGES
from restante.spark.tables import slices
from restante.spark.tables.tables import StoredTable, settings
from tests.spark.given_then import Case, cases, named

REGION = Options(name="by-region", key="data.customer.region", records_per_file=100)
OTHER = Options(name="by-region", key="recipient", records_per_file=500, columns=("recipient",))
OF_CHANGES = ("change", "at", "message_sequence_number", "bundle_id", "batch", "key", "state", "collected_at")
STORED = StructType([field for field in CHANGES.fields if field.name not in OF_CHANGES])


@pytest.mark.parametrize("case", cases("partitioned-store"), ids=named)
def test_rows_get_their_key(spark: SparkSession, case: Case) -> None:
    messages = case.given(spark, "messages", STORED)
    case.check("store", partitioned_store.transform(messages, case.options(Options)))


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Figure]]:
    """A table of 1,000 messages of 50 regions, and the store of them, made once; and what was told of it."""
    folder = tmp_path_factory.mktemp("template") / "tables"
    prepared = Work(spark=spark, tables=str(folder))
    put(prepared, 0, 1_000)
    return folder, run(prepared)


@pytest.fixture
def work(spark: SparkSession, template: tuple[Path, dict[str, Figure]], tmp_path: Path) -> Work:
    """With a table and a store of one's own. Delta's tables can be copied, since nothing in them says where they lie."""
    folder = tmp_path / "tables"
    shutil.copytree(template[0], folder)
    return Work(spark=spark, tables=str(folder))


def put(work: Work, first: int, count: int) -> None:
    numbers = work.spark.range(first, first + count, 1, 2)
    region = f.format_string("region-%02d", f.pmod(f.xxhash64("id"), f.lit(50)))
    rows = numbers.select(
        f.lit(0).alias("partition"),
        f.col("id").alias("sequence_number"),
        f.format_string("recipient-%d", f.pmod("id", f.lit(20))).alias("recipient"),
        f.format_string('{"n": %d, "customer": {"region": "%s"}}', f.col("id"), region).cast("binary").alias("data"),
        f.timestamp_seconds(f.lit(1_790_000_000) + f.col("id")).alias("published_at"),
        f.lit("2026-03-01").cast(DateType()).alias("published_on"),
    )
    writer = rows.write.format("delta").mode("append").partitionBy("published_on")
    writer.option("delta.enableChangeDataFeed", "true").save(work.place("messages"))


def run(work: Work, options: Options = REGION) -> dict[str, Figure]:
    return partitioned_store.run(work, options).figures


def stored(work: Work, name: str = "by-region") -> DataFrame:
    return work.spark.read.format("delta").load(work.place("stores", name))


def contents(rows: DataFrame, key: str = "data.customer.region") -> list[tuple[object, ...]]:
    """What should be in a store of this table."""
    keyed = partitioned_store.transform(rows, Options(key=key))
    return sorted(tuple(row) for row in keyed.select("key", "partition", "sequence_number", "recipient").collect())


def held(work: Work, name: str = "by-region") -> list[tuple[object, ...]]:
    rows = stored(work, name).select("key", "partition", "sequence_number", "recipient")
    return sorted(tuple(row) for row in rows.collect())


def wanted(work: Work) -> list[tuple[object, ...]]:
    return contents(work.spark.read.format("delta").load(work.place("messages")))


def delete(work: Work, condition: str) -> None:
    DeltaTable.forPath(work.spark, work.place("messages")).delete(condition)


def read_by(frame: DataFrame) -> tuple[int, int]:
    """How many files, and of how many bytes, Spark reads for it."""
    frame.collect()
    plan: Any = frame._jdf.queryExecution().executedPlan()
    metrics = plan.collectLeaves().head().metrics()
    return int(metrics.apply("numFiles").value()), int(metrics.apply("filesSize").value())


def test_a_query_for_one_key_reads_one_file_of_many(work: Work, template: tuple[Path, dict[str, Figure]]) -> None:
    figures = template[1]
    assert (figures["rows"], figures["files"], figures["rebuilt"]) == (1_000, 10, 1)
    files, size = read_by(stored(work).where("key = 'region-07'"))
    assert files <= 2, "one, or two if the rows of the key lie across two"
    assert size < int(str(figures["bytes"])) / 4
    plain, _ = read_by(stored(work).where("recipient = 'recipient-7'"))
    assert plain == 10, "what the store is not laid out by is everywhere"


def test_the_rows_of_a_file_are_in_the_order_of_the_key(work: Work) -> None:
    files = list(Path(work.place("stores", "by-region")).glob("slice=*/*.parquet"))
    assert len(files) == 10
    for file in files:
        keys = [str(key) for key in pq.read_table(file, columns=["key"])["key"].to_pylist()]
        assert keys == sorted(keys)


def test_a_run_reads_what_is_new_and_no_more(work: Work) -> None:
    assert run(work)["rows_read"] == 0
    put(work, 1_000, 30)
    figures = run(work)
    assert (figures["rows_read"], figures["rebuilt"], figures["slices"], figures["files"]) == (30, 0, 2, 11)
    DeltaTable.forPath(work.spark, work.place("messages")).optimize().executeCompaction()
    figures = run(work)
    assert (figures["rows_read"], figures["rows_removed"]) == (0, 0), "compacting the table is no change"
    assert held(work) == wanted(work)


def test_what_was_deleted_from_the_table_vanishes_from_the_store(work: Work) -> None:
    put(work, 1_000, 100)
    delete(work, "recipient = 'recipient-3'")
    put(work, 1_100, 100)
    figures = run(work)
    assert (figures["rows_removed"], figures["rebuilt"]) == (50, 0)
    assert held(work) == wanted(work)
    assert not stored(work).where("recipient = 'recipient-3' AND sequence_number < 1100").count()


def test_what_came_and_went_between_two_runs_never_shows(work: Work) -> None:
    put(work, 1_000, 10)
    delete(work, "sequence_number >= 1000")
    figures = run(work)
    assert (figures["rows_read"], figures["rows_removed"], figures["rows"]) == (0, 0, 1_000)


@pytest.mark.long
def test_many_small_runs_leave_few_slices(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "STORE_SLICES_MAX", 2)
    told = []
    for first in (1_000, 1_005, 1_010):
        put(work, first, 5)
        told.append(run(work))
    assert [(figures["slices"], figures["rebuilt"]) for figures in told] == [(2, 0)] * 3
    assert [figures["files"] for figures in told] == [11] * 3, "the large slice was left alone"
    assert held(work) == wanted(work)


@pytest.mark.parametrize(
    "other",
    [
        Options(name="by-region", key="recipient", records_per_file=100),
        Options(name="by-region", key="data.customer.region", records_per_file=500),
        Options(name="by-region", key="data.customer.region", records_per_file=100, columns=("recipient",)),
        Options(name="by-region", table="deliveries", key="data.customer.region", records_per_file=100),
    ],
    ids=["key", "records_per_file", "columns", "table"],
)
def test_another_definition_makes_another_store(other: Options) -> None:
    def application(options: Options) -> str:
        return CopyState(definition=options.definition, table_id="7", version=1).application

    assert application(other) != application(REGION)
    assert application(Options(**{**_fields(REGION), "name": "else", "versions_hours": 1})) == application(REGION)


def test_a_store_of_another_definition_is_built_anew(work: Work) -> None:
    figures = run(work, OTHER)
    assert (figures["rebuilt"], figures["rows"]) == (1, 1_000)
    put(work, 1_000, 10)
    assert run(work, OTHER)["rebuilt"] == 0
    assert held(work) == contents(work.spark.read.format("delta").load(work.place("messages")), OTHER.key)
    assert stored(work).columns == ["key", "partition", "sequence_number", "recipient", "slice"]


def test_a_build_that_fails_leaves_the_old_store_whole(work: Work) -> None:
    before = held(work)
    lost = next(Path(work.place("messages")).glob("published_on=*/*.parquet"))
    kept = lost.rename(lost.with_suffix(".away"))
    with pytest.raises((PySparkException, Py4JJavaError), match="FILE_NOT_EXIST"):
        run(work, OTHER)
    assert held(work) == before
    kept.rename(lost)
    version = DeltaTable.forPath(work.spark, work.place("stores", "by-region")).history(1).collect()[0]["version"]
    assert run(work, OTHER)["rebuilt"] == 1
    old = work.spark.read.format("delta").option("versionAsOf", version).load(work.place("stores", "by-region"))
    rows = old.select("key", "partition", "sequence_number", "recipient").collect()
    assert sorted(tuple(row) for row in rows) == before, "it can still be read for a while"


@pytest.mark.long
def test_what_was_deleted_is_gone_from_the_disk_once_no_version_needs_it(work: Work) -> None:
    prompt = Options(**{**_fields(REGION), "versions_hours": 0})
    delete(work, "recipient = 'recipient-13'")
    assert run(work, prompt)["rebuilt"] == 0
    files = list(Path(work.place("stores", "by-region")).rglob("*.parquet"))
    found = {name for file in files for name in pq.read_table(file, columns=["recipient"])["recipient"].to_pylist()}
    assert len(found) == 19
    assert "recipient-13" not in found


def test_a_run_that_is_repeated_adds_nothing(work: Work) -> None:
    put(work, 1_000, 10)
    run(work)
    later = stored(work).count()
    # As if the note of the last run were lost: the store says that it is one run behind.
    history = DeltaTable.forPath(work.spark, work.place("stores", "by-region")).history()
    first = history.where("userMetadata IS NOT NULL").orderBy("version").first()
    assert first is not None
    with settings(work.spark, {"spark.databricks.delta.commitInfo.userMetadata": first["userMetadata"]}):
        StoredTable(work.spark, work.place("stores", "by-region")).set({"note": "lost"})
    assert run(work)["rows_read"] == 10, "it reads them again"
    assert stored(work).count() == later, "and Delta knows that they are in"


@pytest.mark.long
def test_changes_that_were_cleaned_away_make_it_build_anew(work: Work) -> None:
    put(work, 1_000, 10)
    put(work, 1_010, 10)
    delete(work, "sequence_number < 10")
    for log in Path(work.place("messages"), "_change_data").rglob("*.parquet"):
        log.unlink()
    figures = run(work)
    assert (figures["rebuilt"], figures["rows"]) == (1, 1_010)
    assert held(work) == wanted(work)


@pytest.mark.long
def test_a_table_without_a_change_feed_is_read_whole(work: Work) -> None:
    work.spark.sql(
        f"ALTER TABLE delta.`{work.place('messages')}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
    )
    put(work, 1_000, 10)
    figures = run(work)
    assert (figures["rebuilt"], figures["rows"]) == (1, 1_010)


@pytest.mark.long
def test_new_columns_of_the_table_come_along(work: Work) -> None:
    rows = work.spark.read.format("delta").load(work.place("messages")).limit(1)
    more = rows.withColumn("sequence_number", f.lit(5_000).cast("long")).withColumn("amount", f.lit(7))
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(work.place("messages"))
    assert run(work)["rebuilt"] == 0
    assert stored(work).where("amount = 7").count() == 1


@pytest.mark.long
def test_another_store_of_a_table_may_lie_elsewhere(work: Work, tmp_path: Path) -> None:
    place = str(tmp_path / "else where" / "store")
    assert run(work, Options(key="recipient", path=place))["rows"] == 1_000
    other = work.spark.read.format("delta").load(place)
    assert other.where("key = 'recipient-3'").count() == 50
    assert held(work) == wanted(work)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(table="nothing"), "There is no table at"),
        (Options(key="nothing"), "There is no column 'nothing'"),
        (Options(columns=("nothing",)), "There are no columns nothing"),
    ],
    ids=["table", "key", "columns"],
)
def test_what_is_not_there_is_named(work: Work, options: Options, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        run(work, options)
    assert [folder.name for folder in Path(work.place("stores")).iterdir()] == ["by-region"]


def _fields(options: Options) -> dict[str, Any]:
    return msgspec.structs.asdict(options)
