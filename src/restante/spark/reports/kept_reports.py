"""Reports as Delta tables: each run is kept with its moment, and run again for the same moment it is replaced.

About once a day the small files of the runs are made one, and what only older versions need is removed from the disk.
"""

from __future__ import annotations

from datetime import datetime

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from restante.errors import InvalidRequest
from restante.limits import MIB
from restante.spark.jobs.work import Work
from restante.spark.tables.cleanup import history_of
from restante.spark.tables.tables import StoredTable

ADDED = ("computed_at", "place")
"""The columns that are added to a report's: the moment of the run, and a number by which its rows come in order."""

_FILE_BYTES = 64 * MIB
_UNFIT = set(" ,;{}()\n\t=")
"""A Delta table has no such characters in the names of its columns."""


def keep(
    work: Work, name: str, report: DataFrame, *, computed_at: datetime, runs: int, versions_hours: int
) -> DataFrame:
    """Write a run into the table of the report, leave the newest `runs` there, and give what was written.

    A job that goes on from what was written has the very rows that are kept, and nothing is computed a second time.
    """
    _check_names(report)
    place = work.place("reports", name)
    moment = f.lit(computed_at)
    numbered = report.select(moment.alias("computed_at"), f.monotonically_increasing_id().alias("place"), "*")
    writer = numbered.write.format("delta").mode("overwrite").option("mergeSchema", "true")
    try:
        writer.option("replaceWhere", f"computed_at = TIMESTAMP'{computed_at.isoformat()}'").save(place)
    except AnalysisException as error:
        if not DeltaTable.isDeltaTable(work.spark, place):
            raise
        raise InvalidRequest(
            f"The report does not fit the table {place}, which earlier runs have written: {_first_line(error)}"
            " Give it another name, or delete the table."
        ) from error
    _forget(work, place, runs)
    _tidy(work, place, versions_hours)
    kept = work.spark.read.format("delta").load(place).where(f.col("computed_at") == moment)
    return kept.select(*ADDED, *report.columns)


def _check_names(report: DataFrame) -> None:
    """Refuse columns without a name of their own, in our words: such a column is easily made."""
    names = report.columns
    twice = sorted({name for name in names if [other.lower() for other in names].count(name.lower()) > 1})
    if not names or twice:
        raise InvalidRequest(f"A report has columns, each of another name. Twice there: {', '.join(twice) or 'none'}.")
    unfit = [name for name in names if _UNFIT & set(name)]
    if unfit:
        raise InvalidRequest(f"The column {unfit[0]!r} has no plain name. Give it one: .alias('…').")


def _forget(work: Work, place: str, runs: int) -> None:
    """Forget all runs but the newest."""
    if not runs:
        return
    table = DeltaTable.forPath(work.spark, place)
    moments = table.toDF().select("computed_at").distinct().orderBy(f.col("computed_at").desc()).limit(runs + 1)
    found = [row.computed_at for row in moments.collect()]
    if len(found) > runs:
        table.delete(f.col("computed_at") <= f.lit(found[-1]))


def _tidy(work: Work, place: str, versions_hours: int) -> None:
    if history_of(work.spark, place).is_cleaning_due(versions_hours=versions_hours):
        table = StoredTable(work.spark, place)
        table.compact(file_bytes=_FILE_BYTES)
        table.clean(versions_hours=versions_hours)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
