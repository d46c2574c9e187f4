"""Runs of jobs reported to the hub, in a thread of their own: no job waits for it, or fails because of it.

A run is reported when it begins, every half minute while it runs, and when it has ended. If the hub does not answer, the
newest report of each run is sent later. If the hub refuses, that is said once, and nothing more is reported.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from restante.calls.jobs import ReportJob
from restante.client.surface.connect import connect
from restante.client.surface.sync import Hub
from restante.errors import RestanteError
from restante.limits import (
    JOB_FIGURES_MAX,
    JOB_REPORT_END_SECONDS,
    JOB_REPORT_SECONDS,
    JOB_TABLE_BYTES_TARGET,
    JOB_TABLE_COLUMNS_MAX,
    JOB_TABLE_ROWS_MAX,
    JOB_TEXT_CHARACTERS_MAX,
    JOB_TITLE_CHARACTERS_MAX,
)
from restante.model.jobs.job_answers import JobReport, JobRunState, RunFigure, RunTable
from restante.spark.jobs.work import Outcome
from restante.spark.sessions.failures import cause_of, interrupted

if TYPE_CHECKING:
    import pyarrow as pa

_FIGURE_CHARACTERS_MAX = 1_000
_ANSWER_SECONDS = 10.0
_INTEGER_MAX = 2**63 - 1


class JobReporter:
    """Reports to one hub. Closing it waits briefly for what is not sent yet."""

    def __init__(self, url: str, token: str | None, tell: Callable[[str], None]) -> None:
        self._url, self._token, self._tell = url, token, tell
        self._changed = threading.Condition()
        self._unsent: dict[tuple[str, int | None], ReportJob] = {}
        """The newest report of each run that is not sent yet."""
        self._running: dict[tuple[str, int | None], ReportJob] = {}
        self._ending = False
        self._refused = False
        self._thread = threading.Thread(target=self._send_all, name="restante-job-reports", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(JOB_REPORT_END_SECONDS)

    def planned(self, job: str, *, schedule: str | None, next_at: datetime | None) -> None:
        """A job waits for its turn."""
        self._put(ReportJob(job=job, schedule=schedule, next_at=next_at))

    def begun(self, job: str, *, schedule: str | None = None) -> ReportedRun:
        began_at = datetime.now(UTC)
        run = ReportedRun(self, job, schedule, began_at)
        self._put(ReportJob(job=job, schedule=schedule, run=run.said(JobRunState.RUNNING)))
        return run

    def put_ended(self, run: ReportedRun, report: JobReport, next_at: datetime | None) -> None:
        self._put(ReportJob(job=run.job, schedule=run.schedule, next_at=next_at, run=report))

    # In its thread

    def _put(self, call: ReportJob) -> None:
        key = call.job, None if call.run is None else call.run.run
        with self._changed:
            if self._refused:
                return
            self._unsent[key] = call
            if call.run is not None and call.run.state is JobRunState.RUNNING:
                self._running[key] = call
            else:
                self._running.pop(key, None)
            self._changed.notify_all()

    def _send_all(self) -> None:
        try:
            hub = connect(self._url, token=self._token, timeout=_ANSWER_SECONDS, retries=0)
        except RestanteError as error:
            self._refuse(error)
            return
        with hub:
            while self._wait():
                self._send_what_is_there(hub)
                if self._ending:
                    return

    def _wait(self) -> bool:
        """Wait until there is something to send: new reports, or those of runs that still run. Returns at once if nothing ever will be."""
        with self._changed:
            if not self._unsent and not self._ending:
                self._changed.wait(JOB_REPORT_SECONDS)
            if not self._unsent and not self._ending:
                self._unsent.update(self._running)
            return not self._refused

    def _send_what_is_there(self, hub: Hub) -> None:
        with self._changed:
            calls = list(self._unsent.items())
        for key, call in calls:
            try:
                hub.link.call(call)
            except RestanteError as error:
                if not error.retriable:
                    self._refuse(error)
                else:
                    self._pause()
                return
            with self._changed:
                if self._unsent.get(key) is call:
                    del self._unsent[key]

    def _pause(self) -> None:
        """The hub cannot be reached: try again later, unless the end comes first."""
        with self._changed:
            if not self._ending:
                self._changed.wait(JOB_REPORT_SECONDS)

    def _refuse(self, error: RestanteError) -> None:
        with self._changed:
            self._refused = True
            self._unsent.clear()
            self._running.clear()
        self._tell(f"The hub takes no reports of runs, so its console will not show them: {error.message}")


class ReportedRun:
    """One run that is reported."""

    def __init__(self, reporter: JobReporter, job: str, schedule: str | None, began_at: datetime) -> None:
        self._reporter = reporter
        self.job, self.schedule, self.began_at = job, schedule, began_at
        self.number = int(began_at.timestamp() * 1_000_000)

    def said(self, state: JobRunState, *, outcome: Outcome | None = None, text: str | None = None) -> JobReport:
        return JobReport(
            run=self.number,
            state=state,
            began_at=self.began_at,
            ended_at=None if state is JobRunState.RUNNING else max(self.began_at, datetime.now(UTC)),
            figures={} if outcome is None else _figures(outcome.figures),
            text=None if text is None else text[:JOB_TEXT_CHARACTERS_MAX],
            table=None if outcome is None or outcome.table is None else table_of_run(outcome.table, outcome.title),
        )

    def done(self, outcome: Outcome, *, next_at: datetime | None = None) -> None:
        self._reporter.put_ended(self, self.said(JobRunState.DONE, outcome=outcome), next_at)

    def failed(self, error: BaseException, *, next_at: datetime | None = None) -> None:
        """Note that a run raised this. An interrupt counts as stopped, not as failed."""
        if isinstance(error, KeyboardInterrupt | SystemExit) or interrupted(error):
            self.stopped()
            return
        cause = cause_of(error)
        self._reporter.put_ended(self, self.said(JobRunState.FAILED, text=f"{cause.code}: {cause.message}"), next_at)

    def stopped(self) -> None:
        self._reporter.put_ended(self, self.said(JobRunState.STOPPED), None)


def run_reported(reporter: JobReporter, job: str, run: Callable[[], Outcome]) -> Outcome:
    """Run a job once, and report it."""
    reported = reporter.begun(job)
    try:
        outcome = run()
    except BaseException as error:
        reported.failed(error)
        raise
    reported.done(outcome)
    return outcome


def _figures(given: Mapping[str, object]) -> dict[str, RunFigure]:
    return {name: _cell(value) for name, value in list(given.items())[:JOB_FIGURES_MAX]}


def table_of_run(table: pa.Table, title: str | None) -> RunTable | None:
    """The first rows and columns, as much as a report may hold."""
    columns = table.column_names[:JOB_TABLE_COLUMNS_MAX]
    if not columns:
        return None
    rows: list[tuple[RunFigure, ...]] = []
    left = JOB_TABLE_BYTES_TARGET
    for row in table.select(columns).slice(0, JOB_TABLE_ROWS_MAX).to_pylist():
        cells = tuple(_cell(row[name]) for name in columns)
        left -= len(msgspec.json.encode(cells))
        if left < 0:
            break
        rows.append(cells)
    named = None if title is None else title[:JOB_TITLE_CHARACTERS_MAX]
    return RunTable(columns=tuple(columns), rows=tuple(rows), rows_in_all=table.num_rows, title=named)


def _cell(value: object) -> RunFigure:
    """A value as JSON has it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= _INTEGER_MAX else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text[:_FIGURE_CHARACTERS_MAX]
