"""A driver program of its own, which a test can kill: it does what lines of JSON on its standard input ask for.

Each line has `do`, the name of a function here, and its arguments. The answer is a line on the standard output.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import restante.spark

RECIPIENTS = 7
FAULTY_PART = 1
_WAIT_SECONDS_MAX = 240
Batches = Iterable[pa.RecordBatch]


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = restante.spark.session(master=settings.pop("spark.master"), name="faults", settings=settings)
    print(json.dumps({"ready": spark.version}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"answer": globals()[asked.pop("do")](spark, **asked)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    spark.stop()


def write(
    spark: SparkSession,
    *,
    options: dict[str, str],
    count: int,
    parts: int,
    fault: str | None = None,
    marker: str | None = None,
) -> None:
    """Rows 0 to count, in order for each recipient, by tasks one of which may go wrong in its first attempt."""
    frame = restante.spark.ordered(_rows(spark, count, parts), "n")
    if fault is not None:
        frame = frame.mapInArrow(_FAULTS[fault](Path(marker or "")), frame.schema)
    frame.write.format("restante").mode("append").options(orderBy="n", **options).save()


def write_composed(spark: SparkSession, *, options: dict[str, str], count: int, parts: int, bad: int) -> None:
    """By a function that cannot do with one of the rows."""

    def composed(row: dict[str, object]) -> dict[str, object]:
        if row["id"] == bad:
            raise ValueError(f"no tariff for {row['id']}")
        return {"recipient": f"r{row['id']}", "data": {"n": row["id"]}}

    frame = restante.spark.compose(spark.range(count, numPartitions=parts), composed)
    frame.write.format("restante").mode("append").options(**options).save()


def stream_in(spark: SparkSession, *, options: dict[str, str], files: str, checkpoint: str) -> str:
    """Files, one in each micro-batch, into the hub. Gives the query's id."""
    source = spark.readStream.schema("recipient string, data string, n long").option("maxFilesPerTrigger", "1")
    writer = restante.spark.ordered(source.parquet(files), "n").writeStream.format("restante")
    writer = writer.options(orderBy="n", checkpointLocation=checkpoint, **options)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query.id


def stream_out(spark: SparkSession, *, options: dict[str, str], format: str, table: str, checkpoint: str) -> None:
    """All changes that there are now into a table."""
    frame = spark.readStream.format("restante").options(**options).load()
    writer = frame.writeStream.format(format).option("checkpointLocation", checkpoint).option("path", table)
    writer.trigger(availableNow=True).start().awaitTermination()


def table_rows(spark: SparkSession, *, format: str, table: str) -> list[list[object]]:
    return _told(spark.read.format(format).load(table))


def batch_rows(spark: SparkSession, *, options: dict[str, str]) -> list[list[object]]:
    return _told(spark.read.format("restante").options(**options).load())


def _told(frame: DataFrame) -> list[list[object]]:
    """Of each row what it tells of which message, sorted."""
    columns = ("partition", "sequence_number", "change", "message_sequence_number", "recipient", "state")
    data = f.col("data").cast("string").alias("data")
    rows = frame.select(*(name for name in columns if name in frame.columns), data).collect()
    return sorted((list(row) for row in rows), key=repr)


def _rows(spark: SparkSession, count: int, parts: int) -> DataFrame:
    """Shuffled, and with enough in each row that they travel in several pieces."""
    number = f.col("id")
    return (
        spark.range(count, numPartitions=parts)
        .orderBy(f.xxhash64(number))
        .select(
            f.concat(f.lit("r"), number % RECIPIENTS).alias("recipient"),
            f.to_json(f.struct(number.alias("n"), f.repeat(f.lit("x"), 500).alias("pad"))).alias("data"),
            number.alias("n"),
        )
    )


def _is_faulty() -> bool:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId() == FAULTY_PART and context.attemptNumber() == 0


def _fails_before(_: Path) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def apply(batches: Batches) -> Iterator[pa.RecordBatch]:
        if _is_faulty():
            raise RuntimeError("before anything was staged")
        yield from batches

    return apply


def _fails_in_the_middle(marker: Path) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Raises when all but the last rows are given, and some of them were staged."""

    def apply(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        yield from held[:-1]
        if _is_faulty():
            _await(marker)
            raise RuntimeError("in the middle")
        yield held[-1]

    return apply


def _stalls(marker: Path) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Stands still when some rows were staged, until the task is done by another attempt, and further."""

    def apply(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        yield from held[:-1]
        if _is_faulty():
            _await(marker.with_name("never"))
        yield held[-1]

    return apply


_FAULTS: dict[str, Callable[[Path], Any]] = {
    "before": _fails_before,
    "middle": _fails_in_the_middle,
    "stall": _stalls,
}


def _await(marker: Path) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not marker.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody made {marker}")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
