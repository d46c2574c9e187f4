"""Outcomes of every message, from the tables of messages and deliveries: what all reports begin with."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_MILLISECONDS = 1_000.0
_MOVED = "moved"


def fates(
    messages: DataFrame,
    deliveries: DataFrame,
    *,
    as_of: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """A row per message: its state then, and how many seconds it waited if it was collected.

    Events after `as_of` are left out, as if they had not happened yet. The table knows only the last event of a message: one
    that was set aside before `as_of` and released after it counts as waiting. `since` (inclusive) and
    `until` (exclusive) choose messages by when they were published. A message that was released to the end of its
    mailbox lives on under another number, and counts once: there.
    """
    # A message that moved has its row, with the time it was first published, under its new number: here it never counts.
    moved = f.col("state") == f.lit(_MOVED)
    told = deliveries.where(moved | (f.col("at") <= f.lit(as_of))).select(
        "partition", f.col("message_sequence_number").alias("sequence_number"), "state", "at"
    )
    joined = messages.where(_chosen(as_of, since, until)).join(told, ["partition", "sequence_number"], "left")
    state = f.coalesce(f.col("state"), f.lit("waiting"))
    return joined.where(state != f.lit(_MOVED)).select(
        "recipient",
        "origin",
        "kind",
        "published_at",
        state.alias("state"),
        f.when(state == f.lit("collected"), seconds_between("published_at", "at")).alias("collect_seconds"),
    )


def seconds_between(first: str, last: str) -> Column:
    """Seconds between two times, to the millisecond: exact percentiles hold every value that there is, and of microseconds there are too many."""
    micros = f.unix_micros(f.col(last)) - f.unix_micros(f.col(first))
    return f.round(micros / f.lit(_MILLISECONDS)) / f.lit(_MILLISECONDS)


def collect_seconds() -> Column:
    """The median and 95th percentile of the seconds, as an array; null where nothing was collected."""
    return f.percentile("collect_seconds", f.array(f.lit(0.5), f.lit(0.95)))


def percentiles(told: Column) -> list[Column]:
    """The columns of both."""
    return [told[0].alias("collect_seconds_p50"), told[1].alias("collect_seconds_p95")]


def _chosen(as_of: datetime, since: datetime | None, until: datetime | None) -> Column:
    published = f.col("published_at")
    chosen = published <= f.lit(as_of)
    if since is not None:
        chosen &= published >= f.lit(since)
    if until is not None:
        chosen &= published < f.lit(until)
    return chosen
