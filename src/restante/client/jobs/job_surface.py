"""The surface of jobs that programs see: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from restante.model.jobs.job_answers import JobReport, JobRun, JobStatus


class Jobs(Protocol):
    """The runs of jobs, which run elsewhere, and what became of them."""

    def report(
        self,
        job: str,
        run: JobReport | None = None,
        *,
        schedule: str | None = None,
        next_at: datetime | None = None,
    ) -> JobStatus:
        """Say what became of a run of a job, and when its next turn is."""
        ...

    def list(self) -> Iterator[JobStatus]: ...
    def get(self, job: str) -> JobStatus: ...
    def runs(self, job: str) -> Iterator[JobRun]:
        """The runs that are kept, the newest first, without their tables."""
        ...

    def run(self, job: str, run: int) -> JobRun:
        """One run, with its table."""
        ...

    def delete(self, job: str) -> None:
        """Forget a job and its runs."""
        ...
