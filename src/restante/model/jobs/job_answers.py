"""Reports of jobs, and the answers of the hub about them."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from restante import limits

_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
RunFigure = _Whole | float | str | None
"""A figure of a run, or a cell of its table."""
RunNumber = Annotated[int, Meta(ge=0, le=limits.JOB_RUN_NUMBER_MAX)]
Time = Annotated[datetime, Meta(tz=True)]


class JobRunState(Enum):
    """The state of a run that is under way, or how it ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class RunTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The table of a run, as much of it as is kept: a report, for example."""

    columns: Annotated[tuple[str, ...], Meta(min_length=1, max_length=limits.JOB_TABLE_COLUMNS_MAX)]
    rows: Annotated[tuple[tuple[RunFigure | bool, ...], ...], Meta(max_length=limits.JOB_TABLE_ROWS_MAX)]
    rows_in_all: Annotated[int, Meta(ge=0)] = 0
    """How many rows the whole table has; 0: those that are here."""
    title: Annotated[str, Meta(max_length=limits.JOB_TITLE_CHARACTERS_MAX)] | None = None


class JobReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run, as the program that runs the job reports it. A later report of the same number replaces it."""

    run: RunNumber
    """A number that ascends from run to run: the microseconds since 1970 at which it began, for example."""
    state: JobRunState
    began_at: Time
    ended_at: Time | None = None
    """When the run ended; none while it is running."""
    figures: Annotated[dict[str, RunFigure], Meta(max_length=limits.JOB_FIGURES_MAX)] = {}
    text: Annotated[str, Meta(max_length=limits.JOB_TEXT_CHARACTERS_MAX)] | None = None
    """The text that says what went wrong, or what it is about."""
    table: RunTable | None = None


class JobRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run. Its table is there only if the run alone was asked for."""

    run: int
    state: JobRunState
    began_at: datetime
    reported_at: datetime
    """When the hub last heard of it. A run is reported again while it is running."""
    ended_at: datetime | None = None
    figures: dict[str, RunFigure] = {}
    text: str | None = None
    table_rows: int | None = None
    """How many rows its table has; None: it has no table."""
    table: RunTable | None = None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job: when it runs, and its last run."""

    job: str
    reported_at: datetime
    runs: int
    """How many are kept."""
    schedule: str | None = None
    """The schedule in words: `every 2 minutes`."""
    next_at: datetime | None = None
    """When its next turn is; None: it has none, or is running without end."""
    last: JobRun | None = None
    owner: str | None = None
    """Tells jobs apart that have the same name; the same for all jobs of one owner. None: nobody owns it."""


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    jobs: tuple[JobStatus, ...]
    next: str | None


class JobRunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, the newest first."""

    runs: tuple[JobRun, ...]
    next: int | None
