"""Ranges and balance of shards: which partitions each has, and which node takes or gives away which shard.

Ranges follow one another, from partition 0 to the last. Free shards go to the node that has the fewest, and a node with too many
gives away one at a time. All nodes reckon with the same rows, so all come to the same answer. A move must make the heaviest node
lighter than the other becomes, by a margin: so nothing moves back and forth.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from restante.errors import InvalidRequest

Ranges: TypeAlias = tuple[range, ...]
"""The partitions of each shard, by the number of the shard."""


def even_ranges(partition_count: int, shards: int) -> Ranges:
    """The partitions cut into so many ranges of the same length, or nearly so."""
    if not 1 <= shards <= partition_count:
        raise InvalidRequest(f"{partition_count} partitions make 1 to {partition_count} shards, not {shards}.")
    borders = [number * partition_count // shards for number in range(shards + 1)]
    return tuple(range(first, end) for first, end in itertools.pairwise(borders))


def shard_of(ranges: Ranges, partition: int) -> int:
    """The number of the shard that has a partition."""
    return bisect_right(ranges, partition, key=lambda own: own.start) - 1


def by_shard(ranges: Ranges, partitions: Iterable[int]) -> list[tuple[int, ...]]:
    """Partitions, ascending, those of one shard together."""
    found: dict[int, list[int]] = {}
    for partition in sorted(partitions):
        found.setdefault(shard_of(ranges, partition), []).append(partition)
    return [tuple(own) for own in found.values()]


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
    """The shard that a node gives away next, and the node that gets it; None if all is well. `nodes` may have shards.

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
