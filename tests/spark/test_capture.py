"""The feed in plain files: each change once, by partition and hour, whoever reads them; and nothing of those who were erased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from restante import Message
from restante.errors import InvalidOperation, InvalidRequest
from restante.spark.jobs import capture
from restante.spark.jobs.work import Work
from restante.spark.source.schemas import CHANGES
from restante.spark.tables import captured_files
from restante.spark.tables.captured_files import Capture
from restante.spark.tables.folders import Folders
from restante.spark.tables.tables import settings
from tests.spark.given_then import Case, cases, frame_of, named
from tests.spark.served import SparkHub


def published(number: int, recipient: str = "alice", at: str = "2026-03-01T08:59:59Z") -> dict[str, object]:
    row = {
        "partition": 1,
        "sequence_number": number,
        "message_sequence_number": number,
        "change": "published",
        "at": at,
    }
    return {**row, "id": f"m{number}", "recipient": recipient, "weight": 1, "data": {"n": number}}


def plain(folder: str) -> list[dict[str, object]]:
    """As somebody reads it who knows nothing of Spark."""
    return ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()


@pytest.mark.parametrize("case", cases("capture"), ids=named)
def test_changes_are_kept_by_hour_and_without_the_erased(spark: SparkSession, case: Case) -> None:
    captured = captured_files.transform(case.given(spark, "changes", CHANGES))
    case.check("captured", captured)
    erased = captured.where("change = 'erased'")
    case.check("left", captured_files.transform_without(captured, erased))


def test_hours_are_in_utc_whatever_the_sessions_time_zone(spark: SparkSession) -> None:
    # There, at that hour, the clocks go from two to three.
    rows = frame_of(spark, [published(1, at="2026-03-29T01:30:00Z")], CHANGES)
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        assert [row["hour"] for row in captured_files.transform(rows).collect()] == ["2026-03-29T01"]


@pytest.mark.parametrize("codec", ["", "zstd.", "lz4hadoop."])
def test_a_file_has_the_same_name_each_time(codec: str) -> None:
    place = "partition=3/hour=2026-03-01T08"
    staged = f"file:/staging/{place}/part-00002-5f0c1d2e-0b1a.c001.{codec}parquet"
    name = captured_files.name_of(staged, query="0190b4d2-7b3e", number=7)
    assert name == f"{place}/0190b4d2-00000007-00002-001.parquet"


class Failing(Folders):
    """Moves a few files, and then the power fails."""

    moves_left = 1

    def move(self, source: str, target: str) -> None:
        if not self.moves_left:
            raise OSError("power failure")
        self.moves_left -= 1
        super().move(source, target)


@pytest.fixture
def named_query(spark: SparkSession) -> Iterator[None]:
    """As Spark does it for a stream."""
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "0190b4d2-7b3e")
    yield
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]  # Spark takes it.


@pytest.mark.usefixtures("named_query")
def test_a_micro_batch_that_is_begun_again_leaves_each_change_once(spark: SparkSession, tables: str) -> None:
    hours = ["2026-03-01T08:00:00Z", "2026-03-01T09:00:00Z", "2026-03-01T10:00:00Z"]
    batch = frame_of(spark, [published(number, at=hours[number % 3]) for number in range(1, 10)], CHANGES)
    place, staging = f"{tables}/capture", f"{tables}/staging"
    broken = Capture(spark, path=place, staging=staging, rows_per_file=2, folders=Failing(spark))
    with pytest.raises(OSError, match="power failure"):
        broken.keep(batch, 7)
    assert len(plain(place)) in (1, 2), "the one file that was moved is there, whichever it was"
    again = Capture(spark, path=place, staging=staging, rows_per_file=1_000)
    again.keep(batch, 7)
    names = sorted(path.name for path in Path(place).rglob("*.parquet"))
    again.keep(batch, 7)
    assert Counter(row["sequence_number"] for row in plain(place)) == Counter(range(1, 10))
    assert sorted(path.name for path in Path(place).rglob("*.parquet")) == names
    assert max(pq.read_metadata(file).num_rows for file in Path(place).rglob("*.parquet")) == 2, "as it was begun"


@pytest.mark.usefixtures("named_query")
def test_an_erased_recipient_is_erased_from_the_files(spark: SparkSession, tables: str) -> None:
    place = f"{tables}/capture"
    kept = Capture(spark, path=place, staging=f"{tables}/staging", rows_per_file=1_000)
    kept.keep(frame_of(spark, [published(1), published(2, "bob"), published(3)], CHANGES), 0)
    kept.keep(frame_of(spark, [published(4, "bob")], CHANGES), 1)
    erased = {
        "partition": 1,
        "sequence_number": 6,
        "change": "erased",
        "at": "2026-03-01T09:30:00Z",
        "recipient": "alice",
    }
    kept.keep(frame_of(spark, [published(5), {**erased, "message_sequence_number": 4}], CHANGES), 2)
    rows = sorted((row["sequence_number"], row["change"], row["recipient"]) for row in plain(place))
    assert rows == [(2, "published", "bob"), (4, "published", "bob"), (5, "published", "alice"), (6, "erased", "alice")]
    assert kept.rewritten == 1
    on_disk = b"".join(file.read_bytes() for file in Path(place).rglob("*.parquet"))
    assert b"m1" not in on_disk
    assert b"m2" in on_disk


def test_a_capture_goes_on_where_it_ended(spark: SparkSession, hub: SparkHub, tables: str) -> None:
    work = Work(spark=spark, url=hub.url, tables=tables)
    with closing(hub.connect()) as connected:
        connected.producer.send([Message(recipient=f"actor-{n % 3}", data={"n": n}) for n in range(30)])
        first = capture.run(work, capture.Options()).figures
        bundle = connected.recipient("actor-0").peek()
        assert bundle is not None
        bundle.dequeue()
        second = capture.run(work, capture.Options()).figures
    assert (first["changes"], second["changes"]) == (30, 10)
    found = Counter(str(row["change"]) for row in plain(work.place("capture")))
    assert found == {"stored": 30, "collected": 10}


def test_a_capture_without_its_checkpoint_is_not_added_to(spark: SparkSession, tables: str) -> None:
    Path(tables, "capture").mkdir()
    with pytest.raises(InvalidOperation, match="A capture belongs to one hub"):
        capture.run(Work(spark=spark, tables=tables), capture.Options())


def test_a_trigger_that_is_no_interval_is_refused(spark: SparkSession, hub: SparkHub, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="is no interval"):
        capture.run(Work(spark=spark, url=hub.url, tables=tables), capture.Options(trigger="often"))
