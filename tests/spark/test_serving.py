"""Jobs on their schedules, on a real session: what they tell, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from restante.errors import InvalidOperation
from restante.spark.jobs.work import Outcome, Work
from restante.spark.running.job_service import JobEvent, ServedJob, serve
from restante.spark.running.registry import Job
from restante.spark.running.schedule import Always, At, Every, Schedule, parse_schedule
from tests.spark.sample_jobs import counting, ticking

WAIT_SECONDS = 120
SECOND = Every(timedelta(seconds=1))


class Heard:
    """Everything that was told, and a way to wait for something."""

    def __init__(self) -> None:
        self.events: list[JobEvent] = []
        self._news = threading.Condition()

    def __call__(self, event: JobEvent) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def wait_for(self, event: str, *, job: str, times: int = 1) -> list[JobEvent]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.of(job, event)) >= times, WAIT_SECONDS), self.events
            return self.of(job, event)

    def of(self, job: str, event: str) -> list[JobEvent]:
        return [one for one in self.events if (one.job, one.event) == (job, event)]


def entry(run: Callable[[Work, Any], Outcome], schedule: Schedule, *, name: str = "sample") -> ServedJob:
    job = Job(name=name, summary="", kind=counting.Options, run=run)
    return ServedJob(job=job, options=counting.Options(), schedule=schedule)


@contextmanager
def served(spark: SparkSession, tables: str, *entries: ServedJob) -> Iterator[Heard]:
    """In a thread; at the end it is asked to end, and does."""
    heard, stop = Heard(), threading.Event()
    work = Work(spark=spark, tables=tables)
    thread = threading.Thread(target=serve, args=(entries, work, heard, stop))
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_a_job_runs_at_each_of_its_times_and_tells_of_it(spark: SparkSession, tables: str) -> None:
    with served(spark, tables, entry(counting.run, SECOND)) as heard:
        done = heard.wait_for("done", job="sample", times=2)
    starts = [event.at for event in heard.of("sample", "started")]
    assert starts[1] - starts[0] >= timedelta(seconds=1)
    assert done[0].figures is not None
    assert done[0].figures["counted"] == 10
    assert done[0].next == pytest.approx(starts[0] + timedelta(seconds=1), abs=timedelta(seconds=30))
    assert heard.of("sample", "told")[0].text == "Counting to 10."


def test_a_job_that_fails_is_told_and_tried_again_while_others_go_on(spark: SparkSession, tables: str) -> None:
    attempts: list[int] = []

    def fails_at_first(work: Work, options: counting.Options) -> Outcome:
        attempts.append(len(attempts))
        if not attempts[-1]:
            raise InvalidOperation("Not yet.")
        return Outcome(figures={"attempts": len(attempts)})

    entries = entry(fails_at_first, SECOND, name="failing"), entry(counting.run, SECOND, name="counting")
    with served(spark, tables, *entries) as heard:
        done = heard.wait_for("done", job="failing")
        heard.wait_for("done", job="counting", times=2)
    [failed] = heard.of("failing", "failed")
    assert failed.text == "invalid_operation: Not yet."
    assert failed.next is not None
    assert done[0].figures == {"attempts": 2}


def test_runs_of_one_job_never_overlap(spark: SparkSession, tables: str) -> None:
    inside, most = [0], [0]

    def slow(work: Work, options: counting.Options) -> Outcome:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        counting.run(work, options)
        inside[0] -= 1
        return Outcome(figures={})

    with served(spark, tables, entry(slow, SECOND), entry(slow, SECOND), entry(slow, SECOND)) as heard:
        heard.wait_for("done", job="sample", times=6)
    assert most == [1]


def test_a_stream_ends_in_good_order_when_the_end_is_asked_for(spark: SparkSession, tables: str) -> None:
    job = Job(name="ticking", summary="", kind=ticking.Options, run=ticking.run)
    with served(spark, tables, ServedJob(job=job, options=ticking.Options(), schedule=Always())) as heard:
        heard.wait_for("told", job="ticking")
    [done] = heard.of("ticking", "done")
    assert done.figures == {"ticked": "until it was stopped"}
    assert done.next is None
    assert spark.streams.active == []


def test_a_job_whose_time_is_far_off_says_when_and_ends_at_once(spark: SparkSession, tables: str) -> None:
    schedule = parse_schedule(at="02:00", zone="Europe/Copenhagen")
    assert isinstance(schedule, At)
    with served(spark, tables, entry(counting.run, schedule)) as heard:
        [waiting] = heard.wait_for("waiting", job="sample")
    assert waiting.next is not None
    assert waiting.next > waiting.at
    assert heard.of("sample", "started") == []


def test_what_nobody_can_hear_ends_all_of_it(spark: SparkSession, tables: str) -> None:
    def deaf(event: JobEvent) -> None:
        raise BrokenPipeError("nobody reads any more")

    with pytest.raises(BrokenPipeError):
        serve([entry(counting.run, SECOND)], Work(spark=spark, tables=tables), deaf, threading.Event())


def test_events_are_lines_of_json_without_what_is_not_there(spark: SparkSession, tables: str) -> None:
    with served(spark, tables, entry(counting.run, SECOND)) as heard:
        heard.wait_for("done", job="sample")
    started = msgspec.json.decode(msgspec.json.encode(heard.of("sample", "started")[0]))
    assert set(started) == {"at", "job", "event"}
