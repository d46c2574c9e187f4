"""`restante jobs serve`: jobs on their schedules, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.jobs.jobs_run import tell_beside
from restante.cli.shared.hub_options import TokenOption
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, duration

if TYPE_CHECKING:
    from types import FrameType

    from restante.spark.running.job_service import JobEvent


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="The jobs, a TOML file.")],
    hub: Annotated[
        str | None,
        typer.Option(
            "--hub",
            "--url",
            envvar="RESTANTE_HUB",
            metavar="URL",
            help="The hub to ask, if the file names none.",
            rich_help_panel="Which hub",
        ),
    ] = None,
    token: TokenOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Run jobs on their schedules in one Spark session, until Ctrl-C or SIGTERM; the exit code is then 0.

    The command reports each run to the hub: `restante jobs runs` and the console show it.

    A job runs `every` so long, `at` a time of day, or `always`. A job that fails is logged, and runs again at its
    next time. Runs of one job never overlap. Missed times are not made up for one by one.

    \b
    restante jobs serve jobs.toml
    restante jobs serve jobs.toml --check
    restante jobs serve jobs.toml --json >> jobs.log

    The file has `url`, `tables` and, for each job, a table with its `name`, its `options`, and when it runs:

    \b
    name = "analytical-store"
    always = true
    options = { trigger = "30 seconds" }
    """
    from restante.cli.jobs.jobs_spark import require_spark, spark_session

    require_spark()
    from restante.cli.jobs.jobs_file import entries_of, read_jobs_file
    from restante.spark.jobs.work import Work
    from restante.spark.running import job_service
    from restante.spark.running.job_reports import JobReporter

    found = read_jobs_file(file)
    entries = entries_of(file, found)
    show = _Lines(as_json=as_json)
    if check:
        say(f"{file} is sound: {', '.join(entry.job.name for entry in entries)}.")
        return
    url = found.hub(hub)
    with (
        spark_session(found.settings()) as session,
        _asked_to_end() as stop,
        JobReporter(url, token, tell_beside) as reporter,
    ):
        work = Work(spark=session, url=url, token=token, tables=found.tables)
        job_service.serve(entries, work, show.hear, stop, reporter)


class _Lines:
    """A line for each event, whole, whatever thread it comes from."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._guard = threading.Lock()

    def hear(self, event: JobEvent) -> None:
        import msgspec

        line = msgspec.json.encode(event).decode() if self._as_json else _worded(event)
        with self._guard:
            say(line, flush=True)


def _worded(event: JobEvent) -> str:
    from restante.cli.jobs.jobs_output import shown, worded

    figures = ", ".join(f"{worded(name)} {shown(value)}" for name, value in (event.figures or {}).items())
    parts = [
        "" if event.event == "told" else event.event,
        "" if event.seconds is None else f"after {duration(event.seconds)}",
    ]
    said = " ".join(filter(None, parts))
    told = ": ".join(filter(None, [said, event.text or figures]))
    again = "" if event.next is None else f"; next at {clock_time(event.next)}"
    return f"{clock_time(event.at)}  {event.job}  {told}{again}".replace("\n", " ")


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets. The second Ctrl-C ends the process at once."""
    stop = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, hear) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
