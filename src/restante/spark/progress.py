"""A progress bar over what Spark is doing, on the terminal; nothing where there is none."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from restante.limits import SPARK_LOOK_SECONDS, SPARK_STAGES_SHOWN_MAX

_REFRESHES_PER_SECOND = 5


class Stage(NamedTuple):
    """A stage that runs."""

    number: int
    name: str
    done: int
    tasks: int


@contextmanager
def stages(spark: SparkSession, title: str, *, console: Console | None = None, each: bool = True) -> Iterator[None]:
    """Shows a bar while the inside is at work, over the stages of all threads; below it a bar for `each` of them."""
    shown = console or Console(file=sys.stderr)
    if not shown.is_terminal:
        yield
        return
    ended = threading.Event()
    with _bars(shown, transient=not each) as progress:
        bars = Bars(progress, title, SPARK_STAGES_SHOWN_MAX if each else 0)
        watcher = threading.Thread(
            target=_watch, args=(spark.sparkContext, bars, ended), name="restante-stages", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


class Bars:
    """One bar for the whole, over all the tasks seen so far, and one for each stage that runs."""

    def __init__(self, progress: Progress, title: str, stages_max: int = SPARK_STAGES_SHOWN_MAX) -> None:
        self._progress, self._stages_max = progress, stages_max
        self._whole = progress.add_task(title, total=None)
        self._bars: dict[int, TaskID] = {}
        self._seen: dict[int, Stage] = {}

    def show(self, running: Iterable[Stage]) -> None:
        """A stage that runs no more has done all its tasks."""
        now = {stage.number: stage for stage in running}
        for number in self._bars.keys() - now.keys():
            self._progress.remove_task(self._bars.pop(number))
        for number in self._seen.keys() - now.keys():
            self._seen[number] = self._seen[number]._replace(done=self._seen[number].tasks)
        self._seen.update(now)
        for stage in sorted(now.values())[: self._stages_max]:
            if stage.number not in self._bars:
                self._bars[stage.number] = self._progress.add_task(f"  {stage.name}", total=stage.tasks)
            self._progress.update(self._bars[stage.number], completed=stage.done)
        self._sum()

    def end(self) -> None:
        self.show(())
        if not self._seen:
            self._progress.update(self._whole, total=1, completed=1)

    def _sum(self) -> None:
        if self._seen:
            done, tasks = (
                sum(counts) for counts in zip(*((s.done, s.tasks) for s in self._seen.values()), strict=True)
            )
            self._progress.update(self._whole, total=tasks, completed=done)


def _bars(console: Console, *, transient: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, refresh_per_second=_REFRESHES_PER_SECOND, transient=transient)


def _watch(context: SparkContext, bars: Bars, ended: threading.Event) -> None:
    """Watch Spark until the end. If Spark is gone by then, or does not answer, only the bar suffers."""
    try:
        while not ended.wait(SPARK_LOOK_SECONDS):
            bars.show(_running(context))
    except Exception:  # noqa: BLE001  # whatever py4j raises when its Java is gone
        ended.wait()
    bars.end()


def _running(context: SparkContext) -> list[Stage]:
    tracker = context.statusTracker()
    found = ((number, tracker.getStageInfo(number)) for number in tracker.getActiveStageIds())
    return [
        Stage(number, _short(stage.name), stage.numCompletedTasks, stage.numTasks)
        for number, stage in found
        if stage is not None
    ]


def _short(name: str) -> str:
    """The short name of a Spark job: `collect` for `collect at /a/long/path/x.py:12`. Jobs that Spark runs aside have no name."""
    called = name.partition(" at ")[0]
    return "aside" if called.startswith("$") else called
