"""Changes of a Delta table since a version of it: which rows are gone, and which are there now.

Read from the table's change feed, so that only what was written since is read, and files that were merely compacted are
not. A table may have no change feed, or its old versions may be gone: then the whole table has to be read again.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from restante.errors import InvalidRequest

CHANGE_FEED = "delta.enableChangeDataFeed"
_GONE = ("delete", "update_preimage")
_ADDED = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class TableSource:
    """A Delta table as it is now."""

    path: str
    table_id: str
    """The id of the table. A table that was dropped and created again has another one."""
    version: int
    has_feed: bool

    def reaches(self, version: int) -> bool:
        """Whether the table noted what has happened since a version; that may have been cleaned away all the same."""
        return self.has_feed and version <= self.version


@dataclass(frozen=True, slots=True)
class Net:
    """The net result of all that happened: rows that are to go, by identity, and rows that are to come."""

    gone: DataFrame | None
    come: DataFrame


def source_at(spark: SparkSession, path: str) -> TableSource:
    """`InvalidRequest` if there is no such table."""
    if not DeltaTable.isDeltaTable(spark, path):
        raise InvalidRequest(f"There is no table at {path}. Fill it first: restante jobs run analytical-store.")
    table = DeltaTable.forPath(spark, path)
    detail = table.detail().select("id", "properties").first()
    newest = table.history(1).select("version").first()
    assert detail is not None, "a Delta table can be described"
    assert newest is not None, "a Delta table has a version"
    return TableSource(
        path=path,
        table_id=detail["id"],
        version=newest["version"],
        has_feed=detail["properties"].get(CHANGE_FEED) == "true",
    )


def whole(spark: SparkSession, source: TableSource) -> DataFrame:
    """All rows as of the version that was looked at."""
    return spark.read.format("delta").option("versionAsOf", source.version).load(source.path)


def changes(spark: SparkSession, source: TableSource, *, after: int) -> DataFrame:
    """The rows that were written or deleted since a version, with what happened to them and when."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", after + 1).option("endingVersion", source.version).load(source.path)


def transform_changes(changed: DataFrame, *, identity: tuple[str, ...]) -> Net:
    """The rows that remain: for each identity what happened last counts. Looks first whether anything was deleted at all, since it hardly ever is."""
    gone = changed.where(f.col("_change_type").isin(*_GONE))
    if gone.isEmpty():
        return Net(gone=None, come=changed.drop(*_ADDED))
    latest = Window.partitionBy(*identity).orderBy(f.desc("_commit_version"), f.col("_change_type").isin(*_GONE))
    last = changed.withColumn("_rank", f.row_number().over(latest)).where("_rank = 1").drop("_rank")
    come = last.where(~f.col("_change_type").isin(*_GONE)).drop(*_ADDED)
    return Net(gone=gone.select(*identity).distinct(), come=come)


def identity_of(schema: StructType) -> tuple[str, ...]:
    """The columns that tell one row of our tables from all others."""
    for number in ("sequence_number", "message_sequence_number"):
        if {"partition", number} <= set(schema.names):
            return ("partition", number)
    raise InvalidRequest("The table has no columns partition and sequence_number, so its changes cannot be followed.")


def was_cleaned_away(error: PySparkException | Py4JJavaError) -> bool:
    """Whether an error says that a file, or the log of a version, is no longer there.

    An error in a task comes as an error of Java, which says what it is only in its text.
    """
    is_told = isinstance(error, PySparkException)
    condition = (error.getCondition() or "") if is_told else str(error)
    return "FILE_NOT_EXIST" in condition or "FILE_NOT_FOUND" in condition or (is_told and "VERSION" in condition)
