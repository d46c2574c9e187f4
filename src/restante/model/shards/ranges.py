"""Which shard has which partitions: ranges that follow one another, from partition 0 to the last."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable
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
