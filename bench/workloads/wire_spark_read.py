"""S2: 10⁶ messages from the hub into Spark, every column of every row: beside Spark reading the same rows as Parquet.

Read as a batch (what is stored), and as a stream (the feed from the start); Parquet likewise. The Parquet files were written from the same rows
and lie in the page cache, as the hub's do.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import restante
from bench import spark as sparks
from bench.outcome import Figure, Goal, Line, Outcome
from bench.sampling import Contender, timed
from bench.wire import OURS, WireBench

WHAT = "S2 10⁶ messages into Spark"
PARQUET = "Spark, Parquet"
PARQUET_STREAM = "Spark, Parquet as a stream"
BATCH = f"{OURS}, batch"
THREE = f"{OURS}, batch, three columns"
STREAM = f"{OURS}, stream"
OF_PARQUET = 0.4


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    with sparks.session() as spark, sparks.hub(bench) as server:
        sparks.write_ours(sparks.messages(spark, scale.spark_messages, scale.send_recipients), server.url)
        with restante.connect(server.url) as hub:
            hub.file()
        spark.catalog.clearCache()
        parquet = str(bench.fresh_folder() / "parquet")
        _source(spark, server.url).write.parquet(parquet)
        contenders = [
            Contender(PARQUET, lambda: spark.read.parquet(parquet), timed(sparks.consume)),
            Contender(BATCH, lambda: _source(spark, server.url), timed(sparks.consume)),
            Contender(THREE, lambda: _source(spark, server.url, "sequence_number,recipient,id"), timed(sparks.consume)),
            Contender(
                STREAM,
                partial(_fresh, bench.fresh_folder()),
                timed(partial(_stream, _ours_as_stream(spark, server.url))),
            ),
            Contender(
                PARQUET_STREAM, partial(_fresh, bench.fresh_folder()), timed(partial(_stream, _files(spark, parquet)))
            ),
        ]
        samples = bench.interleave(WHAT, contenders, scale.spark_repetitions)
    figures = {name: Figure.of_rate(found, scale.spark_messages, name) for name, found in samples.items()}
    share = Goal(f"≥ {OF_PARQUET:g} × {PARQUET}", at_least=OF_PARQUET)
    as_stream = Goal(f"≥ {OF_PARQUET:g} × {PARQUET_STREAM}", at_least=OF_PARQUET)
    lines = [
        Line(WHAT, figures[name], figures[peer], figures[name].value / figures[peer].value, goal)
        for name, peer, goal in (
            (BATCH, PARQUET, share),
            (STREAM, PARQUET, share),
            (STREAM, PARQUET_STREAM, as_stream),
            (THREE, PARQUET, None),
        )
    ]
    return Outcome(lines, figures=[(WHAT, figure) for figure in figures.values()])


def _source(spark: SparkSession, url: str, columns: str = "") -> DataFrame:
    reader = spark.read.format("restante")
    return (reader.option("columns", columns) if columns else reader).load(url)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return folder / "checkpoint"


def _ours_as_stream(spark: SparkSession, url: str) -> DataFrame:
    return spark.readStream.format("restante").options(startingPosition="earliest").load(url)


def _files(spark: SparkSession, folder: str) -> DataFrame:
    return spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder)


def _stream(frame: DataFrame, checkpoint: Path) -> None:
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
