"""The partitions of a shard: found by their numbers, and refused where another shard has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from restante.errors import NotOwner
from restante.hub.engine.partitions import Partition


class OwnedPartitions(Sequence[Partition]):
    """Some neighbouring partitions. Indices are the numbers of partitions; all others are `NotOwner`."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._partitions = tuple(partitions)
        self._first = partitions[0].number

    @overload
    def __getitem__(self, number: int) -> Partition: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Partition]: ...
    def __getitem__(self, number: int | slice) -> Partition | Sequence[Partition]:
        if isinstance(number, slice):
            return self._partitions[max(0, (number.start or 0) - self._first) :]
        place = number - self._first
        if not 0 <= place < len(self._partitions):
            raise not_owner(number)
        return self._partitions[place]

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


def not_owner(partition: int) -> NotOwner:
    """The error for a call about a partition that another shard has."""
    return NotOwner(
        f"Another shard has partition {partition}. Ask its owner: GET /v1/nodes names it.", partition=partition
    )
