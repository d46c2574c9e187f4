"""Readers and writers that are killed together and go on: every change is read once, and none that is not kept."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from restante.assembly import open_hub
from tests.feed.child import brief
from tests.feed.load import PARTITIONS, SETTINGS, parcel
from tests.feed.reading import read_to_end

CHECKOUT = Path(__file__).parents[2]
KILLS = 5
KILLS_LONG = 200 if os.environ.get("RESTANTE_LONG") else KILLS
KILLS_PER_FOLDER = 20
LINES_MAX = 250


@dataclass
class Ledger:
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    tapes: dict[int, list[list[Any]]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    done: Counter[str] = field(default_factory=Counter)

    def read(self, words: list[Any]) -> None:
        match words:
            case ["read", partition, after, position, rows]:
                assert after == self.positions[partition] <= position
                self.positions[partition] = position
                self.tapes[partition] += rows
            case ["written", writer, turn]:
                assert turn == self.done[writer]
                self.done[writer] += 1
            case _:
                assert words == ["opened"], words

    def given(self) -> str:
        return json.dumps({"done": self.done, "positions": self.positions})

    def written(self) -> set[str]:
        """The ids of all that was answered for."""
        turns = [(writer, turn) for writer, count in self.done.items() for turn in range(count)]
        named = [
            (own, turn)
            for writer, turn in turns
            for own in (("consigned by one", "consigned by two") if writer == "consignor" else (writer,))
        ]
        return {message.id or "" for own, turn in named for message in parcel(own, turn)}


def live_and_die(folder: Path, life: int, generator: random.Random, ledger: Ledger) -> None:
    command = [sys.executable, "-m", "tests.feed.child", str(folder), str(life), ledger.given()]
    lines = generator.choice([1, *(generator.randrange(LINES_MAX) for _ in range(4))])
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    for line in told:
        if line.endswith(b"\n"):
            ledger.read(json.loads(line))
    assert child.returncode == -signal.SIGKILL, told[-1]


def check(folder: Path, ledger: Ledger) -> None:
    """What was read is the beginning of what there is; each message was published once, however often it was sent."""
    hub = open_hub(folder, settings=SETTINGS)
    try:
        published = list[str]()
        for partition, tape in ledger.tapes.items():
            whole = [brief(row) for row in read_to_end(hub, partition, after=None, limit=lambda: None).rows]
            position = ledger.positions[partition]
            assert tape == [change for change in whole if change[0] <= position]
            published += [change[3] for change in whole if change[1] == "published"]
        assert len(published) == len(set(published)), "a message was published twice"
        assert ledger.written() <= set(published), "a message that was answered for is missing"
    finally:
        hub.close()


def kill_often(folder: Path, *, kills: int, seed: int) -> Ledger:
    generator, ledger = random.Random(seed), Ledger()
    for life in range(1, kills + 1):
        live_and_die(folder, life, generator, ledger)
        check(folder, ledger)
    return ledger


def test_killed_readers_and_writers_that_go_on_read_every_change_once(tmp_path: Path) -> None:
    ledger = kill_often(tmp_path / "data", kills=KILLS, seed=7)
    kinds = {change[1] for tape in ledger.tapes.values() for change in tape}
    assert {"published", "collected"} <= kinds


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", range(-(-KILLS_LONG // KILLS_PER_FOLDER)))
def test_readers_and_writers_killed_often_read_every_change_once(folder: int, tmp_path: Path) -> None:
    kill_often(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
