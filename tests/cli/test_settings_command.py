"""`restante settings`: what counts and why, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante.cli.settings import app
from restante.settings import ServerSettings

BAD = "[server]\nport = 99999\ncolour = 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("RESTANTE_SETTINGS", "RESTANTE_SERVER__PORT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def row(result: Result, key: str) -> list[str]:
    (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [key]]
    return line.split()[1:]


def test_show_tells_every_setting_and_where_it_came_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "restante.toml").write_text('filing = false\n[server]\nlog = "text"\nport = 1\n')
    monkeypatch.setenv("RESTANTE_SERVER__PORT", "9000")
    result = run("show", "--settings", "restante.toml")
    assert result.exit_code == 0, result.output
    assert row(result, "server.port") == ["9000", "environment", "RESTANTE_SERVER__PORT"]
    assert row(result, "server.log") == ["text", "restante.toml:3"]
    assert row(result, "filing") == ["false", "restante.toml:1"]
    assert row(result, "collected_retention_seconds") == ["2592000", "default"]
    for name in ServerSettings.rules:
        assert len(row(result, f"server.{name}")) >= 2


def test_show_takes_the_file_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "restante.toml").write_text("[server]\nport = 1\n")
    monkeypatch.setenv("RESTANTE_SETTINGS", "restante.toml")
    assert row(run("show"), "server.port") == ["1", "restante.toml:2"]


def test_show_speaks_json(folder: Path) -> None:
    (folder / "restante.toml").write_text('[origins.billing]\ngroup = "money"\n')
    result = run("show", "--settings", "restante.toml", "--json")
    settings = {setting["key"]: setting for setting in json.loads(result.stdout)["settings"]}
    assert settings["origins.billing.group"] == {
        "key": "origins.billing.group",
        "value": "money",
        "source": "restante.toml:2",
    }
    assert settings["origins.billing.content_url"]["value"] is None
    assert settings["server.port"] == {"key": "server.port", "value": 8470, "source": "default"}


def test_show_of_wrong_settings_tells_all_problems_and_fails(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD)
    result = run("show", "--settings", "restante.toml")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == ["restante.toml:2", "restante.toml:3"]


def test_check_passes_a_right_file_whatever_the_environment_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_SERVER__PORT", "nonsense")
    (folder / "restante.toml").write_text("filing = true\n")
    result = run("check", "restante.toml")
    assert (result.exit_code, result.stdout) == (0, "restante.toml: all right\n")


def test_check_names_every_problem_with_its_line(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD)
    result = run("check", "restante.toml")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0] == "restante.toml:2: server.port: must be a whole number from 0 to 65,535, not 99999"
    assert lines[1].startswith("restante.toml:3: server.colour: is not known; ")
    assert lines[2:] == ["restante.toml: 2 problems"]


def test_check_speaks_json(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD)
    result = run("check", "restante.toml", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["file"] == "restante.toml"
    assert len(answer["problems"]) == 2


def test_check_of_a_file_that_is_not_there_fails() -> None:
    result = run("check", "nosuch.toml")
    assert result.exit_code == 1
    assert "nosuch.toml: cannot be read" in result.stdout


@pytest.mark.parametrize("command", [[], ["show"], ["check"]])
def test_help_teaches_by_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "restante settings" in result.output
    assert "Exit codes: 0 all is well" in " ".join(result.output.split())
