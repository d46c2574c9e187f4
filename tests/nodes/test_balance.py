"""Who gets which shard: all come to the same answer, moves come to an end, and nothing moves back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.shards.ranges import next_move, shares, weights_of

NODES = ["a", "b", "c", "d"]
OWNERS = st.lists(st.sampled_from(NODES), min_size=1, max_size=24)
RATES = st.lists(st.floats(0, 1_000), min_size=24, max_size=24)


def settle(owners: dict[int, str], nodes: list[str], weights: dict[int, float]) -> list[tuple[int, str]]:
    """All moves until nobody gives anything away."""
    moves: list[tuple[int, str]] = []
    while True:
        found = [next_move(node, owners, nodes, weights) for node in NODES]
        move = next((one for one in found if one is not None), None)
        if move is None:
            return moves
        owners[move[0]] = move[1]
        moves.append(move)
        assert len(moves) <= 10 * len(owners), "it never ends"


@given(OWNERS)
def test_moves_end_when_all_have_as_many(given_owners: list[str]) -> None:
    owners = dict(enumerate(given_owners))
    moves = settle(owners, NODES, {})
    counts = [list(owners.values()).count(node) for node in NODES]
    assert max(counts) - min(counts) <= 1
    assert len({shard for shard, _ in moves}) == len(moves), "no shard moves twice"


@given(OWNERS, RATES)
def test_moves_by_weight_end_too_and_make_nobody_heavier_than_the_heaviest_was(
    given_owners: list[str], rates: list[float]
) -> None:
    owners = dict(enumerate(given_owners))
    weights = weights_of(dict(enumerate(rates[: len(owners)])), owners)
    heaviest = max(sum(weights.get(s, 1.0) for s, o in owners.items() if o == node) for node in NODES)
    settle(owners, NODES, weights)
    assert max(sum(weights.get(s, 1.0) for s, o in owners.items() if o == node) for node in NODES) <= heaviest + 1e-9


@given(OWNERS)
def test_who_leaves_gives_everything_away(given_owners: list[str]) -> None:
    owners = dict(enumerate(given_owners))
    settle(owners, ["b", "c"], {})
    assert set(owners.values()) <= {"b", "c"}


def test_the_last_one_keeps_what_it_has() -> None:
    assert next_move("a", {0: "a", 1: "a"}, ["a"], {}) is None
    assert next_move("a", {0: "a"}, [], {}) is None


def test_free_shards_go_to_who_has_the_fewest() -> None:
    assert shares([4, 5, 6], {0: "a", 1: "a", 2: "b", 3: "gone"}, ["a", "b", "c"]) == {4: "c", 5: "b", 6: "c"}
    assert shares([1], {}, []) == {}


@pytest.mark.parametrize(("rates", "weighed"), [({0: 5.0}, False), ({0: 0.0, 1: 0.0}, False), ({0: 5.0, 1: 1.0}, True)])
def test_shards_weigh_alike_until_all_are_known(rates: dict[int, float], weighed: bool) -> None:
    assert bool(weights_of(rates, [0, 1])) == weighed
