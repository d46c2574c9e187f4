"""`restante tour`: a hub started here, and a sample night played against it over HTTP."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import WRONG
from restante.cli.shared.output import output, progress_bar
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.samples.night_steps import Advance, NightResult, Watch
    from restante.server.serve import ServedHub

_MESSAGES_MAX = 100_000_000
_RECIPIENTS_MAX = 1_000_000
_READINGS_MAX = 1_000_000_000
_READINGS = 1_000_000
_MESSAGES = 100_000
_PORT = 8470
_MOMENT_SECONDS = 0.5


def tour(
    readings: Annotated[
        int | None,
        typer.Option(min=1, max=_READINGS_MAX, help="How many meter readings Spark settles. Default: 1,000,000."),
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(min=1, max=_MESSAGES_MAX, help="Without Spark: how many messages. Default: 100,000."),
    ] = None,
    recipients: Annotated[int, typer.Option(min=1, max=_RECIPIENTS_MAX, help="For how many recipients.")] = 1_000,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="The data folder. Default: ./data; with --once, a temporary folder that is removed at the end.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Where the hub listens. Default: 8470, or a free one if that is taken."),
    ] = None,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Plain messages instead, as if Spark were not installed.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="End after the night.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Start a hub and play a sample night against it: a settlement is computed, delivered, collected, and reported.

    Spark computes it, delivers it at one moment, fills tables from the hub's feed, and makes the report. Without Spark,
    plain messages are published, filed, collected and confirmed. Everything goes over HTTP and is durable, as in
    earnest; the times are those of this machine. Afterwards the hub stays up, so that you can look around, until Ctrl-C.

    \b
    restante tour           on ./data, until Ctrl-C
    restante tour --once    in a temporary folder, and ends by itself
    restante tour --readings 10000000
    restante tour --no-spark --messages 1000000 --recipients 50000
    """
    with_spark = _with_spark(wanted=not no_spark, readings=readings, messages=messages)
    with _folder(data, once=once) as folder, _hub_on(folder, port=0 if once and port is None else port) as running:
        night: NightResult
        if with_spark:
            night = _played_by_spark(running.url, readings or _READINGS, recipients, folder)
        else:
            night = _played(running.url, messages or _MESSAGES, recipients)
        up = not once and not night.wrong
        with _until_interrupted():
            _show(night, running.url, folder, kept=not once or data is not None, up=up, as_json=as_json)
            while up:
                # Not for long: a signal that comes just before a sleep is heard only after it.
                time.sleep(_MOMENT_SECONDS)
    raise typer.Exit(WRONG if night.wrong else 0)


def _with_spark(*, wanted: bool, readings: int | None, messages: int | None) -> bool:
    """Whether Spark plays the night. If it could and is not there, a line says what to install."""
    if not wanted and readings is not None:
        raise typer.BadParameter("It is for the night with Spark: leave --no-spark out.", param_hint="--readings")
    if not wanted:
        return False
    from restante.cli.jobs.jobs_spark import require_spark
    from restante.errors import ExtraMissing

    try:
        require_spark()
    except ExtraMissing:
        if readings is not None:
            raise
        say("Without Spark. To have it compute the night: pip install 'restante[spark]'", file=sys.stderr)
        return False
    if messages is not None:
        raise typer.BadParameter("It is for the night without Spark: give --no-spark too.", param_hint="--messages")
    return True


@contextmanager
def _folder(data: Path | None, *, once: bool) -> Iterator[Path]:
    if data is None and once:
        with tempfile.TemporaryDirectory(prefix="restante-tour-") as temporary:
            yield Path(temporary)
        return
    folder = data or Path("data")
    if folder.exists() and any(folder.iterdir()) and not (folder / "restante.db").exists():
        raise typer.BadParameter(f"{folder} holds something else. Name another folder.", param_hint="--data")
    yield folder


@contextmanager
def _hub_on(folder: Path, *, port: int | None) -> Iterator[ServedHub]:
    from restante.cli.shared.hub_options import settings_here
    from restante.errors import ExtraMissing, InvalidRequest

    try:
        from restante.server.serve import start
    except ImportError as error:
        raise ExtraMissing(f"The tour needs the server ({error}): pip install 'restante[server]'.") from error
    settings = settings_here()
    try:
        running = start(folder, settings, port=_PORT if port is None else port)
    except InvalidRequest:
        if port is not None:
            raise
        running = start(folder, settings, port=0)
    with running:
        yield running


def _played(url: str, messages: int, recipients: int) -> NightResult:
    import restante
    from restante.samples.sample_night import SampleMail, play

    with _bars() as watch, restante.connect(url, token=_token()) as hub:
        return play(hub, SampleMail(messages, recipients), watch, _tell_people)


def _played_by_spark(url: str, readings: int, actors: int, folder: Path) -> NightResult:
    import restante
    from restante.cli.jobs.jobs_run import tell_beside
    from restante.cli.jobs.jobs_spark import spark_session
    from restante.samples.spark_night import Shows, SparkNightPlan, play
    from restante.spark.jobs.work import Work
    from restante.spark.progress import stages
    from restante.spark.sessions.failures import cause_of, interrupted, of_spark

    tables = str((folder / "tables").absolute())
    tell_beside("Spark starts. The first time it fetches what it needs, which takes longer.")
    with spark_session({}) as spark, restante.connect(url, token=_token()) as hub:
        work = Work(spark=spark, url=url, token=_token(), tables=tables, tell=tell_beside)
        shows = Shows(lambda title: stages(spark, title), _bars, _tell_people)
        try:
            return play(hub, work, SparkNightPlan.of(readings=readings, actors=actors), shows)
        except Exception as error:
            if interrupted(error):
                raise KeyboardInterrupt from error
            if of_spark(error):
                raise cause_of(error) from error
            raise


def _tell_people(text: str) -> None:
    """Beside the answer, where somebody looks on."""
    from restante.cli.jobs.jobs_run import tell_beside

    if sys.stderr.isatty():
        tell_beside(text)


def _token() -> str | None:
    return os.environ.get("RESTANTE_TOKEN")


@contextmanager
def _bars() -> Iterator[Watch]:
    """Bars for the steps of a night, gone when they are done."""
    with progress_bar() as bar:

        @contextmanager
        def watch(name: str, total: int) -> Iterator[Advance]:
            task = bar.add_task(f"{name:<24}", total=total, note="")
            yield lambda done: bar.advance(task, done)

        yield watch


def _show(night: NightResult, url: str, folder: Path, *, kept: bool, up: bool, as_json: bool) -> None:
    from restante.cli.serving import tour_summary

    stored = tour_summary.StoredOnDisk.in_folder(folder, kept=kept)
    if as_json:
        tour_summary.print_as_json(night, url, stored)
        return
    console = output()
    tour_summary.print_night(console, night, stored)
    if up:
        tour_summary.print_addresses(console, url, folder)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside, and nothing else."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
