"""Spark, as the workloads use it: one session on all cores of this machine, and frames of the messages that are measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import restante.spark
from bench.context import Bench
from bench.mail import DATA_BYTES, KIND, ORIGIN
from bench.ours_wire import Restante
from restante.spark.documents import Fidelity
from restante.spark.sessions.jars import Jar, kept

JDBC = Jar("org.postgresql:postgresql:42.7.8", "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7")
"""Spark's JDBC sink needs the database's driver."""
NO_DOCUMENTS = Fidelity.NONE
SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    # Measured is what is in memory, not what does not fit.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


@contextmanager
def session(*, jdbc: bool = False) -> Iterator[SparkSession]:
    driver = kept("postgresql", [JDBC]) if jdbc else []
    settings = SETTINGS | {"spark.driver.extraClassPath": os.pathsep.join(map(str, driver))} if driver else SETTINGS
    spark = restante.spark.session(name="bench", settings=settings)
    spark.dataSource.register(Nothing)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def hub(bench: Bench) -> Iterator[Restante]:
    """A server on an empty folder, which is removed afterwards."""
    folder = bench.fresh_folder()
    try:
        with closing(Restante(folder)) as server:
            yield server
    finally:
        shutil.rmtree(folder)


def messages(spark: SparkSession, count: int, recipients: int) -> DataFrame:
    """Messages of 200 octets that do not repeat, kept in memory, so that only the sink is measured."""
    number = f.col("id")
    noise = [f.unhex(f.sha2(f.concat_ws("-", number, f.lit(part)), 256)) for part in range(-(-DATA_BYTES // 32))]
    frame = spark.range(count, numPartitions=os.cpu_count() or 2).select(
        f.concat(f.lit("579"), f.lpad((f.xxhash64(number) % recipients + recipients).cast("string"), 10, "0")).alias(
            "recipient"
        ),
        f.lit(ORIGIN).alias("origin"),
        f.lit(KIND).alias("kind"),
        f.substring(f.concat(*noise), 1, DATA_BYTES).alias("data"),
    )
    kept = frame.persist()
    assert kept.count() == count
    return kept


def write_parquet(frame: DataFrame, folder: Path) -> None:
    frame.write.mode("overwrite").parquet(str(folder))


def write_ours(frame: DataFrame, url: str) -> None:
    frame.write.format("restante").mode("append").option("url", url).save()


def consume(frame: DataFrame) -> None:
    """Every column of every row is made, and dropped."""
    frame.write.format("noop").mode("overwrite").save()


class Nothing(DataSource):
    """A sink in Python that does nothing: what any sink in Python has to pay."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> NothingWriter:  # noqa: ARG002, FBT001 - as Spark calls it
        return NothingWriter()


class NothingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[object]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
