"""S1: a frame of 10⁶ messages from Spark into mailboxes, durable and each once: beside Parquet, JDBC and single publishes.

The frame is in memory. Parquet goes to the local disk, and is not synced. JDBC goes into a PostgreSQL table with the indexes
that mailboxes need. `foreachPartition` publishes one message at a time, as people do: into the hub, and into PostgreSQL;
these have fewer messages, and rates are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row

from bench import spark as sparks
from bench.outcome import Figure, Goal, Line, Outcome, faster
from bench.peers.postgresql import Postgresql
from bench.sampling import Contender, timed
from bench.server import driver
from bench.wire import OURS, WireBench

WHAT = "S1 10⁶ messages from Spark"
PARQUET = "Spark, Parquet"
NOTHING = "Spark, a Python sink that does nothing"
SINK = f"{OURS}, format(restante)"
JDBC = "PostgreSQL, JDBC sink"
TUNED = "PostgreSQL, JDBC sink, many rows an INSERT"
SINGLE_HUB = f"{OURS}, single publishes in foreachPartition"
SINGLE_POSTGRESQL = "PostgreSQL, single inserts in foreachPartition"
TUNING = {"batchsize": "10000", "reWriteBatchedInserts": "true"}
OF_PARQUET = 0.3
TIMES_TODAY = 10.0


Write = Callable[[DataFrame], None]


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    postgresql = bench.servers.get(Postgresql.name)
    with sparks.session(jdbc=isinstance(postgresql, Postgresql)) as spark, ExitStack() as stack:
        many = sparks.messages(spark, scale.spark_messages, scale.send_recipients)
        few = many.limit(scale.spark_singles).repartition(many.rdd.getNumPartitions()).persist()
        few.count()
        url = stack.enter_context(sparks.hub(bench)).url
        folder = bench.fresh_folder() / "parquet"
        contenders: dict[str, tuple[DataFrame, Write]] = {
            PARQUET: (many, partial(sparks.write_parquet, folder=folder)),
            NOTHING: (many, _nothing),
            SINK: (many, partial(sparks.write_ours, url=url)),
            SINGLE_HUB: (few, partial(_singly, publish=partial(_publish, url))),
        }
        if isinstance(postgresql, Postgresql):
            contenders[JDBC] = (many, partial(_jdbc, address=postgresql.address))
            contenders[TUNED] = (many, partial(_jdbc, address=postgresql.address, tuning=TUNING))
            contenders[SINGLE_POSTGRESQL] = (few, partial(_singly, publish=partial(_insert, postgresql.address)))
        samples = bench.interleave(
            WHAT, [_contender(name, *work) for name, work in contenders.items()], scale.spark_repetitions
        )
    counts = {
        name: scale.spark_messages if frame is many else scale.spark_singles for name, (frame, _) in contenders.items()
    }
    figures = {name: Figure.of_rate(found, counts[name], name) for name, found in samples.items()}
    return Outcome(_lines(figures), figures=[(WHAT, figure) for figure in figures.values()])


def _lines(figures: dict[str, Figure]) -> list[Line]:
    ours = figures[SINK]
    share = Goal(f"≥ {OF_PARQUET:g} × {PARQUET}", at_least=OF_PARQUET)
    lines = [
        Line(WHAT, ours, figures[PARQUET], ours.value / figures[PARQUET].value, share),
        Line(WHAT, ours, figures[NOTHING], ours.value / figures[NOTHING].value),
    ]
    today = [figures[name] for name in (JDBC, TUNED, SINGLE_HUB, SINGLE_POSTGRESQL) if name in figures]
    return lines + [faster(WHAT, ours, figure, at_least=TIMES_TODAY) for figure in today]


def _contender(name: str, frame: DataFrame, write: Write) -> Contender:
    return Contender(name, lambda: frame, timed(write))


def _nothing(frame: DataFrame) -> None:
    frame.write.format("nothing").mode("append").save()


def _jdbc(frame: DataFrame, address: str, tuning: Mapping[str, str] | None = None) -> None:
    """Into the table that the other workloads use, with ids, which it needs."""
    parts = dict(part.split("=", 1) for part in address.split())
    options = {
        "url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}?stringtype=unspecified",
        "user": parts["user"],
        "dbtable": "message",
        "driver": "org.postgresql.Driver",
        **(tuning or {}),
    }
    frame.selectExpr("uuid() AS id", "*").write.format("jdbc").options(**options).mode("append").save()


def _singly(frame: DataFrame, publish: Callable[[Iterable[Row]], None]) -> None:
    frame.foreachPartition(publish)


def _publish(url: str, rows: Iterator[Row]) -> None:
    import restante

    with restante.connect(url) as hub:
        for row in rows:
            hub.producer.send(restante.Message(**{**row.asDict(), "data": bytes(row["data"])}))


def _insert(address: str, rows: Iterator[Row]) -> None:
    with driver("psycopg").connect(address, autocommit=True) as connection:
        for row in rows:
            values: list[Any] = [row["recipient"], row["origin"], row["kind"], bytes(row["data"])]
            connection.execute(
                "INSERT INTO message (id, recipient, origin, kind, data) VALUES (gen_random_uuid(), %s, %s, %s, %s)",
                values,
            )
