"""The promises hold in every simulated world.

A seed that fails is a test: add it to `FAILED_ONCE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest

from tests.profiles import by_profile
from tests.shards.simulated_clients import CHAOS, QUIET, Clients, Model
from tests.shards.simulated_producers import NumberedProducers
from tests.shards.simulated_worlds import Part, come_to_rest, play, simulate
from tests.shards.simulation import SHARDS, World

BLOCK = 10
SEEDS = by_profile(dev=80, ci=200)
FIRST_LONG = 200
SEEDS_LONG = 10_000
FAILED_ONCE = {
    137: None,
    2828: None,
    4190: None,
    4209: None,
    4946: None,
    5341: None,
    42: {Part.PRODUCERS, Part.FOLLOWERS, Part.GROUPS},
    79: {Part.HOME, Part.FOLLOWERS},
}
"""By seed, what was in the world."""
FRAMES = 1_000
MOVE_SECONDS = 1.0


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_the_promises_hold(first: int) -> None:
    play(range(first, first + BLOCK))


def test_what_failed_once_holds() -> None:
    for seed, parts in FAILED_ONCE.items():
        play([seed], parts)


@pytest.mark.long
@pytest.mark.parametrize("first", range(FIRST_LONG, SEEDS_LONG, 700))
def test_the_promises_hold_for_long(first: int) -> None:
    play(range(first, min(first + 700, SEEDS_LONG)))


def test_a_world_without_troubles_delivers_everything() -> None:
    model = simulate(1, troubles=0, parts=set(Part))
    assert all(model.taken.values())
    assert len(model.completed) == 4
    assert [answered for _, answered in model.consignments.values()] == [True, True]


@pytest.mark.wire
def test_a_seed_is_the_same_world_in_every_process() -> None:
    """Also where texts hash otherwise."""
    code = "from tests.shards.simulated_worlds import Part, simulate; print(simulate(7, parts=set(Part)).taken)"
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


def test_nobody_waits_for_long_while_a_shard_moves_five_times() -> None:
    """Planned moves alone: each is over within a second, and whoever waits that long is answered."""
    for seed in range(3):
        model = simulate(seed, troubles=0, parts={Part.MOVES, Part.PRODUCERS, Part.FOLLOWERS})
        assert model.longest < MOVE_SECONDS, f"seed {seed}"


@pytest.mark.parametrize("seed", range(by_profile(dev=1, ci=4)))
def test_a_thousand_frames_are_stored_once_and_in_order_though_their_shard_moves_five_times(seed: int) -> None:
    world = World(seed)
    model = Model(world)
    producers = NumberedProducers(world, model, frames=FRAMES)
    clients = Clients(world, model)
    clients.until = CHAOS + 4 * QUIET - 8
    clients.start(decided_at_home=False)
    producers.start()
    for shard in range(SHARDS):
        world.later(3 * shard, partial(world.move_on_and_on, shard))
    world.later(CHAOS, world.heal)
    come_to_rest(world, [model, producers], until=CHAOS + 4 * QUIET)
    assert max(map(len, model.taken.values())) >= FRAMES
