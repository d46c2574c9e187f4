"""The doctor finds nothing at any moment of a simulated world: what crashes, losses and delays leave between shards is no damage."""

from __future__ import annotations

import pytest

from restante.hub.doctor.doctor import examine
from tests.profiles import by_profile
from tests.shards.simulated_clients import Clients, Model
from tests.shards.simulation import World

_SECONDS = 12
_EVERY = 0.5
_QUIET_SECONDS = 45


@pytest.mark.parametrize("seed", [1_000, 1_003, 1_007, 1_034][: by_profile(dev=2, ci=4)])
def test_a_world_is_sound_at_any_moment(seed: int) -> None:
    world = World(seed)
    Clients(world, Model(world)).start()
    for moment in range(int(_SECONDS / _EVERY)):
        world.run(moment * _EVERY)
        assert_sound(world, seed)
    world.heal()
    world.run(_SECONDS + _QUIET_SECONDS)
    assert_sound(world, seed)


def assert_sound(world: World, seed: int) -> None:
    report = examine(world.durable)
    assert report.sound, (seed, world.now, [finding for finding in report.findings if finding.severity.value != "note"])
