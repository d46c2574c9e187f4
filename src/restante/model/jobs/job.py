"""Jobs as they are stored: a row for each, one for each of its last runs, and one for the table of a run.

A program reports a run when it begins, again while it runs, and when it has ended. Reports may be lost, repeated or
overtake each other: a run that has ended stays ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from restante.decoders import converted, packed_decoder
from restante.errors import DataDamaged, InvalidRequest
from restante.limits import (
    JOB_CHARACTERS_MAX,
    JOB_REPORT_BYTES_MAX,
    JOB_RUN_NUMBER_MAX,
    JOB_RUNS_KEPT,
    JOB_SCHEDULE_CHARACTERS_MAX,
)
from restante.model.access.access import NO_OWNER, OWNER_BYTES
from restante.model.jobs.job_answers import JobReport, JobRun, JobRunState, RunFigure, RunTable
from restante.model.mailboxes.answers import moment
from restante.model.names import name_problem
from restante.model.storage.keys import number_key

HOME = 0
"""The partition that keeps them."""
NO_TIME = 0
_BORDER = b"\0"
"""No name has it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encoder = msgspec.msgpack.Encoder()
T = TypeVar("T")


class JobRow(msgspec.Struct, frozen=True, array_like=True):
    """A job as it is stored. Times are microseconds since 1970 UTC, 0 is none."""

    reported_at: int
    schedule: str = ""
    next_at: int = NO_TIME
    runs: tuple[int, ...] = ()
    """The numbers of those that are kept, the newest first."""


class JobRunRow(msgspec.Struct, frozen=True, array_like=True):
    """A run of a job as it is stored."""

    state: JobRunState
    began_at: int
    ended_at: int
    reported_at: int
    figures: dict[str, RunFigure]
    text: str = ""
    table_rows: int = -1
    """-1: it has no table."""


_job_decoder = packed_decoder(JobRow)
_run_decoder = packed_decoder(JobRunRow)
_table_decoder = packed_decoder(RunTable)


# Keys


def job_key(name: str, owner: bytes) -> bytes:
    """Under which an owner's job is stored; no key begins with another one."""
    return name_prefix(name) + bytes((len(owner),)) + owner


def name_prefix(name: str) -> bytes:
    """The prefix of the keys of all jobs of this name."""
    return name.encode() + _BORDER


def key_job(key: bytes) -> tuple[str, bytes]:
    """The name and the owner of a key."""
    name, border, rest = key.partition(_BORDER)
    try:
        if border and rest and len(rest) == rest[0] + 1 and rest[0] in (len(NO_OWNER), OWNER_BYTES):
            return name.decode(), rest[1:]
    except UnicodeDecodeError:
        pass
    raise DataDamaged("The key of a job cannot be read. Run `restante doctor`.")


def run_key(job: bytes, run: int) -> bytes:
    return job + number_key(run)


# --- Checks of what callers send


def check_job(name: object) -> str:
    """The name of a job, if it is one."""
    if not isinstance(name, str) or not name.strip() or len(name) > JOB_CHARACTERS_MAX or not _encodes(name):
        raise InvalidRequest(
            f"A job's name is text of 1 to {JOB_CHARACTERS_MAX} characters, not blank; not {name!r:.100}.",
            parameter="job",
        )
    problem = name_problem(name)
    if problem is not None:
        raise InvalidRequest(f"A job's name {problem}: {name!r}.", parameter="job")
    return name


def check_run(number: object) -> int:
    if type(number) is not int or not 0 <= number <= JOB_RUN_NUMBER_MAX:
        raise InvalidRequest(f"A run has a number from 0 to {JOB_RUN_NUMBER_MAX}, not {number!r:.40}.", parameter="run")
    return number


def check_schedule(text: str | None) -> str:
    if text is not None and (len(text) > JOB_SCHEDULE_CHARACTERS_MAX or not _encodes(text)):
        raise InvalidRequest(
            f"A schedule is text of at most {JOB_SCHEDULE_CHARACTERS_MAX} characters.", parameter="schedule"
        )
    return text or ""


def check_report(report: JobReport) -> JobReport:
    """A report of a run, if it can be one: also of a caller in the same process, whose values nobody has checked."""
    check_run(report.run)
    try:
        checked = converted(msgspec.to_builtins(report), JobReport)
        size = len(_encoder.encode(checked))
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"The report of the run is not right: {error}.", field="run") from error
    for problem in _problems(checked, size):
        raise InvalidRequest(f"The report of run {report.run} is not right: {problem}.", field="run")
    return checked


def _problems(report: JobReport, size: int) -> Iterator[str]:
    if (report.ended_at is None) != (report.state is JobRunState.RUNNING):
        yield "one that is running has no ended_at, and every other one has it"
    if report.ended_at is not None and report.ended_at < report.began_at:
        yield "it ended before it began"
    if report.table is not None and any(len(row) != len(report.table.columns) for row in report.table.rows):
        yield "each row of its table has a cell for each column"
    if size > JOB_REPORT_BYTES_MAX:
        yield f"it has {size:,} bytes, and at most {JOB_REPORT_BYTES_MAX:,} are kept: leave rows of its table out"


def check_time(time: datetime | None) -> datetime | None:
    if time is not None and time.tzinfo is None:
        raise InvalidRequest("A time must say its zone.", parameter="next_at")
    return time


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def microseconds(time: datetime | None) -> int:
    return NO_TIME if time is None else max(1, (time - _EPOCH) // timedelta(microseconds=1))


# Rows


def row_of(report: JobReport, now: int) -> JobRunRow:
    table = report.table
    return JobRunRow(
        report.state,
        microseconds(report.began_at),
        microseconds(report.ended_at),
        now,
        report.figures,
        report.text or "",
        -1 if table is None else table.rows_in_all or len(table.rows),
    )


def kept_runs(before: tuple[int, ...], run: int) -> tuple[int, ...]:
    """The numbers of the runs that are kept once there is this one too, the newest first."""
    return tuple(sorted({*before, run}, reverse=True)[:JOB_RUNS_KEPT])


def is_late(before: JobRunRow | None, report: JobReport) -> bool:
    """Whether a report is out of date: it says that a run is running which has ended."""
    return before is not None and before.ended_at != NO_TIME and report.state is JobRunState.RUNNING


def run_of(number: int, row: JobRunRow, table: RunTable | None = None) -> JobRun:
    return JobRun(
        run=number,
        state=row.state,
        began_at=moment(row.began_at),
        reported_at=moment(row.reported_at),
        ended_at=time_of(row.ended_at),
        figures=row.figures,
        text=row.text or None,
        table_rows=None if row.table_rows < 0 else row.table_rows,
        table=table,
    )


def time_of(at: int) -> datetime | None:
    return None if at == NO_TIME else moment(at)


def encode_job(row: JobRow | JobRunRow) -> bytes:
    return _encoder.encode(row)


def encode_table(table: RunTable) -> bytes:
    return _encoder.encode(table)


def decode_job(value: bytes) -> JobRow:
    return _decoded(_job_decoder, value)


def decode_run(value: bytes) -> JobRunRow:
    return _decoded(_run_decoder, value)


def decode_table(value: bytes) -> RunTable:
    return _decoded(_table_decoder, value)


def _decoded(decoder: msgspec.msgpack.Decoder[T], value: bytes) -> T:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"The row of a job cannot be read: {error}. Run `restante doctor`.") from error
