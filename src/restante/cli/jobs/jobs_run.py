"""`restante jobs run`: one job, from its beginning to its end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.jobs.jobs_spark import pairs, require_spark, spark_session
from restante.cli.shared.hub_options import DEFAULT_URL, TokenOption
from restante.cli.shared.options import AsJson
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    import msgspec

    from restante.spark.jobs.work import Outcome, Work
    from restante.spark.running.registry import Job

_LOOK_SECONDS = 0.5

JobName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the job, as `restante jobs list` has it.")]
JobHub = Annotated[
    str,
    typer.Option(
        "--hub", "--url", envvar="RESTANTE_HUB", metavar="URL", help="The hub to ask.", rich_help_panel="Which hub"
    ),
]


def run(
    name: JobName,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="An option of the job; may be given again."),
    ] = None,
    tables: Annotated[
        str, typer.Option(metavar="FOLDER", help="The place of the tables: a folder or a URI.")
    ] = "tables",
    spark: Annotated[
        list[str] | None,
        typer.Option("--spark", metavar="KEY=VALUE", help="A setting of Spark, such as spark.master; again for more."),
    ] = None,
    hub: JobHub = DEFAULT_URL,
    token: TokenOption = None,
    as_json: AsJson = False,
) -> None:
    """Run a job and print its result. Bars show the stages of Spark while the job runs.

    Ctrl-C ends a job that follows the feed between two of its steps, and the result is printed. Ctrl-C cancels any
    other job. Every job can be run again.

    \b
    restante jobs run analytical-store
    restante jobs run collection-report --tables ./tables --json
    restante jobs run nightly-run --set readings=100000
    restante jobs run capture --spark spark.driver.memory=4g
    """
    require_spark()
    from restante.cli.jobs.jobs_output import print_outcome
    from restante.spark.jobs.work import Work
    from restante.spark.progress import stages
    from restante.spark.running import registry
    from restante.spark.running.job_reports import JobReporter, run_reported

    job = registry.job(name)
    chosen = job.options_of_text(pairs(options or (), "--set"))
    settings = pairs(spark or (), "--spark")
    with spark_session(settings) as session:
        work = Work(spark=session, url=hub, token=token, tables=tables, tell=tell_beside)
        with JobReporter(hub, token, tell_beside) as reporter, stages(session, name):
            outcome = run_reported(reporter, job.name, lambda: outcome_of(job, work, chosen))
    print_outcome(job.name, outcome, as_json=as_json)


def tell_beside(text: str) -> None:
    """Say the text on standard error: answers go to standard output."""
    say(text, file=sys.stderr, flush=True)


def outcome_of(job: Job, work: Work, options: msgspec.Struct) -> Outcome:
    """The outcome of the job. It has a thread of its own, so that this one can hear signals."""
    thread = _Running(job, work, options)
    with _interruptible():
        thread.start()
        try:
            # Not `join`: interrupted, it takes the thread for ended, whether it is or not.
            while not thread.ended.wait(_LOOK_SECONDS):
                pass
        except KeyboardInterrupt:
            _interrupt(work, thread)
    return thread.result()


def _interrupt(work: Work, thread: _Running) -> None:
    """Streams end in good order. If there are none, the job is cancelled, which is not how it was meant to end."""
    from restante.limits import JOB_FINISH_SECONDS
    from restante.spark.sessions import stop

    if stop.stop_streams(work.spark) and stop.ended(work.spark, [thread], seconds=JOB_FINISH_SECONDS):
        return
    stop.cancel(work.spark)
    stop.ended(work.spark, [thread], seconds=JOB_FINISH_SECONDS)
    raise KeyboardInterrupt


class _Running(threading.Thread):
    """A job under way."""

    def __init__(self, job: Job, work: Work, options: msgspec.Struct) -> None:
        super().__init__(name=f"restante-job-{job.name}", daemon=True)
        self._job, self._work, self._options = job, work, options
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            self._outcome = self._job.run(self._work, self._options)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits for it
            self._error = error
        finally:
            self.ended.set()

    def result(self) -> Outcome:
        from restante.spark.sessions.failures import cause_of, of_spark

        if self._error is not None:
            raise cause_of(self._error) if of_spark(self._error) else self._error
        assert self._outcome is not None, "what has not failed has an outcome"
        return self._outcome


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM are heard here, and not by Spark's own handler, which cancels everything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
