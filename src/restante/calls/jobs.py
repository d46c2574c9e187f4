"""Jobs: what is reported of their runs, looked up and forgotten."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from restante.calls.call import Call, Count, Home, Number
from restante.limits import JOB_SCHEDULE_CHARACTERS_MAX
from restante.model.jobs.job_answers import JobPage, JobReport, JobRun, JobRunPage, JobStatus, Time


class ReportJob(Call[JobStatus], frozen=True, kw_only=True):
    """Say when a job runs, and what became of a run."""

    home = Home.FIRST

    job: str
    schedule: Annotated[str, Meta(max_length=JOB_SCHEDULE_CHARACTERS_MAX)] | None = None
    next_at: Time | None = None
    """When its next turn is; left out: it has none."""
    run: JobReport | None = None


class ListJobs(Call[JobPage], frozen=True, kw_only=True):
    """The jobs by name, each with its last run."""

    home = Home.FIRST

    limit: Count | None = None
    after: str | None = None


class ReadJob(Call[JobStatus], frozen=True):
    """One job, with its last run."""

    home = Home.FIRST

    job: str


class ListRuns(Call[JobRunPage], frozen=True, kw_only=True):
    """The runs of a job, the newest first."""

    home = Home.FIRST

    job: str
    limit: Count | None = None
    after: Number | None = None
    """The number of the last run of the page before."""


class ReadRun(Call[JobRun], frozen=True):
    """One run, with its table."""

    home = Home.FIRST

    job: str
    run: int


class DeleteJob(Call[None], frozen=True):
    """Forget a job and its runs."""

    home = Home.FIRST

    job: str
