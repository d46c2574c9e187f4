"""Jobs on their schedules, in one Spark session: a thread looks after each, so that no two runs of it overlap.

A failure of a job is logged and reported, and the job runs again at its next time. Jobs of one name wait for one another,
because they share tables and checkpoints. At the end, streams are stopped, and runs under way may finish; those that take too
long are cancelled.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from restante.limits import JOB_FINISH_SECONDS
from restante.spark.jobs.work import Figure, Outcome, Work
from restante.spark.running.job_reports import JobReporter, ReportedRun
from restante.spark.running.registry import Job
from restante.spark.running.schedule import Past, Schedule, next_time, worded_schedule
from restante.spark.sessions import stop as stopping
from restante.spark.sessions.failures import cause_of

_LOOK_SECONDS = 60.0
"""A wait is not longer than that: a clock may be set, and a machine may sleep."""


Happened = Literal["waiting", "started", "told", "done", "failed", "stopped"]


class JobEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a job: what has happened to it."""

    at: datetime
    job: str
    event: Happened
    text: str | None = None
    """The text that it told, or what went wrong."""
    seconds: float | None = None
    """How long the run took."""
    next: datetime | None = None
    """When the job runs again."""
    figures: dict[str, Figure] | None = None


Hear = Callable[[JobEvent], None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ServedJob:
    """A job that is looked after."""

    job: Job
    options: msgspec.Struct
    schedule: Schedule


def serve(
    entries: Sequence[ServedJob],
    work: Work,
    hear: Hear,
    stop: threading.Event,
    reporter: JobReporter | None = None,
) -> None:
    """Look after all of them until `stop` is set, or until one cannot be looked after any more."""
    turns = {entry.job.name: threading.Lock() for entry in entries}
    rounds = [_Round(entry, work, hear, stop, turns[entry.job.name], reporter) for entry in entries]
    for one in rounds:
        one.start()
    stop.wait()
    if not stopping.ended(work.spark, rounds, seconds=JOB_FINISH_SECONDS):
        stopping.cancel(work.spark)
        stopping.ended(work.spark, rounds, seconds=JOB_FINISH_SECONDS)
    for one in rounds:
        if one.broken is not None:
            raise one.broken


class _Round(threading.Thread):
    """Looks after one job."""

    def __init__(
        self,
        entry: ServedJob,
        work: Work,
        hear: Hear,
        stop: threading.Event,
        turn: threading.Lock,
        reporter: JobReporter | None,
    ) -> None:
        super().__init__(name=f"restante-job-{entry.job.name}", daemon=True)
        self._entry, self._hear, self._asked, self._turn = entry, hear, stop, turn
        self._reporter, self._schedule = reporter, worded_schedule(entry.schedule)
        self._work = dataclasses.replace(work, tell=lambda text: self._tell("told", text=text))
        self.broken: BaseException | None = None
        """Why the round gave up: not what went wrong in the job, but around it."""

    def run(self) -> None:
        try:
            self._look_after()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that started it
            self.broken = error
            self._asked.set()

    def _look_after(self) -> None:
        past = Past(since=_now())
        due = next_time(self._entry.schedule, past)
        if due > past.since:
            self._tell("waiting", next=due)
            if self._reporter is not None:
                self._reporter.planned(self._entry.job.name, schedule=self._schedule, next_at=due)
        while self._waited(due):
            with self._turn:
                if self._asked.is_set():
                    return
                past = self._run(past.begun(_now()))
            due = next_time(self._entry.schedule, past)

    def _waited(self, due: datetime) -> bool:
        """Wait until a run is due; gives whether it is, or the end came first."""
        while (left := (due - _now()).total_seconds()) > 0:
            if self._asked.wait(min(left, _LOOK_SECONDS)):
                break
        return not self._asked.is_set()

    def _run(self, past: Past) -> Past:
        self._tell("started")
        started, name = time.monotonic(), self._entry.job.name
        reported = None if self._reporter is None else self._reporter.begun(name, schedule=self._schedule)
        try:
            outcome = self._entry.job.run(self._work, self._entry.options)
        except Exception as error:  # noqa: BLE001  # any error is reported, and the other jobs go on
            return self._failed(past.failed(_now()), error, _seconds(started), reported)
        return self._done(past.done(_now()), outcome, _seconds(started), reported)

    def _done(self, past: Past, outcome: Outcome, seconds: float, reported: ReportedRun | None) -> Past:
        due = self._next(past)
        self._tell("done", figures=outcome.figures, seconds=seconds, next=due)
        if reported is not None:
            reported.done(outcome, next_at=due)
        return past

    def _failed(self, past: Past, error: Exception, seconds: float, reported: ReportedRun | None) -> Past:
        if self._asked.is_set():
            self._tell("stopped", seconds=seconds)
            if reported is not None:
                reported.stopped()
            return past
        cause, due = cause_of(error), self._next(past)
        self._tell("failed", text=f"{cause.code}: {cause.message}", seconds=seconds, next=due)
        if reported is not None:
            reported.failed(error, next_at=due)
        return past

    def _next(self, past: Past) -> datetime | None:
        return None if self._asked.is_set() else max(next_time(self._entry.schedule, past), past.ended or past.since)

    def _tell(self, event: Happened, **said: Any) -> None:  # noqa: ANN401  # the fields of an event
        self._hear(JobEvent(at=_now(), job=self._entry.job.name, event=event, **said))


def _now() -> datetime:
    return datetime.now(UTC)


def _seconds(started: float) -> float:
    return round(time.monotonic() - started, 3)
