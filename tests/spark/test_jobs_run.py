"""`restante jobs run` and `serve` with a real session: outcomes, failures, signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.spark import jobs
from tests.cli.places import run
from tests.cli.test_command_line import PLAIN
from tests.spark.job_samples import with_samples
from tests.spark.small_spark import SMALL_JAVA

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def sample_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "__path__", with_samples())


def test_a_job_tells_what_it_is_about_and_what_it_has_done(spark: SparkSession, tables: str) -> None:
    result = run("jobs", "run", "counting", "--set", "to=25", "--hub", "http://127.0.0.1:1", "--tables", tables)
    assert result.exit_code == 0, result.output
    assert result.stderr == "Counting to 25.\n"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["counted", "25"] in lines
    assert ["hub", "http://127.0.0.1:1"] in lines
    assert ["The", "numbers"] in lines
    assert ["and", "5", "rows", "more"] in lines


def test_the_outcome_as_json_has_every_row(spark: SparkSession, tables: str) -> None:
    result = run("jobs", "run", "counting", "--set", "to=25", "--json", "--tables", tables)
    answer = json.loads(result.stdout)
    assert answer["job"] == "counting"
    assert answer["figures"]["counted"] == 25
    assert answer["title"] == "The numbers"
    assert [row["number"] for row in answer["table"]] == list(range(25))


def test_a_session_that_was_there_before_goes_on(spark: SparkSession, tables: str) -> None:
    assert run("jobs", "run", "counting", "--tables", tables).exit_code == 0
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("ends", "told"), [("refused", "Not today."), ("in a task", "A task says no.")], ids=["here", "in a task"]
)
def test_a_job_that_fails_is_one_line_with_its_code(spark: SparkSession, tables: str, ends: str, told: str) -> None:
    result = run("jobs", "run", "counting", "--set", f"ends={ends}", "--tables", tables)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"error invalid_operation: {told}"
    assert result.stdout == ""


def test_a_defect_of_a_job_is_not_hidden(spark: SparkSession, tables: str) -> None:
    result = run("jobs", "run", "counting", "--set", "ends=in the driver", "--tables", tables)
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command line with the sample jobs, in a process of its own with a session of its own."""
    command = [sys.executable, "-m", "tests.spark.job_samples", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PLAIN, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("own_java")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_stream_ends_in_good_order_when_it_is_interrupted(tables: str, number: signal.Signals) -> None:
    small = ("--spark", "spark.master=local[1]", "--spark", f"spark.driver.extraJavaOptions={SMALL_JAVA}")
    with program("jobs", "run", "ticking", "--tables", tables, "--json", *small) as process:
        assert process.stderr is not None
        while "It ticks." not in (line := process.stderr.readline()):
            assert line, "it ended by itself"
        process.send_signal(number)
        shown, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert json.loads(shown)["figures"] == {"ticked": "until it was stopped"}


@pytest.mark.usefixtures("own_java")
def test_jobs_are_served_until_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(
        f"tables = '{tmp_path / 'tables'}'\nspark.master = 'local[1]'\nspark.driver.extraJavaOptions = '{SMALL_JAVA}'\n"
        "[[job]]\nname = 'counting'\nevery = '1 second'\noptions.to = 7\n"
        "[[job]]\nname = 'ticking'\nalways = true\n"
    )
    events: list[dict[str, Any]] = []
    with program("jobs", "serve", str(path), "--json") as process:
        assert process.stdout is not None
        while sum(event["event"] == "done" for event in events) < 2 or "ticking" not in {one["job"] for one in events}:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            events.append(json.loads(line))
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors == ""
    events += map(json.loads, rest.splitlines())
    assert [event["figures"]["counted"] for event in events if "counted" in event.get("figures", {})][:2] == [7, 7]
    assert [event["figures"] for event in events if event["job"] == "ticking" and event["event"] == "done"] == [
        {"ticked": "until it was stopped"}
    ]
