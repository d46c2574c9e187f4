"""A simulated world from its seed: who lives in it, and whether all that was promised was kept."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import Protocol

from tests.shards.simulated_clients import CHAOS, QUIET, Broken, Clients, Model
from tests.shards.simulated_followers import Followers
from tests.shards.simulated_groups import GroupMembers
from tests.shards.simulated_producers import NumberedProducers
from tests.shards.simulation import SHARDS, World


class Part(Enum):
    """What may be in a world beside mail, which is in all of them. A world with everything would find less in the same time."""

    HOME = "batches and consignments"
    PRODUCERS = "numbered producers"
    FOLLOWERS = "those who follow live"
    GROUPS = "a group"
    MOVES = "a shard that moves five times"


class Finishing(Protocol):
    def finish(self) -> None:
        """`Broken`, if something is not as it must be at the end."""


_ON_THE_WAY = 13.0
_LOOK_SECONDS = 4.0
_CHANCES = {Part.HOME: 0.5, Part.PRODUCERS: 0.3, Part.FOLLOWERS: 0.3, Part.GROUPS: 0.2, Part.MOVES: 0.3}


def parts_of(seed: int) -> frozenset[Part]:
    chance = random.Random(seed)
    return frozenset(part for part, likely in _CHANCES.items() if chance.random() < likely)


def simulate(seed: int, *, troubles: float = 1.0, parts: Collection[Part] | None = None) -> Model:
    """Play one world to its end; `Broken` if a promise was."""
    chosen = parts_of(seed) if parts is None else parts
    world = World(seed, troubles=troubles)
    model = Model(world)
    Clients(world, model).start(decided_at_home=Part.HOME in chosen)
    makers = {Part.PRODUCERS: NumberedProducers, Part.FOLLOWERS: Followers, Part.GROUPS: GroupMembers}
    others = [make(world, model) for part, make in makers.items() if part in chosen]
    for one in others:
        one.start()
    if Part.MOVES in chosen:
        shard = world.random.randrange(SHARDS)
        world.later(world.random.uniform(1, CHAOS / 2), lambda: world.move_on_and_on(shard))
    world.later(CHAOS, world.heal)
    come_to_rest(world, [model, *others])
    return model


def come_to_rest(world: World, checked: Sequence[Finishing], until: float = CHAOS + QUIET) -> None:
    """Until nothing is left to do that was begun, and nothing can arrive any more that was on its way; or the time is up."""
    world.run(CHAOS + _ON_THE_WAY)
    while world.now < until:
        try:
            for one in checked:
                one.finish()
        except Broken:
            world.run(world.now + _LOOK_SECONDS)
        else:
            return
    for one in checked:
        one.finish()


def play(seeds: Iterable[int], parts: Collection[Part] | None = None) -> None:
    """Play worlds, one after the other; the error names the seed."""
    for seed in seeds:
        try:
            simulate(seed, parts=parts)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
