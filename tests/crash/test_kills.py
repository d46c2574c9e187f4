"""A process that is killed at any moment has kept all that it answered, and nothing half."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import restante
from tests.crash.ledger import Ledger
from tests.crash.load import SETTINGS

CHECKOUT = Path(__file__).parents[2]
KILLS = 20
KILLS_LONG = 500 if os.environ.get("RESTANTE_LONG") else KILLS
KILLS_PER_FOLDER = 25
LINES_MAX = 160
"""A child is killed after at most so many lines: then all its threads are well under way."""


def live_and_die(folder: Path, life: int, generator: random.Random, ledger: Ledger) -> None:
    """Let a child work, kill it at some moment, and take down what it said."""
    command = [sys.executable, "-m", "tests.crash.child", str(folder), str(life)]
    lines = generator.choice([1, 2, generator.randrange(LINES_MAX), generator.randrange(LINES_MAX)])
    pause = generator.random() * 0.003
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        until = time.perf_counter() + pause
        while time.perf_counter() < until:
            pass
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL, told[-1]
    for line in told:
        if line.endswith(b"\n"):
            ledger.read(json.loads(line))


def check_reopened(folder: Path, ledger: Ledger) -> None:
    settings = msgspec.structs.replace(SETTINGS, filing=False)
    with restante.open(folder, settings=settings) as hub:
        ledger.check(hub)


def kill_often(folder: Path, *, kills: int, seed: int) -> Ledger:
    """Always with the same folder: what one life left, the next goes on with."""
    generator, ledger = random.Random(seed), Ledger()
    for life in range(1, kills + 1):
        live_and_die(folder, life, generator, ledger)
        check_reopened(folder, ledger)
    return ledger


def test_a_hub_that_is_killed_again_and_again_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    ledger = kill_often(tmp_path / "data", kills=KILLS, seed=7)
    done = (ledger.published, ledger.bundles, ledger.dequeued, ledger.withdrawn)
    assert all(done), f"the children did not get to do everything: {[len(each) for each in done]}"


@pytest.mark.long
@pytest.mark.parametrize("folder", range(-(-KILLS_LONG // KILLS_PER_FOLDER)))
def test_a_hub_killed_five_hundred_times_keeps_what_it_acknowledged(folder: int, tmp_path: Path) -> None:
    kill_often(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
