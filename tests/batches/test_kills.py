"""A process that is killed while it acknowledges: nothing acknowledged is forgotten, and nothing else counts as it."""

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

from restante.assembly import open_hub
from restante.limits import BATCH_BITS_BYTES_MAX
from tests.batches.ledger import Ledger
from tests.batches.places import SETTINGS

CHECKOUT = Path(__file__).parents[2]
KILLS = 5
KILLS_LONG = 200 if os.environ.get("RESTANTE_LONG") else KILLS
KILLS_PER_FOLDER = 20
LINES_MAX = 400
"""A child is killed after at most so many lines: then all its threads are well under way."""


def live_and_die(folder: Path, life: int, generator: random.Random, ledger: Ledger, room: int) -> None:
    """Let a child work, kill it at some moment, and take down what it said."""
    given = folder.with_name("given.json")
    given.write_text(json.dumps({**ledger.left(), "room": room}))
    command = [sys.executable, "-m", "tests.batches.child", str(folder), str(life), str(given)]
    lines = generator.choice([generator.randrange(2, 30), *(generator.randrange(LINES_MAX) for _ in range(3))])
    pause = generator.random() * 0.003
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
    assert child.returncode == -signal.SIGKILL


def kill_often(folder: Path, *, kills: int, seed: int, room: int) -> Ledger:
    """Always with the same folder: what one life left, the next goes on with."""
    generator, ledger = random.Random(seed), Ledger()
    for life in range(1, kills + 1):
        live_and_die(folder, life, generator, ledger, room)
        hub = open_hub(folder, settings=SETTINGS)
        try:
            ledger.check(hub)
        finally:
            hub.close()
    return ledger


@pytest.mark.parametrize("room", [BATCH_BITS_BYTES_MAX, 0], ids=["in memory", "out of memory"])
def test_what_a_killed_hub_acknowledged_is_not_forgotten_and_nothing_else_counts(tmp_path: Path, room: int) -> None:
    ledger = kill_often(tmp_path / "data", kills=KILLS, seed=7, room=room)
    assert ledger.answers > KILLS
    assert ledger.wholly + ledger.not_at_all, "no call was under way when the hub was killed"


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", range(-(-KILLS_LONG // KILLS_PER_FOLDER)))
def test_what_a_hub_acknowledged_that_was_killed_often_is_not_forgotten(folder: int, tmp_path: Path) -> None:
    room = 0 if folder % 2 else BATCH_BITS_BYTES_MAX
    ledger = kill_often(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder, room=room)
    assert ledger.wholly, "no call was carried out whose answer was lost"
    assert ledger.complete, "no batch was completed"
