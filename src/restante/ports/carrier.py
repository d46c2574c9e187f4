"""The carrier: how a shard has another one carry out a call.

Whatever is carried may be repeated: who gets no answer asks again. The owner of a partition is found by the carrier, for
shards move, are split and are joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from restante.calls.call import Answer, Call
from restante.errors import Unavailable
from restante.model.shards.ranges import Ranges


class Silent(Unavailable):
    """The owner did not answer in time. The call may have been carried out, or may still be."""


class ShardCarrier(Protocol):
    """The way to the other shards. Called from any thread of the hub."""

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        """Have the owner of a partition carry a call out; raises what it raised, `Silent`, or `NotOwner`."""
        ...

    def ranges(self) -> Ranges:
        """Which partitions lie together now."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """A hub's share of the partitions, and its way to those that have the others."""

    partitions: range
    carrier: ShardCarrier
    key: int | None = None
    """The key of all hashes, if the store is new: the same in all shards."""
    epoch: int = 1
    """How often the shards were changed, and once."""
