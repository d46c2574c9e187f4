"""A process that is killed while it acknowledges: nothing acknowledged is forgotten, and nothing else counts as it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from restante.assembly import open_hub
from restante.limits import BATCH_BITS_BYTES_MAX
from tests.batches.ledger import Ledger
from tests.batches.places import SETTINGS
from tests.crash.campaign import folders, kill_often

KILLS = 5
KILLS_LONG = 200
KILLS_PER_FOLDER = 20


def kill_hub(folder: Path, *, kills: int, seed: int, room: int) -> Ledger:
    ledger, given = Ledger(), folder.with_name("given.json")

    def arguments(life: int) -> list[str]:
        given.write_text(json.dumps({**ledger.left(), "room": room}))
        return [str(folder), str(life), str(given)]

    def check(_: object) -> None:
        hub = open_hub(folder, settings=SETTINGS)
        try:
            ledger.check(hub)
        finally:
            hub.close()

    return kill_often(
        "tests.batches.child", ledger, arguments, check, kills=kills, seed=seed, lines_max=400, lines_first=15
    )


@pytest.mark.parametrize("room", [BATCH_BITS_BYTES_MAX, 0], ids=["in memory", "out of memory"])
def test_what_a_killed_hub_acknowledged_is_not_forgotten_and_nothing_else_counts(tmp_path: Path, room: int) -> None:
    ledger = kill_hub(tmp_path / "data", kills=KILLS, seed=7, room=room)
    assert ledger.answers > KILLS
    assert ledger.wholly + ledger.not_at_all, "no call was under way when the hub was killed"


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_what_a_hub_acknowledged_that_was_killed_often_is_not_forgotten(folder: int, tmp_path: Path) -> None:
    room = 0 if folder % 2 else BATCH_BITS_BYTES_MAX
    ledger = kill_hub(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder, room=room)
    assert ledger.wholly, "no call was carried out whose answer was lost"
    assert ledger.complete, "no batch was completed"
