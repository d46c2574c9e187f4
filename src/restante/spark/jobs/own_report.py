"""A user's own report: a Python file with a `transform`, computed, kept and delivered like the others.

The names of the function's parameters say what it gets: `messages` and `deliveries`, the tables; `as_of`, the moment of the
report; `since` and `until`, if the run has them. It returns a frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from pyspark.sql import DataFrame

from restante.errors import InvalidRequest
from restante.spark.jobs.work import Outcome, Work
from restante.spark.reports.report_files import ReportFile
from restante.spark.reports.report_run import ReportMoment, ReportOptions, check_name, conclude, moment_of, opened

NAME = "own-report"
SUMMARY = "A report of your own: a Python file with a transform."


class Options(ReportOptions, frozen=True, kw_only=True):
    """The options of every report, and where the file is."""

    file: Annotated[str, msgspec.Meta(description="The Python file with the function transform. It must be given.")] = (
        ""
    )
    name: Annotated[str, msgspec.Meta(description="The name of the report. That of the file, if left out.")] = ""


def transform(report: ReportFile, messages: DataFrame, deliveries: DataFrame, *, moment: ReportMoment) -> DataFrame:
    """The frame that the file's `transform` makes of the tables."""
    return report.computed(
        messages=messages, deliveries=deliveries, as_of=moment.as_of, since=moment.since, until=moment.until
    )


def run(work: Work, options: Options) -> Outcome:
    """Compute, keep and, if that is wished, deliver it."""
    if not options.file:
        raise InvalidRequest("Name the Python file of the report: file=….")
    name = options.name or Path(options.file).stem.lower()
    check_name(name)
    report = ReportFile.read(options.file)
    moment = moment_of(options)
    messages, deliveries = opened(work)
    computed = transform(report, messages, deliveries, moment=moment)
    with report.told():
        # Most of it is computed only now, and only now may the file's own functions fail.
        return conclude(work, name, computed, moment=moment, options=options)
