"""The collection report: per recipient and origin, how much was published, what became of it, and how long it took."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from restante.model.publishing.message import State
from restante.spark.jobs.work import Outcome, Work
from restante.spark.reports.outcomes import collect_seconds, fates, percentiles
from restante.spark.reports.report_run import ReportOptions, conclude, moment_of, opened

NAME = "collection-report"
SUMMARY = "Per recipient and origin: published, collected, waiting, time to collect, oldest waiting."


class Options(ReportOptions, frozen=True, kw_only=True):
    """The options of the report: those that every report has."""


def transform(
    messages: DataFrame,
    deliveries: DataFrame,
    *,
    as_of: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """A row per recipient and origin, by their names. Times to collect are percentiles of all times, in seconds."""
    oldest = f.min(f.when(f.col("state") == f.lit(State.WAITING.value), f.col("published_at")))
    counted = (
        fates(messages, deliveries, as_of=as_of, since=since, until=until)
        .groupBy("recipient", "origin")
        .agg(
            f.count(f.lit(1)).alias("published"),
            *(_count(state) for state in State),
            collect_seconds().alias("collect_seconds"),
            oldest.alias("oldest_waiting_at"),
        )
    )
    age = (f.unix_micros(f.lit(as_of)) - f.unix_micros("oldest_waiting_at")) / f.lit(1e6)
    return counted.orderBy("recipient", "origin").select(
        "recipient",
        "origin",
        "published",
        "collected",
        "waiting",
        "expired",
        "withdrawn",
        "set_aside",
        *percentiles(f.col("collect_seconds")),
        "oldest_waiting_at",
        age.alias("oldest_waiting_seconds"),
    )


def run(work: Work, options: Options) -> Outcome:
    """Compute, keep and, if that is wished, deliver it."""
    moment = moment_of(options)
    messages, deliveries = opened(work)
    report = transform(messages, deliveries, as_of=moment.as_of, since=moment.since, until=moment.until)
    return conclude(work, NAME, report, moment=moment, options=options)


def _count(state: State) -> Column:
    return f.count_if(f.col("state") == f.lit(state.value)).alias(state.value)
