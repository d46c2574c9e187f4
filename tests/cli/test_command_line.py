"""The command line as a whole: help, version, exit codes, errors on one line."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from restante import __version__
from restante import open as open_hub
from restante.cli import app
from restante.model.publishing.message import Message, State

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
CONSOLE_SCRIPT = Path(sys.executable).parent / "restante"
PLAIN = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "GITHUB_ACTIONS")}


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


ONE_PROCESS = pytest.mark.xdist_group("help")
"""Each page of help is made there once for all tests that look at it."""


@cache
def help_of(command: tuple[str, ...], columns: int) -> str:
    told = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": str(columns), "TERMINAL_WIDTH": None})
    assert told.exit_code == 0
    return told.output


def restante(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "restante.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=PLAIN, check=False)


def commands_of(group: typer.Typer, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, as it is called."""
    yield path
    for command in group.registered_commands:
        yield (*path, str(command.name))
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from commands_of(below.typer_instance, (*path, str(below.name)))


@ONE_PROCESS
@pytest.mark.parametrize("command", list(commands_of(app, ())), ids=lambda path: " ".join(("restante", *path)))
def test_help_teaches_by_example_and_tells_the_exit_codes(command: tuple[str, ...]) -> None:
    output = help_of(command, 80)
    usage, _, rest = output.partition("Usage:")[2].partition("\n")
    assert "restante" in usage
    assert "{" not in usage
    assert " ".join(("restante", *command)) in " ".join(rest.split())
    shown = " ".join(output.split())
    assert "Exit codes: 0 all is well" in shown
    assert "130 Ctrl-C ended it." in shown


@ONE_PROCESS
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", list(commands_of(app, ())), ids=lambda path: " ".join(("restante", *path)))
def test_examples_stay_whole_and_no_type_of_python_is_shown(command: tuple[str, ...], columns: int) -> None:
    shown = help_of(command, columns)
    lines = [line.strip() for line in shown.splitlines()]
    examples = examples_of(command)
    assert examples
    for example in examples:
        assert example in lines
    assert not re.search(r"<(bool|str|int|float|path|list|datetime)", shown)


@ONE_PROCESS
@pytest.mark.parametrize("command", list(commands_of(app, ())), ids=lambda path: " ".join(("restante", *path)))
def test_brackets_in_help_are_shown(command: tuple[str, ...]) -> None:
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    written = " ".join([str(documented(command)), *(str(parameter.help) for parameter in found.params)])
    shown = " ".join(help_of(command, 120).split())
    for word in re.findall(r"\S*\[\S*", written):
        assert word in shown
    assert "\\[" not in shown


def test_what_jobs_need_can_be_copied_from_their_help(runner: CliRunner) -> None:
    assert "pip install 'restante[spark]'" in " ".join(runner.invoke(app, ["jobs", "--help"]).output.split())


def examples_of(command: tuple[str, ...]) -> list[str]:
    """The lines below each mark in the text of a command."""
    paragraphs = inspect.cleandoc(documented(command)).split("\n\n")
    marked = [text.split("\n")[1:] for text in paragraphs if text.startswith("\b")]
    return [line for lines in marked for line in lines]


def documented(command: tuple[str, ...]) -> str:
    """The text of a command as it is written."""
    group: typer.Typer = app
    callback: object = app.registered_callback and app.registered_callback.callback
    for name in command:
        for below in group.registered_groups:
            if below.name == name and below.typer_instance is not None:
                group = below.typer_instance
                callback = group.registered_callback and group.registered_callback.callback
        for one in group.registered_commands:
            if one.name == name:
                callback = one.callback
    return str(callback.__doc__)


