"""The memory of removal: for each partition, when messages expire next, and how many that were forgotten are still stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from restante.hub.engine.partitions import Partition

Expiries = dict[int, NDArray[np.int64]]
"""The earliest expiry in each drawer of a blob, by blob; only for blobs that have been examined."""


@dataclass(slots=True)
class RemovalMemory:
    """The memory of removal in one open hub. A partition that is not named has nothing."""

    expiries: dict[int, Expiries] = field(default_factory=dict)
    forgotten_rows: dict[int, int] = field(default_factory=dict)
    """The number of messages past their retention that may still lie in runs, by partition."""

    def expiries_of(self, partition: int) -> Expiries:
        return self.expiries.setdefault(partition, {})

    def keep_expiries(self, partition: int, blobs: Collection[int]) -> None:
        """Drop the expiries of all other blobs, which no run names any more. A blob that is dropped is examined again."""
        known = self.expiries_of(partition)
        for blob in tuple(known):
            if blob not in blobs:
                known.pop(blob, None)

    def count_forgotten(self, partition: int, messages: int) -> None:
        self.forgotten_rows[partition] = self.forgotten_rows.get(partition, 0) + messages


def begin_memory(partitions: Iterable[Partition]) -> RemovalMemory:
    """The memory for partitions that were just opened: where messages were forgotten, some may still lie in runs."""
    return RemovalMemory(forgotten_rows={own.number: 1 for own in partitions if own.counters.forgotten})
