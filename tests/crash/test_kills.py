"""A process that is killed at any moment has kept all that it answered, and nothing half."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import restante
from tests.crash.campaign import folders, kill_often
from tests.crash.ledger import Ledger
from tests.crash.load import SETTINGS

KILLS = 20
KILLS_LONG = 500
KILLS_PER_FOLDER = 25


def kill_hub(folder: Path, *, kills: int, seed: int) -> Ledger:
    ledger = Ledger()

    def check(_: object) -> None:
        settings = msgspec.structs.replace(SETTINGS, filing=False)
        with restante.open(folder, settings=settings) as hub:
            ledger.check(hub)

    return kill_often(
        "tests.crash.child",
        ledger,
        lambda life: [str(folder), str(life)],
        check,
        kills=kills,
        seed=seed,
        lines_max=160,
    )


def test_a_hub_that_is_killed_again_and_again_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    ledger = kill_hub(tmp_path / "data", kills=KILLS, seed=7)
    done = (ledger.published, ledger.bundles, ledger.dequeued, ledger.withdrawn)
    assert all(done), f"the children did not get to do everything: {[len(each) for each in done]}"


@pytest.mark.long
@pytest.mark.parametrize("folder", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_a_hub_killed_five_hundred_times_keeps_what_it_acknowledged(folder: int, tmp_path: Path) -> None:
    kill_hub(tmp_path / "data", kills=KILLS_PER_FOLDER, seed=1_000 + folder)