@ONE_PROCESS
@pytest.mark.parametrize("command", list(commands_of(app, ()))[1:], ids=" ".join)
def test_the_reference_has_every_command_and_option(command: tuple[str, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    heading = f"## `restante {command[0]}`\n"
    shared = page.partition("## Exit codes and common options\n")[2].partition("\n## ")[0]
    section = page.partition(heading)[2].partition("\n## ")[0]
    assert f"`restante {' '.join(command)}" in section + heading
    shown = help_of(command, 120)
    options = set(re.findall(r"^│ (?:\* )? *(--[a-z-]+)", shown, re.MULTILINE))
    assert "--help" in options
    for option in options - {"--help"}:
        assert f"`{option}" in section + shared, option


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("collect ada --to mail --format csv", "it must be one of 'jsonl', 'arrow', 'parquet', not 'csv'."),
        ("recipients purge ada --before soon", "it must be a time such as 2030-01-31T12:00:00, not 'soon'."),
        ("collect ada --max-messages 0", "it must be at least 1, not '0'."),
        ("serve --port 70000", "it must be at most 65,535, not '70000'."),
        ("collect ada --max-messages x", "it must be a whole number, not 'x'."),
        ("collect ada --wait long", "it must be a number, not 'long'."),
        (
            "tokens create --role king",
            "it must be one of 'publisher', 'recipient', 'reader', 'worker', 'operator', not 'king'.",
        ),
    ],
)
def test_a_value_that_is_not_understood_is_explained_in_our_words(runner: CliRunner, arguments: str, told: str) -> None:
    result = runner.invoke(app, arguments.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered(shell: str) -> None:
    environment = PLAIN | {"_RESTANTE_COMPLETE": f"source_{shell}"}
    result = subprocess.run([CONSOLE_SCRIPT], capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert "restante" in result.stdout
    assert "complet" in result.stdout


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


@pytest.mark.parametrize("command", ["history ada", "health", "explain ada", "groups list"])
@pytest.mark.parametrize("host", ["\x9bx", "a..b", "256.1.1.1"])
def test_an_address_with_a_host_that_cannot_be_one_is_a_line_too(runner: CliRunner, command: str, host: str) -> None:
    result = runner.invoke(app, [*command.split(), "--hub", f"http://{host}:1"])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error invalid_request: The address of the hub cannot be read: ")
    assert result.stderr.count("\n") == 1


def test_an_error_of_the_system_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with open_hub(tmp_path / "data") as hub:
        hub.producer.send(Message(recipient="ada", text="hello"))
    result = restante("collect", "ada", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "file" / "below"))
    assert result.returncode == 1
    assert result.stderr.startswith("error unavailable: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("options", "unbuffered"), [([], ""), (["--json"], "1")])
def test_what_nobody_reads_is_not_confirmed(tmp_path: Path, options: list[str], unbuffered: str) -> None:
    with open_hub(tmp_path / "data") as hub:
        hub.producer.send([Message(recipient="ada", data=b"x" * 1_000) for _ in range(2_000)])
    command = [sys.executable, "-m", "restante.cli", "collect", "ada", "--data", str(tmp_path / "data"), *options]
    environment = PLAIN | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(timeout=60) == 1
    with open_hub(tmp_path / "data") as hub:
        assert len(hub.recipient("ada").history(state=State.WAITING, limit=1_000).messages) == 1_000


def test_the_tour_runs_as_a_program_without_control_characters(tmp_path: Path) -> None:
    options = ("--messages", "500", "--recipients", "7", "--data", str(tmp_path / "data"))
    result = restante("tour", "--once", *options)
    assert result.returncode == 0, result.stderr
    assert "Every message arrived exactly once and in order" in result.stdout
    assert not CONTROL.search(result.stdout)
    assert result.stderr == ""


def test_the_console_script_is_the_same_program() -> None:
    if not CONSOLE_SCRIPT.exists():
        pytest.skip("the package is not installed in this environment")
    result = subprocess.run([CONSOLE_SCRIPT, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == f"restante {__version__}\n"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("peek", "restante collect RECIPIENT --no-confirm"),
        ("publish", "restante send --recipient RECIPIENT --text TEXT"),
    ],
)
def test_a_name_from_elsewhere_is_answered_with_ours(runner: CliRunner, name: str, ours: str) -> None:
    result = runner.invoke(app, [name, "ada"])
    assert result.exit_code == 2
    assert f"There is no command '{name}'. Use: {ours}" in " ".join(result.stderr.replace("│", " ").split())
