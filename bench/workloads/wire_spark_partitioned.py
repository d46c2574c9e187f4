"""S5: a query for one of 1,000 values of a key in 10⁷ rows: on the partitioned store, and on the table that it is a copy of.

Both are Delta tables with the same rows and the same columns. Counted too are the octets of the files that a query opens.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench import spark as sparks
from bench.outcome import Figure, Outcome, Unit, faster, slower
from bench.sampling import Contender, timed
from bench.wire import OURS, WireBench
from restante.spark.analytical.analytical_tables import create_tables, tables_at
from restante.spark.jobs import partitioned_store
from restante.spark.jobs.work import Work

WHAT = "S5 one of 1,000 values in 10⁷ rows"
PLAIN = "the plain table"
STORE = f"{OURS}, partitioned store"
VALUES = 1_000
TIMES_FASTER = 5.0


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    with sparks.session() as spark:
        work = Work(spark=spark, tables=str(bench.fresh_folder()))
        with bench.display.bar(f"{WHAT}: filling", 2) as advance:
            _fill(work, scale.store_rows)
            advance(PLAIN)
            partitioned_store.run(work, partitioned_store.Options(name="by-region", key="properties.region"))
            advance(STORE)
        ways = {
            PLAIN: partial(_plain, spark, work.place("messages")),
            STORE: partial(_store, spark, work.place("stores", "by-region")),
        }
        expected = scale.store_rows // VALUES
        contenders = [Contender(name, way, timed(partial(_asked, expected=expected))) for name, way in ways.items()]
        samples = bench.interleave(WHAT, contenders, scale.repetitions)
        octets = {name: Figure(_octets(way()), Unit.BYTES, name) for name, way in ways.items()}
    figures = {name: Figure.of_seconds(found, name) for name, found in samples.items()}
    return Outcome(
        [
            faster(WHAT, figures[STORE], figures[PLAIN], at_least=TIMES_FASTER),
            slower("S5 octets of the files that are read", octets[STORE], octets[PLAIN]),
        ],
        figures=[(WHAT, figure) for figure in figures.values()],
    )


def _fill(work: Work, rows: int) -> None:
    """As the analytical store has them: in the order in which they were published."""
    tables = tables_at(work.spark, work.tables)
    create_tables(tables, sparks.NO_DOCUMENTS, versions_hours=1)
    schema = work.spark.read.format("delta").load(work.place("messages")).schema
    number = f.col("id")
    values = {
        "partition": (number % 16).cast("int"),
        "sequence_number": number,
        "id": f.uuid(),
        "recipient": f.concat(f.lit("r"), f.xxhash64(number) % 5_000),
        "data": f.unhex(f.sha2(number.cast("string"), 256)),
        "properties": f.create_map(f.lit("region"), f.concat(f.lit("region-"), number % VALUES)),
        "published_at": f.timestamp_seconds(f.lit(1_700_000_000) + number / 1_000),
    }
    values["published_on"] = f.to_date(values["published_at"])
    columns = [values.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name) for field in schema]
    work.spark.range(rows, numPartitions=8).select(*columns).write.format("delta").mode("append").save(
        work.place("messages")
    )


def _plain(spark: SparkSession, place: str) -> DataFrame:
    return spark.read.format("delta").load(place).where("properties['region'] = 'region-77'")


def _store(spark: SparkSession, place: str) -> DataFrame:
    return spark.read.format("delta").load(place).where(f"{partitioned_store.KEY} = 'region-77'")


def _asked(frame: DataFrame, expected: int) -> None:
    found = frame.agg(f.count("*").alias("rows"), f.sum(f.length("data")).alias("octets")).collect()[0]["rows"]
    assert found == expected, f"{found} of {expected} rows"


def _octets(frame: DataFrame) -> int:
    """The bytes of the files that are left after pruning, as Spark's own metrics have it once the query has run."""
    frame.select("data").write.format("noop").mode("overwrite").save()
    files = frame.select("_metadata.file_path", "_metadata.file_size").distinct()
    return int(files.agg(f.coalesce(f.sum("file_size"), f.lit(0))).collect()[0][0])
