"""The balance of shards: free ones go to the node that has the fewest, and a node with too many gives away one at a time.

Everybody reckons with the same rows, so all come to the same answer. A move must make the heaviest node lighter than the other
becomes, by a margin: so nothing moves back and forth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

_MARGIN = 0.5
"""The margin, in the weight of a shard that is like all others."""


def shares(free: Sequence[int], owners: Mapping[int, str], nodes: Collection[str]) -> dict[int, str]:
    """The node that is to take each of the free shards; nobody, if there are no nodes."""
    counts = dict.fromkeys(sorted(nodes), 0)
    for owner in owners.values():
        if owner in counts:
            counts[owner] += 1
    found: dict[int, str] = {}
    for shard in free if counts else ():
        taker = min(counts, key=lambda node: counts[node])
        counts[taker] += 1
        found[shard] = taker
    return found


def next_move(
    giver: str, owners: Mapping[int, str], nodes: Collection[str], weights: Mapping[int, float]
) -> tuple[int, str] | None:
    """The shard that a node gives away next, and to whom; None if all is well. `nodes`: those that may have shards.

    A giver that is not among them gives all away. Shards without a weight weigh as much as all do on average.
    """
    own = sorted(shard for shard, owner in owners.items() if owner == giver)
    others = sorted(set(nodes) - {giver})
    if not own or not others:
        return None
    loads = dict.fromkeys((*others, giver), 0.0)
    for shard, owner in owners.items():
        if owner in loads:
            loads[owner] += _weight(weights, shard)
    lightest = min(others, key=lambda node: loads[node])
    if giver not in nodes:
        return own[0], lightest
    if loads[giver] < max(loads.values()):
        return None
    height, shard = min(
        (max(loads[giver] - _weight(weights, one), loads[lightest] + _weight(weights, one)), one) for one in own
    )
    return (shard, lightest) if height <= loads[giver] - _MARGIN else None


def _weight(weights: Mapping[int, float], shard: int) -> float:
    return weights.get(shard, 1.0)


def weights_of(rates: Mapping[int, float], shards: Collection[int]) -> dict[int, float]:
    """How heavy shards are, from what each has to do; all alike while that is not known of each."""
    total = sum(rates.get(shard, 0.0) for shard in shards)
    if total <= 0 or any(shard not in rates for shard in shards):
        return {}
    return {shard: (1.0 + rates[shard] * len(shards) / total) / 2 for shard in shards}
