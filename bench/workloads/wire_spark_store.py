"""S3: the analytical store catches up with 4 million messages, all collected: by the feed, and from what is stored.

Timed from the start of the job until everything is in the tables. By the feed each message is seen twice, as it is published
and as it is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import SparkSession

import restante
from bench import spark as sparks
from bench.context import Bench
from bench.mail import recipient_names
from bench.outcome import Figure, Goal, Line, Outcome
from bench.sampling import Contender, timed
from bench.wire import WireBench
from restante.client.surface.surface import Hub
from restante.spark.jobs import analytical_store
from restante.spark.jobs.work import Work

WHAT = "S3 the analytical store catches up with 4 million messages"
FEED = "by the feed"
STORED = "from what is stored"
AT_LEAST = 300_000
"""Messages a second."""


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    with sparks.session() as spark, sparks.hub(bench) as server:
        # Their place is the beginning of the feed, where there is nothing yet: a round warms up.
        begun = iter([_begun(bench, spark, server.url) for _ in range(scale.store_repetitions + 1)])
        with restante.connect(server.url) as hub:
            _fill(bench, hub, scale.store_messages)
        fresh = partial(_work, bench, spark, server.url)
        caught_up = timed(partial(_catch_up, expected=scale.store_messages))
        contenders = [
            Contender(FEED, partial(next, begun), caught_up),
            Contender(STORED, fresh, caught_up),
        ]
        samples = bench.interleave(WHAT, contenders, scale.store_repetitions)
    figures = {name: Figure.of_rate(found, scale.store_messages, name) for name, found in samples.items()}
    goal = Goal(f"≥ {AT_LEAST:,}/s", at_least=AT_LEAST, of_value=True)
    return Outcome(
        [Line(f"{WHAT} {name}", figure, goal=goal) for name, figure in figures.items()],
        figures=[(WHAT, figure) for figure in figures.values()],
        notes=[
            f"S3: {scale.store_messages:,} messages for {scale.send_recipients:,} recipients, all of them collected"
        ],
    )


def _work(bench: Bench, spark: SparkSession, url: str) -> Work:
    return Work(spark=spark, url=url, tables=str(bench.fresh_folder()))


def _begun(bench: Bench, spark: SparkSession, url: str) -> Work:
    work = _work(bench, spark, url)
    analytical_store.run(work, analytical_store.Options())
    return work


def _catch_up(work: Work, expected: int) -> None:
    analytical_store.run(work, analytical_store.Options())
    for table in ("messages", "deliveries"):
        found = work.spark.read.format("delta").load(work.place(table)).count()
        assert found == expected, f"{found} of {expected} rows in {table}"


def _fill(bench: Bench, hub: Hub, count: int) -> None:
    names = recipient_names(bench.scale.send_recipients)
    parcels = range(0, count, bench.scale.parcel)
    with bench.display.bar(f"{WHAT}: filling", len(parcels) + len(names)) as advance:
        for _ in parcels:
            hub.producer.send(bench.mail.table(names, bench.scale.parcel))
            advance("published")
        for name in _texts(names.to_pylist()):
            for bundle in hub.recipient(name).bundles(idle=0):
                bundle.dequeue()
            advance("collected")


def _texts(values: list[str | None]) -> Iterator[str]:
    return (value for value in values if value is not None)
