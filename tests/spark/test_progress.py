"""The progress bar over Spark's stages."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from restante.spark.progress import Bars, Stage, stages


def test_without_a_terminal_nothing_is_written(spark: SparkSession) -> None:
    written = io.StringIO()
    threads = threading.active_count()
    with stages(spark, "counting", console=Console(file=written)):
        assert threading.active_count() == threads
        assert spark.range(10).count() == 10
    assert written.getvalue() == ""


def test_on_a_terminal_the_stage_that_runs_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    shown = threading.Event()
    gate = tmp_path / "gate"

    class Screen(io.StringIO):
        """Opens the gate for the tasks once a stage of theirs is on the screen."""

        def write(self, text: str) -> int:
            if "0/2" in text and not shown.is_set():
                shown.set()
                gate.touch()
            return super().write(text)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        turns = threading.Event()
        while not gate.exists():
            turns.wait(0.02)
        yield from batches

    screen = Screen()
    with stages(spark, "the night", console=Console(file=screen, force_terminal=True, width=100)):
        rows = spark.range(0, 10, 1, 2).mapInArrow(held, "id long").collect()
    assert len(rows) == 10
    assert shown.is_set()
    assert "the night" in screen.getvalue()
    assert not [thread for thread in threading.enumerate() if thread.name == "spark stages"]


def test_a_stage_that_has_ended_counts_as_done() -> None:
    progress = Progress(console=Console(file=io.StringIO()))
    bars = Bars(progress, "all")
    bars.show([Stage(1, "scan", 1, 4), Stage(2, "join", 0, 6)])
    assert [(task.description, task.completed, task.total) for task in progress.tasks] == [
        ("all", 1, 10),
        ("  scan", 1, 4),
        ("  join", 0, 6),
    ]
    bars.show([Stage(2, "join", 3, 6)])
    assert [(task.description, task.completed, task.total) for task in progress.tasks] == [
        ("all", 7, 10),
        ("  join", 3, 6),
    ]
    bars.end()
    assert [(task.completed, task.total) for task in progress.tasks] == [(10, 10)]
