"""The memory of delayed messages: when each is due, and its fingerprint."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from restante.errors import DataDamaged
from restante.hub.engine.core import Core, MailboxAddress
from restante.limits import DELAYED_LOOK_SECONDS_MAX
from restante.model.publishing.delay import DelayedRow, DueKey, decode_delayed, delayed_key, mailbox_part
from restante.model.storage.changes import Space
from restante.ports.store import StoreReader

DelayedPlace = tuple[int, DueKey]
"""A partition, and the `DueKey` of a message in it."""
K = TypeVar("K")
_HEAP_SPARE = 1_000
"""The number of stale entries that the heap may always have. With more, it is rebuilt once most of it is stale."""


class DelayedMemory:
    """The delayed messages of a hub. The committer's thread changes them after commits; a background thread takes due ones."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[int, int, DueKey]] = []
        self._known: dict[tuple[int, bytes], DueKey] = {}
        self._fingerprints: dict[int, int] = {}
        """How many delayed messages have each fingerprint."""
        self._mailboxes: dict[bytes, int] = {}
        """How many delayed messages each recipient has, not counting actions, by `mailbox_part` of their keys."""
        self._woken = False

    @property
    def count(self) -> int:
        return len(self._known)

    def knows_any(self, fingerprints: Iterable[int]) -> bool:
        """Whether a delayed message has one of these fingerprints."""
        return bool(self._fingerprints) and any(one in self._fingerprints for one in fingerprints)

    def count_for(self, address: MailboxAddress) -> int:
        """How many messages are delayed for a recipient, not counting actions, which are no mail."""
        return self._mailboxes.get(mailbox_part(delayed_key(address.hash, address.recipient, bytes(16))), 0)

    def add(self, places: Sequence[DelayedPlace]) -> None:
        with self._changed:
            for partition, due in places:
                heapq.heappush(self._heap, (due.due, partition, due))
                self._known[partition, due.key] = due
                _count(self._fingerprints, due.fingerprint, 1)
                if not due.is_action:
                    _count(self._mailboxes, mailbox_part(due.key), 1)
            self._changed.notify_all()

    def remove(self, places: Sequence[DelayedPlace]) -> None:
        """Remove delayed messages. Their heap entries stay, and are skipped, until they are due or the heap is rebuilt."""
        with self._changed:
            for partition, due in places:
                known = self._known.get((partition, due.key))
                if known is None or known.encoded() != due.encoded():
                    continue  # Removed already, or sent again since with another time.
                del self._known[partition, due.key]
                _count(self._fingerprints, due.fingerprint, -1)
                if not known.is_action:
                    _count(self._mailboxes, mailbox_part(due.key), -1)
            if len(self._heap) > _HEAP_SPARE + 2 * len(self._known):
                self._heap = [entry for entry in self._heap if self._known.get((entry[1], entry[2].key)) == entry[2]]
                heapq.heapify(self._heap)

    def take_due(self, now: int, at_most: int) -> list[DelayedPlace]:
        """Take due messages, earliest first. They stay known until `remove`; those not published must be `put_back`."""
        found: list[DelayedPlace] = []
        with self._changed:
            while self._heap and self._heap[0][0] <= now and len(found) < at_most:
                _, partition, due = heapq.heappop(self._heap)
                if self._known.get((partition, due.key)) == due:
                    found.append((partition, due))
        return found

    def put_back(self, places: Sequence[DelayedPlace], until: int) -> None:
        """Put entries back, to be taken again at `until` if they are still known then."""
        with self._changed:
            for partition, due in places:
                heapq.heappush(self._heap, (until, partition, due))

    def wait(self, clock: Callable[[], int]) -> None:
        """Wait until the earliest known message is due, messages are added, or the hub closes. May return early."""
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


def _count(counts: dict[K, int], key: K, by: int) -> None:
    """Change a count, and remove it when it reaches 0."""
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]


def load_delayed(store: StoreReader, owned: range) -> DelayedMemory:
    """Load the delayed messages of a store that was just opened."""
    memory = DelayedMemory()
    for partition in owned:
        memory.add([(partition, DueKey.of(key, value)) for key, value in store.scan(partition, Space.DELAYED_DUE)])
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
