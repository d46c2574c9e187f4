"""Files that Python tasks write for a Delta table: found by those who need them, passed over by others, counted once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from restante.limits import TABLE_FILES_OPEN_MAX
from restante.spark.tables.table_files import FileShape, FileWriter, NewFile, has_log
from restante.spark.tables.tables import Definition, StoredTable

SCHEMA = StructType(
    [
        StructField("number", LongType()),
        StructField("name", StringType()),
        StructField("at", TimestampType()),
        StructField("day", DateType()),
    ]
)
STATISTICS = ("number", "name", "at")
NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)


def shape(folder: Path | str) -> FileShape:
    return FileShape(folder=str(folder), partitioned_by="day", statistics=STATISTICS, repeating=("name",))


def rows(numbers: Sequence[int], *, name: str | None = "ada", days: Sequence[int] | None = None) -> pa.Table:
    """One a second, on this day of March or on those."""
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "name": pa.array([name] * len(numbers), pa.string()),
            "at": pa.array([NOON + timedelta(seconds=number) for number in numbers], pa.timestamp("us", "UTC")),
            "day": pa.array(
                [date(2026, 3, 1) + timedelta(days=day) for day in days or [0] * len(numbers)], pa.date32()
            ),
        }
    )


def written(folder: Path | str, *tables: pa.Table) -> list[NewFile]:
    writer = FileWriter(shape(folder), "part")
    for table in tables:
        writer.write(table)
    return writer.finish()


def test_a_file_is_described_by_its_bounds_and_lacks_the_column_of_its_folder(tmp_path: Path) -> None:
    (file,) = written(tmp_path, rows([5, 6]), rows([]), rows([3], name=None))
    assert (file.partition, file.path.rpartition("/")[0]) == ({"day": "2026-03-01"}, "day=2026-03-01")
    found = pq.ParquetFile(tmp_path / file.path)
    assert found.schema_arrow.names == ["number", "name", "at"]
    assert (found.metadata.num_rows, file.size) == (3, (tmp_path / file.path).stat().st_size)
    assert json.loads(file.statistics) == {
        "numRecords": 3,
        "minValues": {"number": 3, "name": "ada", "at": "2026-03-01T12:00:03.123Z"},
        "maxValues": {"number": 6, "name": "ada", "at": "2026-03-01T12:00:06.124Z"},
        "nullCount": {"number": 0, "name": 1, "at": 0},
    }


def test_a_column_without_values_has_no_bounds(tmp_path: Path) -> None:
    (file,) = written(tmp_path, rows([1], name=None))
    told: dict[str, Any] = json.loads(file.statistics)
    assert ("name" in told["minValues"], told["nullCount"]["name"]) == (False, 1)


def test_each_day_has_a_file_and_never_too_many_are_open(tmp_path: Path) -> None:
    days = TABLE_FILES_OPEN_MAX + 5
    files = written(tmp_path, rows(range(days), days=range(days)), rows(range(days), days=range(days)))
    assert {file.partition["day"] for file in files} == {
        (date(2026, 3, 1) + timedelta(days=day)).isoformat() for day in range(days)
    }
    assert sum(json.loads(file.statistics)["numRecords"] for file in files) == 2 * days
    assert len(files) == len({file.path for file in files}) == len(list(tmp_path.rglob("*.parquet")))


def test_few_rows_of_many_days_in_each_batch_are_gathered(tmp_path: Path) -> None:
    batch = rows(range(600), days=[number % 100 for number in range(600)])
    files = written(tmp_path, *[batch] * 20)
    assert len(files) == 100
    assert {pq.ParquetFile(tmp_path / file.path).metadata.num_row_groups for file in files} == {1}
    assert sum(json.loads(file.statistics)["numRecords"] for file in files) == 12_000


def test_what_is_discarded_leaves_no_file(tmp_path: Path) -> None:
    for is_finished in (False, True):
        writer = FileWriter(shape(tmp_path), "part")
        writer.write(rows([1, 2], days=[0, 1]))
        assert len(list(tmp_path.rglob("*.parquet"))) == 2
        if is_finished:
            writer.finish()
        writer.discard()
        assert list(tmp_path.rglob("*.parquet")) == []
        assert writer.finish() == []


def test_a_folder_that_is_no_table_is_not_made(tmp_path: Path) -> None:
    assert not has_log(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        written(tmp_path / "elsewhere", rows([1]))


@pytest.fixture
def table(spark: SparkSession, tables: str) -> StoredTable:
    made = StoredTable(spark, f"{tables}/own")
    made.create(Definition(schema=SCHEMA, partitioned_by="day", statistics=STATISTICS))
    return made


def test_files_belong_to_the_table_once_they_are_added_and_every_reader_sees_them(table: StoredTable) -> None:
    files = written(table.path, rows([1, 2], days=[0, 1]), rows([3], name="bob"))
    assert table.frame().count() == 0
    table.add_files(files, application="a", version=7)
    table.add_files(written(table.path, rows([9])), application="a", version=7)
    table.add_files(written(table.path, rows([9])), application="a", version=6)
    table.add_files([], application="a", version=8)
    table.add_files(written(table.path, rows([4])), application="b", version=0)
    assert (table.last_version_of("a"), table.last_version_of("b")) == (8, 0)
    found = table.frame().orderBy("number").collect()
    assert [(row["number"], row["name"], row["day"].day) for row in found] == [
        (1, "ada", 1), (2, "ada", 2), (3, "bob", 1), (4, "ada", 1)
    ]  # fmt: skip
    assert found[0]["at"].astimezone(UTC) == NOON + timedelta(seconds=1)
    assert sorted(pl.read_delta(table.path)["number"].to_list()) == [1, 2, 3, 4]
    assert DeltaTable(table.path).to_pandas()["name"].tolist().count("bob") == 1
    changed = table.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    assert changed.load(table.path).where("_change_type = 'insert'").count() == 4


def test_which_writes_were_made_is_known_with_and_without_the_checksums_of_the_log(table: StoredTable) -> None:
    table.add_files(written(table.path, rows([1])), application="a", version=7)
    for _ in range(2):
        assert (table.last_version_of("a"), table.last_version_of("b")) == (7, None)
        assert table.has("a", 7)
        assert not table.has("a", 8)
        StoredTable(table.spark, table.path).add_files([], application="a", version=7)
        for checksum in Path(table.path, "_delta_log").glob("*.crc"):
            checksum.unlink()
        _delta_log(table.spark).clearCache()
    assert len(list(Path(table.path, "_delta_log").glob("*.json"))) == 2, "a write that was made is not made again"


def _delta_log(spark: SparkSession) -> Any:
    gateway: Any = spark.sparkContext._jvm
    return gateway.org.apache.spark.sql.delta.DeltaLog


def test_files_in_which_nothing_can_lie_are_not_opened(table: StoredTable) -> None:
    table.add_files(written(table.path, rows(range(100))), application="a", version=1)
    table.add_files(written(table.path, rows(range(100, 200), name="bob")), application="a", version=2)
    frame = table.frame()
    for condition, expected in (("number = 150", 1), ("name = 'ada'", 1), ("number >= 0", 2)):
        chosen = frame.where(condition)
        assert len({row[0] for row in chosen.selectExpr("input_file_name()").collect()}) == expected
        assert len(chosen.inputFiles()) == expected
    moment = (NOON + timedelta(seconds=199)).isoformat()
    assert frame.where(f"at = timestamp'{moment}'").count() == 1, "a bound told in milliseconds leaves none out"
