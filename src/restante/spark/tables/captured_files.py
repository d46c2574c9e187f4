"""Puts micro-batches of the feed into plain files, each change once, however often a micro-batch is begun.

Records of a Kafka topic are kept in the same way, by topic partition and hour.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from restante.errors import InvalidRequest
from restante.spark.source.schemas import CHANGES
from restante.spark.tables.folders import Folders

CAPTURED = StructType([*CHANGES.fields]).add("hour", StringType())
"""A captured row: a change, and the hour in UTC of the folder that it lies in."""
ERASED = "erased"
HOUR = "%Y-%m-%dT%H"
"""How an hour is written, in Python's words."""
_SECONDS_A_DAY, _SECONDS_AN_HOUR = 86_400, 3_600
_MILLISECONDS = 1_000
_PART = re.compile(r"part-(\d+)-.*?(?:-c|\.c)(\d+)\.[a-z0-9.]*parquet$")


def transform(changes: DataFrame) -> DataFrame:
    """The changes with the hour in which they happened, in UTC: reckoned, so that no session's time zone takes part."""
    return changes.withColumn("hour", hour_of(f.unix_seconds("at"))).select(*CAPTURED.names)


def hour_of(seconds: Column) -> Column:
    """The hour in UTC of so many seconds since 1970."""
    day = f.date_from_unix_date(f.floor(seconds / f.lit(_SECONDS_A_DAY)).cast("int"))
    number = f.floor(f.pmod(seconds, f.lit(_SECONDS_A_DAY)) / f.lit(_SECONDS_AN_HOUR)).cast("string")
    return f.concat(day.cast("string"), f.lit("T"), f.lpad(number, 2, "0"))


def transform_without(captured: DataFrame, erased: DataFrame) -> DataFrame:
    """The rows that are left without the recipients in `erased`, up to their numbers."""
    both, is_gone = _beside(captured, erased)
    return both.where(~is_gone).select(*captured.columns)


def transform_gone(captured: DataFrame, erased: DataFrame) -> DataFrame:
    """The captured rows that an erasure takes away."""
    both, is_gone = _beside(captured, erased)
    return both.where(is_gone).select(*captured.columns)


def _beside(captured: DataFrame, erased: DataFrame) -> tuple[DataFrame, Column]:
    """Captured rows beside the erasures of their recipients, and which of them go. The `erased` changes themselves stay."""
    upto = erased.groupBy("partition", "recipient").agg(f.max("message_sequence_number").alias("_upto"))
    both = captured.join(f.broadcast(upto), ["partition", "recipient"], "left")
    is_gone = (f.col("change") != ERASED) & (number_of_message() <= f.col("_upto"))
    return both, f.coalesce(is_gone, f.lit(False))


def carries_message() -> Column:
    """Whether a change has all of a message: it was published, found by a bootstrap, or released to the end."""
    whole = f.col("change").isin("published", "stored")
    return whole | ((f.col("change") == "released") & f.col("weight").isNotNull())


def number_of_message() -> Column:
    """Under which number the message lives that a change speaks of: for one released to the end, the change's own."""
    return f.when(carries_message(), f.col("sequence_number")).otherwise(f.col("message_sequence_number"))


def captured_rows(spark: SparkSession, path: str) -> DataFrame:
    """All captured rows. `InvalidRequest` if there are none."""
    if not Folders(spark).exists(path):
        raise InvalidRequest(f"There is no capture at {path}. Make one first: restante jobs run capture.")
    return spark.read.schema(CAPTURED).parquet(path)


def name_of(file: str, *, query: str, number: int) -> str:
    """`partition=0/hour=2026-03-01T08/5f0c1d2e-00000007-00000-000.parquet`: the same each time."""
    *_, partition, hour, part = file.split("/")
    found = _PART.match(part)
    assert found is not None, f"Spark names its files otherwise: {part}"
    return f"{partition}/{hour}/{query[:8]}-{number:08}-{found[1]}-{found[2]}.parquet"


class Capture:
    """The files of one capture, written by one query."""

    order = "sequence_number"
    """The column by which the rows of a file are ordered."""

    def __init__(
        self, spark: SparkSession, *, path: str, staging: str, rows_per_file: int, folders: Folders | None = None
    ) -> None:
        self._spark = spark
        self._folders = folders or Folders(spark)
        self._path = path
        self._staging = staging
        self._rows_per_file = rows_per_file
        self.changes = 0
        self.files = 0
        self.rewritten = 0
        """Files from which something was erased."""

    def keep(self, batch: DataFrame, number: int) -> None:
        """A micro-batch of the query that runs in this thread. Again, it does what is left to do of it."""
        query = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        staged = f"{self._staging}/{query}/{number}"
        if not self._folders.exists(f"{staged}/_SUCCESS"):
            self._folders.remove(f"{self._staging}/{query}")
            self._stage(self.rows_of(batch), staged)
        for file in list(self._folders.files(staged, ending=".parquet")):
            self._folders.move(file, f"{self._path}/{name_of(file, query=str(query), number=number)}")
            self.files += 1
        self.forget(batch)

    def rows_of(self, batch: DataFrame) -> DataFrame:
        """The rows that are kept of a micro-batch, with their hour."""
        return transform(batch)

    def _stage(self, rows: DataFrame, staged: str) -> None:
        """A file for each partition and hour, in the order of the feed; `_SUCCESS` is there when all of them are."""
        laid = rows.repartition("partition", "hour").sortWithinPartitions("partition", "hour", self.order)
        writer = laid.write.mode("overwrite").option("maxRecordsPerFile", self._rows_per_file)
        writer.partitionBy("partition", "hour").parquet(staged)
        self.changes += self._spark.read.schema(rows.schema).parquet(staged).count()

    def forget(self, batch: DataFrame) -> None:
        """Write each file that contains an erased recipient again without it; the new file takes the old one's place."""
        erased = batch.where(f.col("change") == ERASED).select("partition", "recipient", "message_sequence_number")
        told = erased.collect()
        if not told:
            return
        erased = self._spark.createDataFrame(told, erased.schema)
        partitions = sorted({row["partition"] for row in told})
        captured = captured_rows(self._spark, self._path).where(f.col("partition").isin(*partitions))
        gone = transform_gone(captured.withColumn("_file", f.input_file_name()), erased)
        for (address,) in gone.select("_file").distinct().collect():
            self._rewrite(unquote(address), erased)

    def _rewrite(self, file: str, erased: DataFrame) -> None:
        rows = self._spark.read.schema(CAPTURED).option("basePath", self._path).parquet(file)
        left = transform_without(rows, erased).drop("partition", "hour")
        staged = f"{self._staging}/erasing"
        left.repartition(1).sortWithinPartitions("sequence_number").write.mode("overwrite").parquet(staged)
        for part in list(self._folders.files(staged, ending=".parquet")):
            self._folders.move(part, file)
        self._folders.remove(staged)
        self.rewritten += 1


def transform_records(records: DataFrame) -> DataFrame:
    """The records with the hour of their time stamp, in UTC."""
    return records.withColumn("hour", hour_of(f.floor(f.col("timestamp_ms") / f.lit(_MILLISECONDS))))


class RecordCapture(Capture):
    """The files of one topic. Nothing looks into the records, so nothing is erased from them."""

    order = "offset"

    def rows_of(self, batch: DataFrame) -> DataFrame:
        return transform_records(batch)

    def forget(self, batch: DataFrame) -> None:
        """Kafka does not say who was erased."""
