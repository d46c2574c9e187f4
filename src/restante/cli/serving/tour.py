"""`restante tour`: a hub started here, and a sample night played against it over HTTP."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import WRONG
from restante.cli.shared.output import output, progress_bar

if TYPE_CHECKING:
    from restante.samples.night_steps import Advance, NightResult, WatchStep

_MESSAGES_MAX = 100_000_000
_RECIPIENTS_MAX = 1_000_000
_READINGS_MAX = 1_000_000_000
_READINGS = 100_000
_MESSAGES = 100_000
_RECIPIENTS = 1_000
_ACTORS = 100
_PORT = 8470
_MOMENT_SECONDS = 0.5
_QUICK_SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
"""A night is over before it pays to compile much."""


def tour(
    messages: Annotated[
        int | None, typer.Option(min=1, max=_MESSAGES_MAX, help="How many messages. Default: 100,000.")
    ] = None,
    recipients: Annotated[
        int | None,
        typer.Option(min=1, max=_RECIPIENTS_MAX, help="How many recipients. Default: 1,000; with --spark 100."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Play the night that Spark computes. Needs the extra spark.")
    ] = False,
    readings: Annotated[
        int | None,
        typer.Option(min=1, max=_READINGS_MAX, help="With --spark: how many meter readings. Default: 100,000."),
    ] = None,
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
        typer.Option(min=0, max=65_535, help="The port of the hub. Default: 8470, or a free port if 8470 is taken."),
    ] = None,
    *,
    shards: Annotated[
        int, typer.Option(min=1, metavar="N", help="Play it on a hub of so many processes that have the messages.")
    ] = 1,
    doors: Annotated[int, typer.Option(min=1, metavar="N", help="With --shards: processes that speak HTTP.")] = 1,
    once: Annotated[bool, typer.Option("--once", help="End after the tour; do not keep the hub running.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Start a hub and play a sample night against it: publish, collect, find out who is late and why.

    100,000 messages go to 1,000 recipients, over HTTP and onto the disk. Three recipients are connected and show their
    messages live. Three others do not collect: the batch names them, explain says why, and the batch completes when the
    last one comes. Then a worker does 500 actions, and is replaced meanwhile. It takes a few seconds. Then the hub stays
    up until Ctrl-C, so that you can look around.

    With --spark the night is computed: Spark settles meter readings, delivers the documents at one moment, fills
    tables from the change feed, and reports who collected when.

    \b
    restante tour            on ./data, until Ctrl-C
    restante tour --once     in a temporary folder; the tour ends by itself
    restante tour --spark    a night computed by Spark
    restante tour --shards 4 --doors 2    the same on several cores
    restante tour --messages 1000000 --recipients 50000
    """
    _check(spark=spark, readings=readings, messages=messages)
    place = 0 if once and port is None else port
    with _folder(data, once=once) as folder, _hub_on(folder, place, shards, doors) as (url, has_console):
        if not once and has_console:
            _tell_people(f"Watch it in a browser: {url}/console")
        night: NightResult
        if spark:
            night = _played_by_spark(url, readings or _READINGS, recipients or _ACTORS, folder)
        else:
            night = _played(url, messages or _MESSAGES, recipients or _RECIPIENTS)
        up = not once and not night.wrong
        with _until_interrupted():
            _show(night, url, folder, kept=not once or data is not None, as_json=as_json)
            _show_addresses(url, folder, has_console=has_console, wanted=up and not as_json)
            while up:
                # Not for long: a signal that comes just before a sleep is heard only after it.
                time.sleep(_MOMENT_SECONDS)
    raise typer.Exit(WRONG if night.wrong else 0)


def _check(*, spark: bool, readings: int | None, messages: int | None) -> None:
    """Options of the other night are a mistake, and Spark must be there before anything else begins."""
    if not spark and readings is not None:
        raise typer.BadParameter("Only Spark settles readings: add --spark.", param_hint="--readings")
    if spark and messages is not None:
        raise typer.BadParameter("The Spark night makes its own messages: give --readings.", param_hint="--messages")
    if spark:
        from restante.cli.jobs.jobs_spark import require_spark

        require_spark()


@contextmanager
def _folder(data: Path | None, *, once: bool) -> Iterator[Path]:
    if data is None and once:
        with tempfile.TemporaryDirectory(prefix="restante-tour-") as temporary:
            yield Path(temporary)
        return
    folder = data or Path("data")
    known = ("restante.db", "shards.json")
    if folder.exists() and any(folder.iterdir()) and not any((folder / name).exists() for name in known):
        raise typer.BadParameter(
            f"{folder} is not a data folder of Restante, and is not empty. Name another folder.", param_hint="--data"
        )
    yield folder


