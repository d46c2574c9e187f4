"""A process that is killed while it stages, commits and discards: all is visible or nothing, and no blob is left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from restante.assembly import open_hub, open_store
from tests.consignments.examined import findings_of
from tests.consignments.ledger import Ledger, commit_what_is_open
from tests.consignments.load import SETTINGS

CHECKOUT = Path(__file__).parents[2]
KILLS = 6
KILLS_LONG = 300 if os.environ.get("RESTANTE_LONG") else KILLS
KILLS_PER_FOLDER = 20
LINES_MAX = 250
"""A child is killed after at most so many lines: then all its threads are well under way."""


def live_and_die(folder: Path, life: int, generator: random.Random, ledger: Ledger) -> None:
    """Let a child work, kill it at some moment, and take down what it said."""
    command = [sys.executable, "-m", "tests.consignments.child", str(folder), str(life), json.dumps(ledger.left())]
    lines = generator.choice([2, *(generator.randrange(LINES_MAX) for _ in range(4))])
    pause = generator.random() * 0.005
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        until = time.perf_counter() + pause
        while time.perf_counter() < until:
            pass
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    for line in told:
        if line.endswith(b"\n"):
            ledger.read(json.loads(line))
    assert child.returncode == -signal.SIGKILL, told[-1]


def check_reopened(folder: Path, generator: random.Random, ledger: Ledger) -> None:
    hub = open_hub(folder, settings=SETTINGS)
    try:
        ledger.check(hub)
        for key in ledger.left():
            told = ledger.told[key]
            if told.ids and generator.random() < 0.3 and commit_what_is_open(hub, told) is not None:
                told.committing = True
        ledger.check(hub)
    finally:
        hub.close()
    store = open_store(folder)
    try:
        assert findings_of(store) == ()
    finally:
        store.close()


def kill_often(folder: Path, *, kills: int, seed: int) -> Ledger:
    """Always with the same folder: what one life left, the next goes on with."""
    generator, ledger = random.Random(seed), Ledger()
    for life in range(1, kills + 1):
        live_and_die(folder, life, generator, ledger)
        check_reopened(folder, generator, ledger)
    return ledger


def test_what_a_killed_hub_was_told_to_commit_is_visible_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = kill_often(tmp_path / "data", kills=KILLS, seed=7)
    assert any(told.receipt is not None for told in ledger.told.values())


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", range(-(-KILLS_LONG // KILLS_PER_FOLDER)))
def test_what_a_hub_that_was_killed_often_was_told_to_commit_is_visible_whole_or_not_at_all(
    folder: int, tmp_path: Path
) -> None:
    ledger = kill_often(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
    assert ledger.whole + ledger.not_at_all, "no commit was under way when the hub was killed"
