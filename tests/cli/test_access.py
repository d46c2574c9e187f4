"""Tokens on the command line: by option, by environment, and what is said without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.server.serve import start
from tests.cli.conftest import QUIET
from tests.cli.places import run

COMMANDS = ["partitions", "recipients", "explain ada", "collect ada", "send --recipient ada --text hello", "bench"]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a hub that asks for tokens, and one of an operator."""
    made = run("tokens", "create", "--role", "operator", "--data", str(tmp_path / "data"), "--new", "--json")
    assert made.exit_code == 0, made.output
    with start(tmp_path / "data", QUIET) as running:
        yield running.url, json.loads(made.stdout)["token"]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_token_a_guarded_hub_answers_nobody(
    guarded: tuple[str, str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RESTANTE_TOKEN", raising=False)
    result = run(*command.split(), "--hub", guarded[0])
    assert result.exit_code == 1
    assert result.stderr.startswith("error unauthenticated: ")


def test_a_token_comes_by_option_or_by_environment(
    guarded: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = guarded
    assert run("send", "--recipient", "ada", "--text", "hi", "--hub", url, "--token", token).exit_code == 0
    monkeypatch.setenv("RESTANTE_TOKEN", token)
    monkeypatch.setenv("RESTANTE_HUB", url)
    assert run("backup", str(tmp_path / "night.tar")).exit_code == 0
    assert json.loads(run("recipients", "--json").stdout)["recipients"][0]["recipient"] == "ada"
    assert run("collect", "ada").exit_code == 0


def test_a_backup_without_a_token_is_refused_and_leaves_no_file(guarded: tuple[str, str], tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "night.tar"), "--hub", guarded[0])
    assert result.exit_code == 1
    assert result.stderr.startswith("error unauthenticated: ")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
