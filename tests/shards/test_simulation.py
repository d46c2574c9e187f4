"""The promises hold in every simulated world; and each rule, taken away, breaks one of them.

A seed that fails is a test: add it to `FAILED_ONCE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from restante.calls.shards import EndRound
from restante.errors import Unavailable
from restante.hub.batches import batch_counts, batch_parts, part_calls
from restante.hub.consignments import prepared, rounds
from restante.hub.door import open_store
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Procedure
from restante.model.batches.batch import Counts
from restante.model.shards.batch_parts import EnlistedPart, total_at_home
from restante.model.shards.rounds import RoundPhase, RoundRow, phase_for
from restante.stores.memory import MemoryStore
from tests.profiles import by_profile, some
from tests.shards import simulation
from tests.shards.simulated_clients import simulate

BLOCK = 10
SEEDS = 200
SEEDS_LONG = 10_000
MUTANT_SEEDS = 120
FAILED_ONCE = (137,)

Patch = Callable[[pytest.MonkeyPatch], None]


def play(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            simulate(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, by_profile(dev=40, ci=SEEDS), BLOCK))
def test_the_promises_hold(first: int) -> None:
    play(range(first, first + BLOCK))


def test_what_failed_once_holds() -> None:
    play(FAILED_ONCE)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_LONG, 700))
def test_the_promises_hold_for_long(first: int) -> None:
    play(range(first, min(first + 700, SEEDS_LONG)))


def test_a_world_without_troubles_delivers_everything() -> None:
    model = simulate(1, troubles=0)
    assert all(model.taken.values())
    assert len(model.completed) == 4
    assert [answered for _, answered in model.consignments.values()] == [True, True]


def test_a_seed_is_the_same_world_in_every_process() -> None:
    """Also where texts hash otherwise."""
    code = "from tests.shards.simulated_clients import simulate; print(simulate(7).taken)"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([*sys.path, "."])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def _nothing(*_: Any) -> None:
    """What a mutant does in place of a rule."""


def _not_awaited(_core: Core, _batch: bytes) -> Procedure[None]:
    yield from ()


def _impatient(core: Core, consignment: bytes, number: int, partitions: tuple[int, ...]) -> Procedure[None]:
    """Who gets no answer from home lets go."""
    try:
        yield from _inquire(core, consignment, number, partitions)
    except Unavailable:
        core.commit(lambda draft: prepared._plan_end(core, EndRound(consignment, number, partitions), draft))


_inquire = prepared._inquiring


def _told_early(by_hand: Counts, parts: Iterable[EnlistedPart]) -> Counts:
    return total_at_home(by_hand, [part for part in parts if part.final is not None])


def _forgotten(row: RoundRow | None, number: int, partitions: tuple[int, ...]) -> RoundPhase:
    phase = phase_for(row, number, partitions)
    return RoundPhase.ENDED if phase is RoundPhase.DECIDED else phase


MUTANTS: dict[str, Patch] = {
    "a fence is not checked": lambda patch: patch.setattr(MemoryStore, "_require_fences", _nothing),
    "blob numbers are without the fence": lambda patch: patch.setattr(open_store, "_number_by_fence", _nothing),
    "the closing of parts is not awaited": lambda patch: patch.setattr(part_calls, "closing", _not_awaited),
    "a part reports before it applies": lambda patch: patch.setattr(batch_parts, "_is_promised", lambda *_: False),
    "a hold is let go by time": lambda patch: patch.setattr(prepared, "_inquiring", _impatient),
    "nobody looks at the lease": lambda patch: patch.setattr(simulation.OwnersStore, "require_owned", _nothing),
    "a batch is complete too early": lambda patch: patch.setattr(batch_counts, "total_at_home", _told_early),
    "a decision is forgotten": lambda patch: patch.setattr(rounds, "phase_for", _forgotten),
}


@pytest.mark.parametrize("mutant", some(MUTANTS, most=4))
def test_a_rule_that_is_taken_away_is_missed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        play(range(MUTANT_SEEDS))
