"""How every report is run: its tables are opened, it is computed and kept, and posted into mailboxes if that is wished.

A run is for one moment. Run again for the same moment it replaces what it kept, and posts nothing twice: the
consignment is known by the report's name and the moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from restante.errors import InvalidRequest
from restante.limits import (
    REPORT_NAME_CHARACTERS_MAX,
    REPORT_ROWS_SHOWN_MAX,
    REPORTS_KEPT_DEFAULT,
    TABLE_VERSIONS_HOURS_DEFAULT,
    TABLE_VERSIONS_HOURS_MAX,
)
from restante.spark.jobs.work import Figure, Outcome, Work
from restante.spark.reports.kept_reports import ADDED, keep
from restante.spark.reports.posted_reports import letters, post

_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{REPORT_NAME_CHARACTERS_MAX - 1}}}")


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every report."""

    as_of: Annotated[
        datetime | None,
        msgspec.Meta(description="The moment of the report. Later events are left out. Now, if left out."),
    ] = None
    since: Annotated[datetime | None, msgspec.Meta(description="Only messages that were published then or later.")] = (
        None
    )
    until: Annotated[datetime | None, msgspec.Meta(description="Only messages that were published before.")] = None
    keep: Annotated[
        int, msgspec.Meta(ge=0, description="How many runs the report's table keeps, the newest ones. 0 is all.")
    ] = REPORTS_KEPT_DEFAULT
    versions_hours: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=TABLE_VERSIONS_HOURS_MAX,
            description="How long older versions of the report's table can still be read. Deleted data is gone from "
            "the disk with a run a day after that. With 0, at once.",
        ),
    ] = TABLE_VERSIONS_HOURS_DEFAULT
    deliver_to: Annotated[
        tuple[str, ...], msgspec.Meta(description="Recipients that get the whole report in their mailboxes.")
    ] = ()
    deliver_each: Annotated[
        bool, msgspec.Meta(description="Every recipient in the report gets its own rows in its mailbox.")
    ] = False
    origin: Annotated[str, msgspec.Meta(description="The origin of the messages that carry the report.")] = "reports"


@dataclass(frozen=True, kw_only=True)
class ReportMoment:
    """When a report is about, and which messages it counts: all of them in UTC."""

    as_of: datetime
    since: datetime | None
    until: datetime | None


def moment_of(options: ReportOptions) -> ReportMoment:
    """The moment of a report, as the options say; now, if they do not. A time without a zone is one in UTC."""
    as_of = datetime.now(UTC) if options.as_of is None else _aware(options.as_of)
    since = None if options.since is None else _aware(options.since)
    until = None if options.until is None else _aware(options.until)
    if since is not None and until is not None and since >= until:
        raise InvalidRequest(f"since ({since}) must be before until ({until}).")
    return ReportMoment(as_of=as_of, since=since, until=until)


def opened(work: Work) -> tuple[DataFrame, DataFrame]:
    """The tables of messages and deliveries."""
    return _opened(work, "messages"), _opened(work, "deliveries")


def conclude(work: Work, name: str, report: DataFrame, *, moment: ReportMoment, options: ReportOptions) -> Outcome:
    """Keep the report, send it to the recipients that the options name, and return it with its figures."""
    check_name(name)
    check_columns(report, each=options.deliver_each)
    work.tell(f"Computing the report {name} as of {moment.as_of:%Y-%m-%d %H:%M:%S} UTC.")
    kept = keep(work, name, report, computed_at=moment.as_of, runs=options.keep, versions_hours=options.versions_hours)
    shown = kept.orderBy("place").drop(*ADDED).limit(REPORT_ROWS_SHOWN_MAX).toArrow()
    rows = shown.num_rows if shown.num_rows < REPORT_ROWS_SHOWN_MAX else kept.count()
    figures: dict[str, Figure] = {"report": name, "computed_at": moment.as_of.isoformat(), "rows": rows}
    posted = _posted(work, name, kept, moment=moment, options=options)
    return Outcome(figures=figures | posted, table=shown, title=name)


def check_name(name: str) -> None:
    """Refuse a report's name that cannot be the name of a folder, or a part of keys."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"A report's name has at most {REPORT_NAME_CHARACTERS_MAX} small letters, digits, dashes and underscores,"
            f" and begins with a letter or digit. {name!r} does not."
        )


def check_columns(report: DataFrame, *, each: bool) -> None:
    """Check that a report can be kept and posted."""
    taken = [column for column in report.columns if column.lower() in ADDED]
    if taken:
        raise InvalidRequest(f"A report has no columns named {' or '.join(ADDED)}: they are added. Rename {taken[0]}.")
    if each and "recipient" not in report.columns:
        there = ", ".join(report.columns)
        raise InvalidRequest(
            f"deliver_each needs a column recipient, and the report has {there}. Name the recipients in deliver_to."
        )


def _posted(
    work: Work, name: str, kept: DataFrame, *, moment: ReportMoment, options: ReportOptions
) -> dict[str, Figure]:
    if not options.deliver_to and not options.deliver_each:
        return {}
    key = f"report-{name}-{moment.as_of.isoformat()}"
    work.tell(f"Delivering the report as consignment {key}.")
    written = letters(
        kept, name=name, computed_at=moment.as_of, whole=sorted(set(options.deliver_to)), each=options.deliver_each
    )
    messages = post(work, written.withColumn("origin", f.lit(options.origin)), key=key)
    return {"messages": messages, "consignment": key}


def _opened(work: Work, name: str) -> DataFrame:
    place = work.place(name)
    if not DeltaTable.isDeltaTable(work.spark, place):
        raise InvalidRequest(
            f"There is no table {name} in {work.tables}. Run the job analytical-store first, or name the folder of its tables."
        )
    return work.spark.read.format("delta").load(place)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
