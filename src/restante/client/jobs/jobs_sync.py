# Generated from `jobs_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""Jobs and their runs, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun, ReportJob
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link, where
from restante.model.jobs.job_answers import JobReport, JobRun, JobStatus


class Jobs:
    """The runs of jobs, which run elsewhere, and what became of them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<Jobs of the hub {where(self._link)}>"

    def report(
        self,
        job: str,
        run: JobReport | None = None,
        *,
        schedule: str | None = None,
        next_at: datetime | None = None,
    ) -> JobStatus:
        """Say what became of a run of a job, and when its next turn is. Again replaces what was said of the run.

        ```python
        began = datetime.now(UTC)
        number = int(began.timestamp() * 1_000_000)
        hub.jobs.report("export", JobReport(run=number, state=JobRunState.RUNNING, began_at=began))
        ```
        """
        return self._link.call(ReportJob(job=job, schedule=schedule, next_at=next_at, run=run))

    def list(self) -> Iterator[JobStatus]:
        """All jobs by name, page by page as you go on.

        ```python
        for status in hub.jobs.list():
            print(status.job, status.last)
        ```
        """
        return every(self._link, ListJobs(), lambda page: page.jobs)

    def get(self, job: str) -> JobStatus:
        """One job: when it runs, and its last run.

        ```python
        status = hub.jobs.get("nightly-run")
        ```
        """
        return self._link.call(ReadJob(job))

    def runs(self, job: str) -> Iterator[JobRun]:
        """The runs that are kept, the newest first, without their tables.

        ```python
        for run in hub.jobs.runs("nightly-run"):
            print(run.began_at, run.state)
        ```
        """
        return every(self._link, ListRuns(job=job), lambda page: page.runs)

    def run(self, job: str, run: int) -> JobRun:
        """One run, with its table.

        ```python
        status = hub.jobs.get("nightly-run")
        run = hub.jobs.run("nightly-run", status.last.run)
        ```
        """
        return self._link.call(ReadRun(job, run))

    def delete(self, job: str) -> None:
        """Forget a job and its runs.

        ```python
        hub.jobs.delete("nightly-run")
        ```
        """
        self._link.call(DeleteJob(job))
