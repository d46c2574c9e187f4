"""`restante health`: the tree for people and programs, and exit codes for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import BoundSettings, HealthBounds, HealthSettings, Settings
from tests.cli.places import run
from tests.client.scripted import Canned, ScriptedServer
from tests.client.scripted import answer as answer_of


@contextmanager
def served(folder: Path, yellow: float = 10, red: float = 5) -> Iterator[ServedHub]:
    """A hub to which its disk seems as full as the bounds say."""
    never = BoundSettings(yellow=1e9, red=1e9)
    bounds = HealthBounds(disk_left=BoundSettings(yellow=yellow, red=red), store_commit=never, api_latency=never)
    with start(folder / "data", Settings(partition_count=2, health=HealthSettings(bounds=bounds))) as running:
        yield running


@pytest.mark.parametrize(
    ("yellow", "red", "state", "code"), [(0.002, 0.001, "green", 0), (101, 0, "yellow", 4), (101, 100.5, "red", 1)]
)
def test_the_exit_code_tells_the_state(tmp_path: Path, yellow: float, red: float, state: str, code: int) -> None:
    with served(tmp_path, yellow, red) as running:
        result = run("health", "--hub", running.url)
        assert result.exit_code == code
        first = result.stdout.splitlines()[0]
        assert first.startswith(f"system {state}")
        assert ("bytes are free" in result.stdout) is (state != "green")
        assert "jobs green  not measured" in result.stdout
        answer = run("health", "--json", "--hub", running.url)
        assert (answer.exit_code, json.loads(answer.stdout)["state"]) == (code, state)


def test_the_last_hour_is_shown_if_it_is_asked_for(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        lines = [run("health", *option, "--hub", running.url).stdout.splitlines() for option in ((), ("--history",))]
        headings = [
            [line for line in shown if line.split() == ["minute", "state", "score", "yellow", "red"]] for shown in lines
        ]
        assert [len(found) for found in headings] == [0, 1]
        answer = json.loads(run("health", "--history", "--json", "--hub", running.url).stdout)
        assert answer["history"][0]["state"] == "green"


def test_a_hub_that_is_not_there_or_says_no_is_one_line(tmp_path: Path) -> None:
    lost = run("health", "--hub", "http://127.0.0.1:9")
    assert (lost.exit_code, lost.stdout) == (1, "")
    assert "unavailable: Nothing answers at http://127.0.0.1:9: " in lost.stderr
    assert "is `restante serve` running there?" in lost.stderr
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    tokens.path.parent.mkdir()
    secret = tokens.create(roles=[Role.PUBLISHER])
    reader = tokens.create(roles=[Role.READER])
    with served(tmp_path) as running:
        refused = run("health", "--hub", running.url, "--token", secret)
        assert (refused.exit_code, "forbidden" in refused.stderr) == (1, True)
        assert run("health", "--hub", running.url, "--token", reader).exit_code == 0


def test_a_token_does_not_follow_a_redirect() -> None:
    with ScriptedServer(Canned(200, b"{}")) as elsewhere:
        onward = Canned(302, b"", {"Location": f"{elsewhere.url}/v1/health"})
        with ScriptedServer(onward) as server:
            answer = run("health", "--hub", server.url, "--token", "rst_secret")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "answered 302" in answer.stderr
    assert (len(server.seen), elsewhere.seen) == (1, [])


def test_the_next_address_is_asked_where_one_is_not_there(tmp_path: Path) -> None:
    with served(tmp_path, 0.002, 0.001) as running:
        answer = run("health", "--hub", f"http://127.0.0.1:9,{running.url}")
        assert (answer.exit_code, answer.stdout.splitlines()[0].split()[:2]) == (0, ["system", "green"])


def test_what_a_hub_measured_is_harmless_on_a_terminal(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        found = json.loads(run("health", "--json", "--hub", running.url).stdout)
    found["parts"][0] |= {"name": "disk\x9b", "state": "red"}
    measure = {"name": "full", "value": 1, "unit": "B", "yellow": 1, "red": 1, "state": "red", "reason": "2J\u202e"}
    found["parts"][0]["measures"] = [measure]
    with ScriptedServer(answer_of(found)) as server:
        shown = run("health", "--hub", server.url).stdout
    assert r"disk\u009b red" in shown
    assert r"full 1 B (2J\u202e)" in shown
