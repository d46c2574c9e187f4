"""The health of actions: each measure moves its leaf, and what is counted shows in the totals."""

from __future__ import annotations

from restante.calls.groups import PauseGroup, ResumeGroup
from restante.hub.actions.action_metrics import action_totals
from restante.hub.engine.health_sources import HealthSources
from restante.model.health.bounds import Reading
from restante.model.work.results import OutcomeState
from tests.actions.action_world import GROUP, ActionWorld


def readings(world: ActionWorld) -> dict[str, Reading]:
    leaves = world.hub.core.memory(HealthSources).leaves()
    (leaf,) = [leaf for leaf in leaves if leaf.name == f"groups/{GROUP}"]
    return {own.name: own for own in leaf.readings}


def test_waiting_doing_failing_and_poison_are_measured() -> None:
    world = ActionWorld()
    assert readings(world)["poisoned"].value == 0
    assert "time_in_queue" not in readings(world)
    for n in range(4):
        world.send(id=f"a{n}", concerns=f"t{n}")
    begun = world.clock() / 1e6 + 2
    world.advance(5)
    states = iter((OutcomeState.DONE, OutcomeState.DONE, OutcomeState.FAILED, OutcomeState.POISONED))
    for row in world.handed():
        world.report(row, next(states), begun_at=begun)
    found = readings(world)
    assert (round(found["time_in_queue"].value), round(found["time_to_do"].value)) == (2_000, 3_000)
    assert (found["failures"].value, found["poisoned"].value, found["backlog"].value) == (1, 1, 0)
    assert found["poisoned"].reason
    totals = action_totals(world.hub.core)
    assert (totals[GROUP, "add"].accepted, totals[GROUP, "add"].done) == (4, 2)
    world.hub.close()


def test_a_group_that_holds_the_feed_back_says_so_even_when_it_is_paused() -> None:
    world = ActionWorld()
    world.send(id="a")
    reach = world.settings.feed_reach_seconds
    world.advance(reach)
    assert (readings(world)["feed_held"].value, readings(world)["feed_held"].reason) == (0, None)
    world.advance(100)
    assert round(readings(world)["feed_held"].value) == 100
    world.hub.call(PauseGroup(GROUP))
    held = readings(world)["feed_held"]
    assert round(held.value) == 100
    assert held.reason
    assert "oldest_unread" not in readings(world)
    world.hub.call(ResumeGroup(GROUP))
    world.enter("worker")  # its lease has ended meanwhile
    for row in world.handed():
        world.report(row)
    assert world.handed() == []
    assert readings(world)["feed_held"].value == 0
    world.hub.close()


def test_what_waits_for_a_minute_is_backlog_and_strangers_names_are_one() -> None:
    world = ActionWorld()
    for n in range(3):
        world.send(id=f"a{n}", concerns=f"t{n}")
    world.send("strange", "t")
    assert readings(world)["backlog"].value == 0
    world.advance(61)
    world.send(id="young")
    assert readings(world)["backlog"].value == 4
    for row in world.handed():
        world.finish(row)
    assert readings(world)["backlog"].value == 0
    totals = action_totals(world.hub.core)
    assert (totals["", ""].accepted, totals["", ""].failed, totals[GROUP, "add"].done) == (1, 1, 4)
    world.hub.close()
