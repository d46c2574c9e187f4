"""What a hub remembers of its delayed messages: when each is due, and by which fingerprint it is known."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec

from restante.errors import DataDamaged
from restante.hub.engine.core import Core
from restante.limits import DELAYED_LOOK_SECONDS_MAX
from restante.model.publishing.delay import DelayedRow, DueKey, decode_delayed
from restante.model.storage.changes import Space
from restante.ports.store import Store

Place = tuple[int, DueKey]
"""A partition, and the key by time of a message in it."""


class DelayedMemory:
    """Changed after commits, by the committer's thread; the background reads what is due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[int, int, DueKey]] = []
        self._known: dict[tuple[int, bytes], DueKey] = {}
        self._fingerprints: dict[int, int] = {}
        """How many delayed messages have each."""
        self._woken = False

    @property
    def count(self) -> int:
        return len(self._known)

    def knows_any(self, fingerprints: Iterable[int]) -> bool:
        """Whether a delayed message may be one of these."""
        return bool(self._fingerprints) and any(one in self._fingerprints for one in fingerprints)

    def fingerprint_of(self, partition: int, key: bytes) -> int:
        return self._known[partition, key].fingerprint

    def add(self, places: Sequence[Place]) -> None:
        with self._changed:
            for partition, due in places:
                heapq.heappush(self._heap, (due.due, partition, due))
                self._known[partition, due.key] = due
                self._fingerprints[due.fingerprint] = self._fingerprints.get(due.fingerprint, 0) + 1
            self._changed.notify_all()

    def remove(self, places: Sequence[Place]) -> None:
        """What is gone stays in the heap until its time, and is passed over then."""
        with self._changed:
            for partition, due in places:
                if self._known.pop((partition, due.key), None) is None:
                    continue
                left = self._fingerprints[due.fingerprint] - 1
                if left:
                    self._fingerprints[due.fingerprint] = left
                else:
                    del self._fingerprints[due.fingerprint]

    def take_due(self, now: int, at_most: int) -> list[Place]:
        """What is due, the earliest first. It stays known until it is removed; what is not published is put back."""
        found: list[Place] = []
        with self._changed:
            while self._heap and self._heap[0][0] <= now and len(found) < at_most:
                _, partition, due = heapq.heappop(self._heap)
                if self._known.get((partition, due.key)) == due:
                    found.append((partition, due))
        return found

    def put_back(self, places: Sequence[Place], until: int) -> None:
        """To be taken again, if they are still known then."""
        with self._changed:
            for partition, due in places:
                heapq.heappush(self._heap, (until, partition, due))

    def wait(self, clock: Callable[[], int]) -> None:
        """Until something is due, as far as is known now, or the hub is closing."""
        with self._changed:
            if self._woken:
                return
            seconds = (self._heap[0][0] - clock()) / 1_000_000 if self._heap else None
            if seconds is None or seconds > 0:
                self._changed.wait(
                    DELAYED_LOOK_SECONDS_MAX if seconds is None else min(seconds, DELAYED_LOOK_SECONDS_MAX)
                )

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()


def load_delayed(store: Store, partition_count: int) -> DelayedMemory:
    """The memory of a store that was just opened."""
    memory = DelayedMemory()
    for partition in range(partition_count):
        memory.add([(partition, DueKey.of(key)) for key, _ in store.scan(partition, Space.DELAYED_DUE)])
    return memory


def delayed_row(core: Core, partition: int, key: bytes) -> DelayedRow | None:
    """The row of a delayed message, as committed."""
    value = core.store.get(partition, Space.DELAYED, key)
    try:
        return None if value is None else decode_delayed(value)
    except msgspec.MsgspecError as error:
        raise DataDamaged(
            f"A delayed message in partition {partition} makes no sense: {error}.", partition=partition
        ) from error
