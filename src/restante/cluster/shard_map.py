"""`ShardMap`: which shard has which partitions. A shard is a hub over a range of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from restante.errors import InvalidRequest, PartitionUnknown
from restante.model.storage.partition import partition_of


class ShardMap(msgspec.Struct, frozen=True):
    """Shard i has the partitions from `starts[i]` to the next start, the last one those to the end."""

    partition_count: int
    starts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts)

    def partitions(self, shard: int) -> range:
        """Those that a shard has."""
        ends = (*self.starts[1:], self.partition_count)
        return range(self.starts[shard], ends[shard])

    def of_partition(self, partition: int) -> int:
        """The shard that has a partition."""
        if not 0 <= partition < self.partition_count:
            raise PartitionUnknown(
                f"There is no partition {partition}: partitions go from 0 to {self.partition_count - 1}."
            )
        return bisect_right(self.starts, partition) - 1

    def of_recipient(self, recipient: str) -> int:
        """The shard in which a recipient lives."""
        return bisect_right(self.starts, partition_of(recipient, self.partition_count)) - 1


def even_map(partition_count: int, shards: int) -> ShardMap:
    """So many shards of about equal ranges."""
    if not 1 <= shards <= partition_count:
        raise InvalidRequest(
            f"There can be 1 to {partition_count} shards, as many as there are partitions, and not {shards}."
        )
    starts: Sequence[int] = [partition_count * shard // shards for shard in range(shards)]
    return ShardMap(partition_count, tuple(starts))
