"""Upkeep of the analytical store's tables: old rows go, small files become large ones, old files go.

A row that was deleted, because it was too old or because its recipient was erased, is in no answer any more. Its bytes are
still in files of earlier versions of the table, until those are removed: `versions_hours` later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import functions as f

from restante.errors import InvalidRequest
from restante.limits import MIB
from restante.spark.analytical.analytical_tables import Tables

_CLEANED_ON = "cleaned_on"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upkeep:
    """The rules of one store."""

    keep_messages: int | None
    keep_deliveries: int | None
    """Days; None: for ever."""
    file_mib: int
    versions_hours: int
    every: int = 1
    """Small files are gathered after so many micro-batches."""

    def check(self) -> None:
        """A message whose delivery was forgotten first would look as if it waited."""
        if self.keep_deliveries is None:
            return
        if self.keep_messages is None or self.keep_messages > self.keep_deliveries:
            raise InvalidRequest(
                "keep_deliveries must not be shorter than keep_messages: a message whose delivery is forgotten would look "
                "as if it were still waiting."
            )


def compact(tables: Tables, rules: Upkeep) -> None:
    """Tables that have few small files are left as they are."""
    for table in tables.all:
        table.compact(file_bytes=rules.file_mib * MIB)


def expire(tables: Tables, rules: Upkeep, *, today: date) -> None:
    """Whole days at a time, in UTC: of messages that is a matter of whole files.

    A delivery goes by when it happened, open or not: its message was published before that, and is gone already.
    """
    if rules.keep_messages is not None:
        oldest = today - timedelta(days=rules.keep_messages)
        tables.messages.delete(f.col("published_on") < f.lit(oldest))
        tables.mismatches.delete(f.col("published_at") < f.lit(_begin(oldest)))
        tables.batches.delete(f.col("completed_at") < f.lit(_begin(oldest)))
    if rules.keep_deliveries is not None:
        oldest = today - timedelta(days=rules.keep_deliveries)
        tables.deliveries.delete(f.col("at") < f.lit(_begin(oldest)))


def clean(tables: Tables, rules: Upkeep, *, today: date) -> None:
    """Remove files that nothing needs any more; the table of messages remembers when that was done last."""
    for table in tables.all:
        table.clean(versions_hours=rules.versions_hours)
    remember_cleaning(tables, today)


def remember_cleaning(tables: Tables, today: date) -> date:
    tables.messages.set({_CLEANED_ON: today.isoformat()})
    return today


def cleaned_on(tables: Tables) -> date | None:
    told = tables.messages.settings().get(_CLEANED_ON)
    return None if told is None else date.fromisoformat(told)


def _begin(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
