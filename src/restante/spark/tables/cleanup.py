"""When a table is to be cleaned of files that nothing needs any more: about once a day, by its own history.

Cleaning costs more than a small run, and may remove only files that are hours old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

COMMITS_LOOKED_AT = 100
_CLEANING = "VACUUM"
_EVERY_SECONDS = 24 * 3_600


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The last commits of a table, the newest first."""

    commits: Sequence[Row]

    def is_cleaning_due(self, *, versions_hours: int, now: float | None = None) -> bool:
        """After a day, or very many commits; where no older versions are kept, always.

        A table that was never cleaned counts from its first commit. Without commits there is nothing to clean.
        """
        if not self.commits:
            return False
        cleaned = [commit["seconds"] for commit in self.commits if commit["operation"].startswith(_CLEANING)]
        if not versions_hours or (not cleaned and len(self.commits) == COMMITS_LOOKED_AT):
            return True
        last = cleaned[0] if cleaned else self.commits[-1]["seconds"]
        return (now or datetime.now(UTC).timestamp()) - float(last) >= _EVERY_SECONDS


def history_of(spark: SparkSession, path: str) -> CommitHistory:
    """Without commits, if there is no table."""
    if not DeltaTable.isDeltaTable(spark, path):
        return CommitHistory(())
    told = DeltaTable.forPath(spark, path).history(COMMITS_LOOKED_AT).orderBy(f.desc("version"))
    seconds = f.col("timestamp").cast("double").alias("seconds")
    return CommitHistory(told.select("operation", seconds, "userMetadata").collect())
