"""`restante jobs` without a session: what there is, what is refused, and what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from restante.limits import JOBS_SERVED_MAX
from restante.spark import jobs
from tests.cli.places import run
from tests.spark.job_samples import with_samples

FILE = """
url = "http://127.0.0.1:1"
tables = "{tables}"
zone = "Europe/Copenhagen"

[spark]
driver.memory = "1g"
"spark.sql.shuffle.partitions" = 2

[[job]]
name = "ticking"
always = true

[[job]]
name = "counting"
every = "2 minutes"
options = {{ to = 20, names = ["a", "b"] }}

[[job]]
name = "counting"
at = "02:00"
"""


@pytest.fixture(autouse=True)
def sample_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "__path__", with_samples())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE.format(tables=tmp_path / "tables"))
    return path


def test_the_jobs_are_listed_with_what_they_do() -> None:
    result = run("jobs", "list")
    assert result.exit_code == 0, result.output
    assert "counting" in result.output
    assert "Count to a number." in result.output
    names = [one["name"] for one in json.loads(run("jobs", "list", "--json").stdout)]
    assert {"analytical-store", "collection-report", "nightly-run", "counting"} <= set(names)


def test_a_job_shows_its_options() -> None:
    result = run("jobs", "show", "counting")
    assert result.exit_code == 0, result.output
    for text in ("Count to a number.", "a whole number of at least 0", "How far.", "10", "--set to=…"):
        assert text in result.output
    shown = json.loads(run("jobs", "show", "counting", "--json").stdout)
    assert [option["name"] for option in shown["options"]] == ["to", "names", "ends"]
    assert shown["options"][0]["default"] == 10


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "cunting"], "There is no job 'cunting'. There are "),
        (["run", "cunting"], "There is no job 'cunting'. There are "),
        (["run", "counting", "--set", "too=1"], "counting: there is no option 'too'. There are to, names, ends."),
        (["run", "counting", "--set", "to=far"], "counting: to must be a whole number of at least 0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_spark_starts(arguments: list[str], told: str) -> None:
    result = run("jobs", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "to"], "it must be name=value, not 'to'."),
        (["--set", "to=1", "--set", "to=2"], "to is given twice."),
        (["--spark", "=4"], "it must be name=value, not '=4'."),
    ],
)
def test_settings_that_are_not_pairs_are_not_understood(arguments: list[str], told: str) -> None:
    result = run("jobs", "run", "counting", *arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.replace("│", " ").split())


def test_a_file_of_jobs_can_be_checked(file: Path) -> None:
    result = run("jobs", "serve", str(file), "--check")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{file} is sound: ticking, counting, counting.\n"


def test_settings_of_spark_may_be_written_in_both_ways(file: Path) -> None:
    from restante.cli.jobs.jobs_file import read_jobs_file

    found = read_jobs_file(file)
    assert found.settings() == {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    assert found.hub("http://elsewhere:1") == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has 0 jobs. Give 1 to 100, each as a [[job]]."),
        ("[[job]]\nname = 'counting'\nalways = true\n" * (JOBS_SERVED_MAX + 1), "has 101 jobs."),
        ("[[job]\n", "is not TOML: "),
        ("speed = 3\n[[job]]", "there is no option 'speed'. There are url, tables, zone, spark, job."),
        ("[[job]]\nname = 'counting'", 'job 1: it needs one of every = "2 minutes"'),
        ("[[job]]\nname = 'nothing'\nalways = true", "job 1: There is no job 'nothing'."),
        ("[[job]]\nname = 'counting'\nevery = 'soon'", "job 1: every must be a time such as 30 seconds"),
        ("[[job]]\nname = 'counting'\nevery = 5", "job 1: every must be a text, not 5."),
        ("[[job]]\nname = 'counting'\nalways = true\noptions.to = '5'", "job 1: counting: to must be a whole number"),
        ("[[job]]\nname = 'counting'\nat = '02:00'\nzone = 'Mars'", "job 1: zone must be a time zone"),
        ("[[job]]\nname = 'counting'\nalways = true\n" * 2, "counting runs always, so it can be there only once."),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    result = run("jobs", "serve", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error invalid_request: {path}")
    assert told in result.stderr


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = run("jobs", "serve", str(tmp_path / "none.toml"))
    assert result.exit_code == 1
    assert "cannot be read (No such file or directory)" in result.stderr


WITHOUT = """
import sys
sys.modules["pyspark"] = None

from importlib.util import find_spec
import importlib.util
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else find_spec(name, package)
from restante.cli import main
main()
"""


def without_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As if Spark were not installed."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "capture"], ["run", "capture"], ["serve", "jobs.toml"]], ids=" ".join
)
def test_without_spark_the_extra_is_named(arguments: list[str]) -> None:
    result = without_spark("jobs", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("error extra_missing: ")
    assert "pip install 'restante[spark]'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_spark_the_tour_plays_the_plain_night(tmp_path: Path) -> None:
    result = without_spark("tour", "--once", "--messages", "50", "--recipients", "5", "--data", str(tmp_path / "data"))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "A sample night: 50 messages for 5 recipients" in result.stdout


def test_without_spark_the_spark_night_names_the_extra_before_anything_begins(tmp_path: Path) -> None:
    result = without_spark("tour", "--once", "--spark", "--data", str(tmp_path / "data"))
    assert result.returncode == 1
    assert result.stderr.startswith("error extra_missing: ")
    assert not (tmp_path / "data").exists()


def test_help_does_not_load_spark() -> None:
    script = (
        "import sys; from restante.cli import app; sys.exit(any(name.startswith('pyspark') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
