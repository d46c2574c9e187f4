"""`restante settings`: what counts and why, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante.cli import app as whole_app
from restante.cli.serving.settings import app
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


def test_check_passes_a_right_file_in_a_right_environment(folder: Path) -> None:
    (folder / "restante.toml").write_text("filing = true\n")
    result = run("check", "restante.toml")
    assert (result.exit_code, result.stdout) == (0, "restante.toml and the environment: all right\n")


def test_check_looks_at_the_environment_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_SERVER__PORT", "nonsense")
    (folder / "restante.toml").write_text("filing = 7\n")
    problems = json.loads(run("check", "restante.toml", "--json").stdout)["problems"]
    assert [(one["place"], one["key"]) for one in problems] == [
        ("restante.toml:1", "filing"),
        ("environment RESTANTE_SERVER__PORT", "server.port"),
    ]
    alone = run("check")
    assert alone.exit_code == 1
    assert alone.stdout.splitlines()[1:] == ["the environment: 1 problem"]


def test_check_takes_the_file_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "restante.toml").write_text(BAD)
    monkeypatch.setenv("RESTANTE_SETTINGS", "restante.toml")
    assert run("check").stdout.splitlines()[-1] == "restante.toml and the environment: 2 problems"


def test_check_names_every_problem_with_its_line(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD)
    result = run("check", "restante.toml")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0] == "restante.toml:2: server.port: must be a whole number from 0 to 65,535, not 99999"
    assert lines[1].startswith("restante.toml:3: server.colour: is not known; ")
    assert lines[2:] == ["restante.toml and the environment: 2 problems"]


def test_check_speaks_json(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD + '[origins."a: b"]\ngroup = 1\n')
    result = run("check", "restante.toml", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["file"] == "restante.toml"
    assert answer["problems"][0] == {
        "place": "restante.toml:2",
        "key": "server.port",
        "problem": "must be a whole number from 0 to 65,535, not 99999",
    }
    assert [one["key"] for one in answer["problems"]] == ["server.port", "server.colour", 'origins."a: b".group']


@pytest.mark.parametrize(("text", "place"), [("filing = \n", "restante.toml:1"), (None, "restante.toml")])
def test_a_problem_of_the_whole_file_has_no_key(folder: Path, text: str | None, place: str) -> None:
    if text is not None:
        (folder / "restante.toml").write_text(text)
    (problem,) = json.loads(run("check", "restante.toml", "--json").stdout)["problems"]
    assert (problem["place"], problem["key"]) == (place, None)
    assert problem["problem"]


def test_a_hub_that_does_not_start_tells_each_problem_on_its_line(folder: Path) -> None:
    (folder / "restante.toml").write_text(BAD)
    result = CliRunner().invoke(whole_app, ["serve", "--settings", "restante.toml"])
    assert result.exit_code == 1
    heading, *problems = result.stderr.splitlines()
    assert heading == "error invalid_settings: The settings have 2 problems:"
    assert [problem.split(": ")[0] for problem in problems] == ["restante.toml:2", "restante.toml:3"]


def test_one_problem_stays_one_line(folder: Path) -> None:
    (folder / "restante.toml").write_text("filing = 7\n")
    result = CliRunner().invoke(whole_app, ["serve", "--settings", "restante.toml"])
    (line,) = result.stderr.splitlines()
    assert line.endswith("restante.toml:1: filing: must be true or false, not 7")


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
