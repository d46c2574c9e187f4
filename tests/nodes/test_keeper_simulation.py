"""Nodes in simulated worlds: one owner at a time, whatever clocks, pauses and the store do; and shards come to rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from restante.cluster.nodes import keeper
from restante.cluster.nodes.keeper import NodeKeeper
from restante.cluster.nodes.node_about import SilentNodes
from restante.errors import Unavailable
from restante.ports.membership import NodeRow, StoreSurvey
from restante.stores.postgresql import lease
from restante.stores.postgresql.lease import Lease
from tests.nodes.simulated_nodes import SHARDS, NodeWorld, SimulatedHost, SimulatedMembership
from tests.profiles import by_profile

BLOCK = 10
SEEDS = by_profile(dev=10, ci=200)
MUTANT_SEEDS = 100
CHAOS, QUIET, REST = 30.0, 20.0, 10.0
SUCCEEDED_SECONDS = 5.0
MOVED_SECONDS = 1.0


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., NodeWorld]]:
    """Makes worlds, one after the other, whose clocks are those of the nodes."""
    made: list[NodeWorld] = []

    def make(seed: int, **given: Any) -> NodeWorld:
        while made:
            made.pop().close()
        world = NodeWorld(seed, **given)
        monkeypatch.setattr(keeper, "running_seconds", world.running_seconds)
        monkeypatch.setattr(lease, "running_seconds", world.running_seconds)
        monkeypatch.setattr(keeper, "tell_peer", world.tell_peer)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


def trouble(world: NodeWorld) -> None:
    """Something happens to a node, or to the store."""
    if world.now > CHAOS:
        return
    what = world.random.choice(["kill", "stop", "start", "pause", "cut", "store", "drain", "none"])
    node = world.random.choice(world.nodes) if world.nodes else None
    if what == "start" and len(world.nodes) < 5:
        world.start_node()
    elif what == "store":
        world.store_away_until = world.now + world.random.uniform(0.1, 5)
    elif node is not None and what == "kill" and len(world.nodes) > 1:
        node.kill()
    elif node is not None and what == "stop" and len(world.nodes) > 2 and node.paused_until <= world.now:
        node.stop()
    elif node is not None and what == "drain" and len(world.nodes) > 2:
        node.drain()
    elif node is not None and what == "pause":
        node.paused_until = world.now + world.random.uniform(0.5, 8)
    elif node is not None and what == "cut":
        node.cut_until = world.now + world.random.uniform(0.5, 8)
    world.later(world.random.uniform(0.3, 4), lambda: trouble(world))


def play(worlds: Callable[..., NodeWorld], seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            play_one(worlds(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def play_one(world: NodeWorld) -> None:
    world.losses, world.slow = world.random.choice([0.0, 0.02, 0.1]), world.random.choice([0.0, 0.02, 0.1])
    world.later(2, lambda: trouble(world))
    world.run(CHAOS, world.look)
    world.losses = world.slow = world.store_away_until = 0.0
    while sum(not node.leaving for node in world.nodes) < 2:
        world.start_node()
    world.run(CHAOS + QUIET, world.look)
    settled_at = world.now
    world.run(CHAOS + QUIET + REST, world.look)
    staying = [node for node in world.nodes if not node.leaving]
    serving = Counter(node.name for node in world.nodes for _ in node.answered())
    assert serving.total() == SHARDS, f"shards are served {serving.total()} times"
    assert max(serving.values()) - min(serving[node.name] for node in staying) <= 1, f"unequal: {serving}"
    assert not world.failures, world.failures
    late = [move for move in world.moves if move[0] > settled_at]
    assert not late, f"shards move, and nothing has happened: {late}"
    left = [row.shard for row in world.tables.shards if row.heir is not None]
    assert not left, f"somebody is to take shards {left}, and nobody gives them"


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_shard_has_one_owner_and_all_comes_to_rest(worlds: Callable[..., NodeWorld], first: int) -> None:
    play(worlds, range(first, first + BLOCK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(200, 2_000, 300))
def test_a_shard_has_one_owner_for_long(worlds: Callable[..., NodeWorld], first: int) -> None:
    play(worlds, range(first, first + 300))


def longest_gap(world: NodeWorld, until: float) -> float:
    longest = [0.0]

    def look() -> None:
        world.look()
        longest[0] = max(longest[0], *(world.now - since for since in world.gaps.values()))

    world.run(until, look)
    return longest[0]


@pytest.mark.parametrize("seed", range(5))
def test_who_is_killed_is_succeeded_and_who_leaves_or_joins_is_hardly_missed(
    worlds: Callable[..., NodeWorld], seed: int
) -> None:
    world = worlds(seed)
    world.run(10, world.look)
    random.Random(seed).choice(world.nodes).kill()
    assert longest_gap(world, 20) < SUCCEEDED_SECONDS
    world.start_node()
    assert longest_gap(world, 30) < MOVED_SECONDS
    world.nodes[0].stop()
    assert longest_gap(world, 40) < MOVED_SECONDS
    assert len(world.nodes) == 2


def test_an_appointment_whose_answer_was_lost_is_carried_out_and_blocks_no_other_move(
    worlds: Callable[..., NodeWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, appoint, lost = worlds(1, nodes=2), SimulatedMembership.appoint, list[int]()

    def unanswered(self: SimulatedMembership, shard: int, heir: str | None) -> bool:
        done = appoint(self, shard, heir)
        if done and not lost:
            lost.append(shard)
            raise Unavailable("Its answer was lost.")
        return done

    world.run(10, world.look)
    monkeypatch.setattr(SimulatedMembership, "appoint", unanswered)
    world.start_node()
    world.run(30, world.look)
    assert len(lost) == 1
    assert {node.name: len(node.answered()) for node in world.nodes} == dict.fromkeys(
        (node.name for node in world.nodes), SHARDS // 3
    )
    assert all(row.heir is None for row in world.tables.shards)


def test_a_look_at_the_store_from_before_a_shard_was_taken_does_not_close_it(
    worlds: Callable[..., NodeWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, survey, late, opened = worlds(1, nodes=1), SimulatedMembership.survey, list[bool](), list[range]()
    delay, begin = world.delay, SimulatedHost.open

    def looked(self: SimulatedMembership) -> StoreSurvey:
        late.append(True)
        return survey(self)

    async def noted(self: SimulatedHost, partitions: range, *given: Any) -> Any:
        opened.append(partitions)
        return await begin(self, partitions, *given)

    monkeypatch.setattr(world, "delay", lambda: late.pop() and 0.8 if late else delay())
    monkeypatch.setattr(SimulatedMembership, "survey", looked)
    monkeypatch.setattr(SimulatedHost, "open", noted)
    world.run(20, world.look)
    assert len(world.nodes[0].answered()) == len(opened) == SHARDS


# --- Mutants ----------------------------------------------------------------------------------------------------------


def _nothing(*_: Any) -> None:
    """What a mutant does in place of a rule."""


def _now() -> float:
    """By the clock that the lease goes by."""
    now: float = vars(lease)["running_seconds"]()
    return now


def _impatient(self: SilentNodes, rows: list[NodeRow], now: float) -> list[NodeRow]:
    """A beat that was seen unchanged for half of the lease."""
    return _among(self, [row._replace(lease_milliseconds=row.lease_milliseconds // 2) for row in rows], now)


_among = SilentNodes.among


def _counted_late(self: Lease) -> None:
    """From when the answer came, and not from when the renewal was sent."""
    if self._connected().execute("").rowcount == 0:
        self.lost = "It was taken over."
        return
    self._until = _now() + self._seconds * 0.8


def _never_lost(self: Lease) -> None:
    """Whatever the store says."""
    sent = _now()
    self._connected().execute("")
    self._until = sent + self._seconds * 0.8


def _restless(giver: str, owners: dict[int, str], nodes: list[str], *_: Any) -> tuple[int, str] | None:
    """To whoever has the fewest, even if that helps nobody."""
    own = sorted(shard for shard, owner in owners.items() if owner == giver)
    others = sorted(set(nodes) - {giver})
    return (own[0], others[0]) if own and others else None


MUTANTS: dict[str, tuple[object, str, Any, int]] = {
    "who looks does not wait for the whole lease": (SilentNodes, "among", _impatient, 0),
    "nobody looks at the lease": (Lease, "require", _nothing, 0),
    "a lease counts from when its renewal was answered": (Lease, "_beat", _counted_late, 11),
    "who was taken for dead goes on": (Lease, "_beat", _never_lost, 0),
    "what the store says is not agreed with": (NodeKeeper, "_agree", _nothing, 2),
    "an owner waits for its heir for ever": (keeper, "_READY_SECONDS", 1e9, 0),
    "shards move without need": (keeper, "next_move", _restless, 0),
}
_DEAR = {"a lease counts from when its renewal was answered", "an owner waits for its heir for ever"}
"""They are missed in late worlds only: tried in the tier over the wire."""


@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=pytest.mark.wire) if name in _DEAR else name for name in MUTANTS]
)
def test_a_rule_of_nodes_that_is_taken_away_is_missed(
    mutant: str, worlds: Callable[..., NodeWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, instead, seed = MUTANTS[mutant]
    monkeypatch.setattr(place, name, instead)
    with pytest.raises(AssertionError, match="seed"):
        play(worlds, range(seed, seed + MUTANT_SEEDS))
