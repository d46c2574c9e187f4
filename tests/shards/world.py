"""Shards in one process, each with a store of its own; the carrier calls the owner's hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

from restante.assembly import system_clock
from restante.calls.call import Answer, Call
from restante.hub.door.hub import OpenHub
from restante.hub.engine.tasks import Tasks
from restante.model.shards.ranges import Ranges, even_ranges, shard_of
from restante.model.storage.partition import partition_of
from restante.ports.carrier import Shard, Silent
from restante.settings import Settings
from restante.stores.memory import MemoryStore

PARTITIONS = 8
SETTINGS = Settings(partition_count=PARTITIONS, filing=False, housekeeping_seconds=0)
KEY = 7


class QuietHub(OpenHub):
    """A hub without threads of its own but the committer's: nothing is done between shards unless the test does it."""

    def _start_background(self) -> Tasks:
        return Tasks(self.core, ())


class Shards:
    """Some shards. Each may be closed and opened again on what its store keeps."""

    def __init__(
        self,
        count: int,
        settings: Settings = SETTINGS,
        clock: Callable[[], int] = system_clock,
        kind: type[OpenHub] = OpenHub,
    ) -> None:
        self.settings, self.clock, self._kind = settings, clock, kind
        self.carried: list[Call[Any]] = []
        self.lose: tuple[type[Call[Any]], ...] = ()
        """Calls that do not arrive."""
        self.lose_answers: tuple[type[Call[Any]], ...] = ()
        """Calls whose answers do not."""
        self._ranges = even_ranges(settings.partition_count, count)
        self.stores = [MemoryStore() for _ in range(count)]
        self.hubs = [self._open(number) for number in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for hub in self.hubs:
            hub.close()

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        """Bring a call to its owner, unless it is one of those that `lose` names."""
        self.carried.append(call)
        if isinstance(call, self.lose):
            raise Silent(f"{type(call).__name__} was lost.")
        answer = self.owner(partition).call(call)
        if isinstance(call, self.lose_answers):
            raise Silent(f"The answer to {type(call).__name__} was lost.")
        return answer

    def ranges(self) -> Ranges:
        return self._ranges

    def owner(self, partition: int) -> OpenHub:
        return self.hubs[shard_of(self._ranges, partition)]

    def of(self, name: str) -> OpenHub:
        """The owner of the partition of a recipient, an id or a key."""
        return self.owner(partition_of(name, self.settings.partition_count))

    def reopen(self, number: int) -> None:
        self.hubs[number].close()
        self.stores[number] = self.stores[number].survivor()
        self.hubs[number] = self._open(number)

    def _open(self, number: int) -> OpenHub:
        shard = Shard(self._ranges[number], self, KEY)
        return self._kind(
            self.stores[number],
            settings=self.settings,
            origins={},
            clock=self.clock,
            random=os.urandom,
            shard=shard,
        )


def names(partition: int, count: int, *, partitions: int = PARTITIONS) -> list[str]:
    """So many recipients that live in a partition."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        if partition_of(f"r{number}", partitions) == partition:
            found.append(f"r{number}")
        number += 1
    return found
