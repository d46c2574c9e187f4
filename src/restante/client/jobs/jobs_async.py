"""Jobs and their runs, for asynchronous programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun, ReportJob
from restante.client.surface.pages_async import every
from restante.client.transport.link import AsyncLink, where
from restante.model.jobs.job_answers import JobReport, JobRun, JobStatus


class Jobs:
    """The runs of jobs, which run elsewhere, and what became of them."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<Jobs of the hub {where(self._link)}>"

    async def report(
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
        await hub.jobs.report("export", JobReport(run=number, state=JobRunState.RUNNING, began_at=began))
        ```
        """
        return await self._link.call(ReportJob(job=job, schedule=schedule, next_at=next_at, run=run))

    def list(self) -> AsyncIterator[JobStatus]:
        """All jobs by name, page by page as you go on.

        ```python
        async for status in hub.jobs.list():
            print(status.job, status.last)
        ```
        """
        return every(self._link, ListJobs(), lambda page: page.jobs)

    async def get(self, job: str) -> JobStatus:
        """One job: when it runs, and its last run.

        ```python
        status = await hub.jobs.get("nightly-run")
        ```
        """
        return await self._link.call(ReadJob(job))

    def runs(self, job: str) -> AsyncIterator[JobRun]:
        """The runs that are kept, the newest first, without their tables.

        ```python
        async for run in hub.jobs.runs("nightly-run"):
            print(run.began_at, run.state)
        ```
        """
        return every(self._link, ListRuns(job=job), lambda page: page.runs)

    async def run(self, job: str, run: int) -> JobRun:
        """One run, with its table.

        ```python
        status = await hub.jobs.get("nightly-run")
        run = await hub.jobs.run("nightly-run", status.last.run)
        ```
        """
        return await self._link.call(ReadRun(job, run))

    async def delete(self, job: str) -> None:
        """Forget a job and its runs.

        ```python
        await hub.jobs.delete("nightly-run")
        ```
        """
        await self._link.call(DeleteJob(job))
