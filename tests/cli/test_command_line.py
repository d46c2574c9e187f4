"""The command line as a whole: help, version, exit codes, errors on one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from restante import __version__
from restante.cli import app

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
CONSOLE_SCRIPT = Path(sys.executable).parent / "restante"
PLAIN = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "GITHUB_ACTIONS")}


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def restante(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "restante.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=PLAIN, check=False)


@pytest.mark.parametrize("command", [[], ["tour"], ["doctor"]])
def test_help_teaches_by_example_and_tells_the_exit_codes(runner: CliRunner, command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "restante tour" in result.output or "restante doctor ./data" in result.output
    assert "Exit codes: 0 all is well" in " ".join(result.output.split())


def test_the_version_is_told(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"restante {__version__}\n"


@pytest.mark.parametrize("arguments", [["no-such-command"], ["tour", "--messages", "0"], ["doctor"]])
def test_a_command_that_is_not_understood_exits_with_2(runner: CliRunner, arguments: list[str]) -> None:
    assert runner.invoke(app, arguments).exit_code == 2


def test_an_error_is_one_line_with_its_code(tmp_path: Path) -> None:
    result = restante("doctor", str(tmp_path))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error invalid_request: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_the_tour_runs_as_a_program_without_control_characters(tmp_path: Path) -> None:
    result = restante("tour", "--messages", "500", "--recipients", "7", "--data", str(tmp_path / "data"))
    assert result.returncode == 0, result.stderr
    assert "Every message arrived exactly once and in order" in result.stdout
    assert not CONTROL.search(result.stdout)
    assert result.stderr == ""


def test_the_console_script_is_the_same_program() -> None:
    if not CONSOLE_SCRIPT.exists():
        pytest.skip("the package is not installed in this environment")
    result = subprocess.run([CONSOLE_SCRIPT, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == f"restante {__version__}\n"
