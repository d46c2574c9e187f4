"""A process that is killed while it stages, commits and discards: all is visible or nothing, and no blob is left."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from restante.assembly import open_hub, open_store
from tests.consignments.examined import findings_of
from tests.consignments.ledger import Ledger, commit_what_is_open
from tests.consignments.load import SETTINGS
from tests.crash.campaign import folders, kill_often

KILLS = 6
KILLS_LONG = 300
KILLS_PER_FOLDER = 20


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


def kill_hub(folder: Path, *, kills: int, seed: int) -> Ledger:
    ledger = Ledger()
    return kill_often(
        "tests.consignments.child",
        ledger,
        lambda life: [str(folder), str(life), json.dumps(ledger.left())],
        lambda generator: check_reopened(folder, generator, ledger),
        kills=kills,
        seed=seed,
        lines_max=250,
        lines_first=2,
        pause_max=0.005,
    )


def test_what_a_killed_hub_was_told_to_commit_is_visible_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = kill_hub(tmp_path / "data", kills=KILLS, seed=7)
    assert any(told.receipt is not None for told in ledger.told.values())


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("folder", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_what_a_hub_that_was_killed_often_was_told_to_commit_is_visible_whole_or_not_at_all(
    folder: int, tmp_path: Path
) -> None:
    ledger = kill_hub(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
    assert ledger.whole + ledger.not_at_all, "no commit was under way when the hub was killed"
