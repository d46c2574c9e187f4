"""A job of the tests: a stream that goes on until it is stopped."""

from __future__ import annotations

from typing import Annotated

import msgspec

from restante.spark.jobs.work import Outcome, Work

NAME = "ticking"
SUMMARY = "Tick until it is stopped."


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How fast."""

    rows: Annotated[int, msgspec.Meta(ge=1, description="Rows a second.")] = 10


def run(work: Work, options: Options) -> Outcome:
    frame = work.spark.readStream.format("rate").option("rowsPerSecond", options.rows).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", work.place("checkpoints", NAME)).start()
    work.tell("It ticks.")
    query.awaitTermination()
    return Outcome(figures={"ticked": "until it was stopped"})
