"""The leaderboard: which recipients and kinds got most, and who collects fastest and slowest, over all and by kind."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from restante.limits import LEADERBOARD_TOP_MAX
from restante.model.publishing.message import State
from restante.spark.jobs.work import Outcome, Work
from restante.spark.reports.outcomes import collect_seconds, fates, percentiles
from restante.spark.reports.report_run import ReportOptions, conclude, moment_of, opened

NAME = "leaderboard"
SUMMARY = "The recipients and kinds that got most, and who collects fastest and slowest."
_TOP = 10


class Options(ReportOptions, frozen=True, kw_only=True):
    """The options of every report, and how long the lists are."""

    top: Annotated[int, msgspec.Meta(ge=1, le=LEADERBOARD_TOP_MAX, description="How many places every list has.")] = (
        _TOP
    )


def transform(
    messages: DataFrame,
    deliveries: DataFrame,
    *,
    as_of: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    top: int = _TOP,
) -> DataFrame:
    """Lists of at most `top` rows each, by rank; equals share one.

    `list` is `most` (messages), `fastest` or `slowest` (the median time to collect, among those who have collected).
    `of` says what is ranked: recipients, over all kinds where `kind` is null and within each one; or kinds.
    """
    scores = _scores(fates(messages, deliveries, as_of=as_of, since=since, until=until))
    ranked = scores.withColumns({name: _rank(order) for name, order in _LISTS.items()})
    listed = ranked.select("*", f.explode(f.array(*map(_entry, _LISTS))).alias("entry"))
    return (
        listed.where(f.col("entry.place") <= f.lit(top))
        .orderBy(f.col("of").desc(), f.col("kind").asc_nulls_first(), "entry.number", "entry.place")
        .select(
            "of",
            "entry.list",
            "entry.rank",
            "recipient",
            "kind",
            "messages",
            "collected",
            "collect_seconds_p50",
            "collect_seconds_p95",
        )
    )


def run(work: Work, options: Options) -> Outcome:
    """Compute, keep and, if that is wished, deliver it."""
    moment = moment_of(options)
    messages, deliveries = opened(work)
    report = transform(
        messages, deliveries, as_of=moment.as_of, since=moment.since, until=moment.until, top=options.top
    )
    return conclude(work, NAME, report, moment=moment, options=options)


_LISTS = {
    "most": ("messages", False),
    "fastest": ("collect_seconds_p50", True),
    "slowest": ("collect_seconds_p50", False),
}
"""For each list, the figure that counts, and whether less of it is better."""


def _scores(told: DataFrame) -> DataFrame:
    """The figures of every recipient within every kind, of every recipient, and of every kind."""
    recipient, kind = f.col("recipient"), f.col("kind")
    scores = told.groupingSets([[recipient, kind], [recipient], [kind]], recipient, kind).agg(
        f.when(f.grouping("recipient") == f.lit(1), f.lit("kind")).otherwise(f.lit("recipient")).alias("of"),
        f.count(f.lit(1)).alias("messages"),
        f.count_if(f.col("state") == f.lit(State.COLLECTED.value)).alias("collected"),
        collect_seconds().alias("collect_seconds"),
    )
    seconds = percentiles(f.col("collect_seconds"))
    return scores.select("*", *seconds).withColumn("within", f.when(f.col("of") == f.lit("recipient"), kind))


def _rank(order: tuple[str, bool]) -> Column:
    """A place that nobody shares, by name among equals, and the rank that equals share; null where the figure is missing."""
    figure, ascending = order
    value = f.col(figure).asc_nulls_last() if ascending else f.col(figure).desc_nulls_last()
    scope = Window.partitionBy("of", "within")
    place = f.row_number().over(scope.orderBy(value, "recipient", "kind"))
    rank = f.rank().over(scope.orderBy(value))
    return f.when(f.col(figure).isNotNull(), f.struct(place.alias("place"), rank.alias("rank")))


def _entry(name: str) -> Column:
    """A row's place in a list, with the list's number and name."""
    number = list(_LISTS).index(name)
    return f.struct(
        f.lit(number).alias("number"),
        f.lit(name).alias("list"),
        f.col(f"{name}.place").alias("place"),
        f.col(f"{name}.rank").alias("rank"),
    )
