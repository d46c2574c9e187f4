"""Readers and writers that are killed together and go on: every change is read once, and none that is not kept."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from restante.assembly import open_hub
from tests.crash.campaign import folders, kill_often
from tests.feed.child import brief
from tests.feed.load import PARTITIONS, SETTINGS, parcel
from tests.feed.reading import read_to_end

KILLS = 5
KILLS_LONG = 200
KILLS_PER_FOLDER = 20


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


def kill_hub(folder: Path, *, kills: int, seed: int) -> Ledger:
    ledger = Ledger()
    return kill_often(
        "tests.feed.child",
        ledger,
        lambda life: [str(folder), str(life), ledger.given()],
        lambda _: check(folder, ledger),
        kills=kills,
        seed=seed,
        lines_max=1_000,
    )


def test_killed_readers_and_writers_that_go_on_read_every_change_once(tmp_path: Path) -> None:
    ledger = kill_hub(tmp_path / "data", kills=KILLS, seed=7)
    kinds = {change[1] for tape in ledger.tapes.values() for change in tape}
    assert {"published", "collected"} <= kinds


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_readers_and_writers_killed_often_read_every_change_once(folder: int, tmp_path: Path) -> None:
    kill_hub(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
