"""What is run once more when tests failed in several processes: the same tests, in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.last_failures import ENDED, name_of

ROOT = Path(__file__).parent.parent.parent
CONFTEST = """
import pytest
from tests.last_failures import LastFailures
from tests.work_units import UnitScheduling

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LastFailures(config))

def pytest_xdist_make_scheduler(config, log):
    return UnitScheduling(config, log)
"""
FAILING = """
import os
from pathlib import Path
import pytest

def once(name):
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

@pytest.mark.parametrize("number", range(10))
def test_alone(number):
    if number == 7 and once("died"):
        os._exit(3)
    assert number != 3 or not once("failed")

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("name", ["a@b", "c"])
def test_in_a_group(name):
    assert name != "a@b" or not once("failed in a group")
"""
FAILED = ["test_alone[3]", "test_alone[7]", "test_in_a_group[a@b]"]


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("a/test_b.py::test_c", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c@group", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c[x@y]", "a/test_b.py::test_c[x@y]"),
        ("a/test_b.py::test_c[x@y]@group", "a/test_b.py::test_c[x@y]"),
    ],
    ids=["plain", "of a group", "with a parameter", "both"],
)
def test_the_group_is_no_part_of_a_name(nodeid: str, name: str) -> None:
    assert name_of(nodeid) == name


def run(folder: Path, *options: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for variable in [name for name in environment if name.startswith("PYTEST")]:
        del environment[variable]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "--rootdir", str(folder), *options]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def kept(folder: Path, key: str) -> object:
    return json.loads((folder / ".pytest_cache" / "v" / key).read_text(encoding="utf-8"))


def test_tests_of_groups_and_tests_whose_worker_died_are_run_once_more(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(FAILING, encoding="utf-8")
    told = run(tmp_path, "-n", "1", "--dist", "loadgroup")
    assert "3 failed, 10 passed" in told, told
    assert kept(tmp_path, ENDED) == 1
    assert kept(tmp_path, "cache/lastfailed") == {f"test_it.py::{name}": True for name in FAILED}
    again = run(tmp_path, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")
    assert "3 passed" in again, again
    assert (kept(tmp_path, ENDED), kept(tmp_path, "cache/lastfailed")) == (0, {})


def test_a_run_that_could_not_collect_has_not_run_all(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_it.py").write_text("raise OSError\n", encoding="utf-8")
    run(tmp_path, "-n", "1", "--dist", "loadgroup")
    assert kept(tmp_path, ENDED) == pytest.ExitCode.INTERRUPTED