@contextmanager
def _hub_on(folder: Path, port: int | None, shards: int, doors: int) -> Iterator[tuple[str, bool]]:
    """The address of a hub, and whether it has a console."""
    if shards > 1:
        from restante.cli.serving.tour_processes import served

        with served(folder, port, shards, doors) as told:
            yield told
        return
    from restante.cli.serving.console import mount_console
    from restante.cli.shared.hub_options import settings_here
    from restante.errors import ExtraMissing, InvalidRequest

    try:
        from restante.server.serve import start
    except ImportError as error:
        raise ExtraMissing(f"The tour needs the server ({error}): pip install 'restante[server]'.") from error
    settings = settings_here()
    try:
        running = start(folder, settings, port=_PORT if port is None else port, prepare=mount_console)
    except InvalidRequest:
        if port is not None:
            raise
        running = start(folder, settings, port=0, prepare=mount_console)
    with running:
        yield running.url, settings.server.console


def _played(url: str, messages: int, recipients: int) -> NightResult:
    import restante
    from restante.samples.night_workers import act
    from restante.samples.sample_night import SampleMail, play
    from restante.work.worker_process import WorkerPlace

    post = SampleMail(messages, recipients)
    with _bars() as watch, restante.connect(url, token=_token()) as hub:
        night = play(hub, post, watch, _tell_people)
        act(hub, WorkerPlace(hub=url, token=_token()), post.name, night, watch)
        return night


def _played_by_spark(url: str, readings: int, actors: int, folder: Path) -> NightResult:
    import restante
    from restante.cli.jobs.jobs_spark import spark_session
    from restante.samples.spark_night import STEPS, Shows, SparkNightPlan, play
    from restante.spark.jobs.work import Work
    from restante.spark.progress import stages
    from restante.spark.running.job_reports import JobReporter, run_reported
    from restante.spark.sessions.failures import cause_of, interrupted, of_spark

    tables = str((folder / "tables").absolute())
    _tell_people("Spark starts. The first start takes longer: it fetches 13 MB of Java libraries, once.")
    with (
        spark_session(_QUICK_SPARK) as spark,
        restante.connect(url, token=_token()) as hub,
        JobReporter(url, _token(), _tell_people) as reporter,
    ):
        work = Work(spark=spark, url=url, token=_token(), tables=tables, tell=lambda _: None)
        shows = Shows(
            lambda step: stages(spark, _numbered(step, STEPS), each=False),
            _spark_bars,
            _tell_people,
            partial(run_reported, reporter),
        )
        try:
            return play(hub, work, SparkNightPlan.of(readings=readings, actors=actors), shows)
        except Exception as error:
            if interrupted(error):
                raise KeyboardInterrupt from error
            if of_spark(error):
                raise cause_of(error) from error
            raise


def _numbered(step: str, steps: Sequence[str]) -> str:
    """`2 of 4  collect and confirm`."""
    return f"{steps.index(step) + 1} of {len(steps)}  {step:<24}"


def _tell_people(text: str) -> None:
    """A line on standard error, if that is a terminal."""
    from restante.cli.jobs.jobs_run import tell_beside

    if sys.stderr.isatty():
        tell_beside(text)


def _token() -> str | None:
    return os.environ.get("RESTANTE_TOKEN")


@contextmanager
def _spark_bars() -> Iterator[WatchStep]:
    from restante.samples.spark_night import STEPS

    with _bars(lambda name: _numbered(name, STEPS) if name in STEPS else f"        {name:<24}") as watch:
        yield watch


@contextmanager
def _bars(titled: Callable[[str], str] = "{:<24}".format) -> Iterator[WatchStep]:
    """Bars for the steps of a night, gone when they are done."""
    with progress_bar() as bar:

        @contextmanager
        def watch(name: str, total: int) -> Iterator[Advance]:
            task = bar.add_task(titled(name), total=total, note="")
            yield lambda done: bar.advance(task, done)

        yield watch


def _show(night: NightResult, url: str, folder: Path, *, kept: bool, as_json: bool) -> None:
    from restante.cli.serving import tour_summary
    from restante.samples.night_steps import SettledNight

    stored = tour_summary.StoredOnDisk.in_folder(folder, kept=kept)
    if as_json:
        tour_summary.print_as_json(night, url, stored)
        return
    console = output()
    tour_summary.print_night(console, night, stored)
    if not isinstance(night, SettledNight):
        tour_summary.print_spark_offer(console)


def _show_addresses(url: str, folder: Path, *, has_console: bool, wanted: bool) -> None:
    from restante.cli.serving.tour_summary import print_addresses

    if wanted:
        print_addresses(output(), url, folder, has_console=has_console)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the inside and nothing else."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
