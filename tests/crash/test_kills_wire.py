"""A served hub that is killed, ended or cut off at any moment: what a client was told stays true, and nothing is twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from tests.client.proxy import CuttingProxy
from tests.crash.campaign import folders
from tests.crash.served import Served
from tests.crash.wire_ledger import WireLedger
from tests.crash.wire_load import RECIPIENTS, WireLoad, drain, kill_under_load

KILLS = 4
KILLS_LONG = 120
KILLS_PER_FOLDER = 10
CUTS = 60
ANSWERS_MAX = 150
"""A hub is killed after at most so many answers: then all clients have found it again."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data", partition_count=4) as process:
        yield process


def kill_often(served: Served, *, kills: int, seed: int) -> WireLedger:
    return kill_under_load(served, WireLedger(), served.check_folder, kills=kills, seed=seed, answers_max=ANSWERS_MAX)


def check_all(served: Served, ledger: WireLedger) -> None:
    """With what is left collected, everything has been collected, once, and in order."""
    drain(served.url, ledger)
    with restante.connect(served.url) as hub:
        ledger.check(hub)
    sent = sum(len(messages) for messages in ledger.sent.values())
    assert sum(len(ledger.collected[name]) for name in RECIPIENTS) == sent
    assert served.end() == 0
    served.check_folder()
    served.check_log()


def test_clients_of_a_hub_that_is_killed_again_and_again_lose_nothing_and_get_nothing_twice(served: Served) -> None:
    ledger = kill_often(served, kills=KILLS, seed=7)
    check_all(served, ledger)
    assert ledger.refusals, "those who give up soon were refused"


@pytest.mark.long
@pytest.mark.parametrize("seed", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_clients_of_a_hub_killed_a_hundred_times_lose_nothing_and_get_nothing_twice(served: Served, seed: int) -> None:
    check_all(served, kill_often(served, kills=KILLS_PER_FOLDER, seed=1_000 + seed))


def test_clients_whose_connections_are_cut_lose_nothing_and_get_nothing_twice(served: Served) -> None:
    generator, ledger = random.Random(8), WireLedger()
    with CuttingProxy(served.url) as proxy:
        with WireLoad(proxy.url, ledger):
            for _ in range(CUTS):
                cut = generator.choice([proxy.cut_before, proxy.cut_after])
                cut(generator.choice([1, 1, 5]))
                ledger.wait_for(generator.randrange(30))
            proxy.cut_before(0)
            proxy.cut_after(0)
            ledger.wait_for(ANSWERS_MAX)
        assert proxy.cuts >= CUTS / 2
    check_all(served, ledger)
    assert ledger.found_stored, "some sends were stored though their answer was lost"


def test_a_hub_that_is_ended_under_load_ends_well_and_refuses_only_what_may_be_tried_again(served: Served) -> None:
    ledger = WireLedger()
    with WireLoad(served.url, ledger):
        for _ in range(2):
            ledger.wait_for(ANSWERS_MAX)
            assert served.end() == 0
            served.check_folder()
            served.start()
        ledger.wait_for(ANSWERS_MAX)
    check_all(served, ledger)
    assert ledger.refusals, "those who give up soon were refused"
