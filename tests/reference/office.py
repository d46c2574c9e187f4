"""What every part of the reference hub shares: the mailboxes, the counters, the settings and the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, RLock
from uuid import uuid4

from restante.ports.content import OriginPort
from restante.settings import Settings

from .mailbox import Cabinet, Letter, Mailbox

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


def fnv1a_64(text: str) -> int:
    value = FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * FNV_PRIME % 2**64
    return value


@dataclass
class ReferenceStore:
    """What outlives a hub that is closed and opened again."""

    mailboxes: dict[str, Mailbox] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)
    changed: Condition = field(default_factory=lambda: Condition(RLock()))

    def mailbox(self, recipient: str) -> Mailbox:
        return self.mailboxes.setdefault(recipient, Mailbox())


@dataclass
class Office:
    """An opened store: what the hub and its recipients work with."""

    store: ReferenceStore
    settings: Settings
    origins: Mapping[str, OriginPort]
    clock: Callable[[], int]
    new_bundle_id: Callable[[], str] = lambda: str(uuid4())

    def partition_of(self, recipient: str) -> int:
        return fnv1a_64(recipient) % self.settings.partition_count

    def take_number(self, recipient: str) -> int:
        """The next number of the recipient's partition."""
        partition = self.partition_of(recipient)
        self.store.counters[partition] = self.store.counters.get(partition, 0) + 1
        return self.store.counters[partition]

    def record_change(self, recipient: str, letters: Sequence[Letter]) -> None:
        """One number for the set of each cabinet."""
        cabinets: set[Cabinet] = {letter.cabinet for letter in letters}
        for _ in cabinets:
            self.take_number(recipient)
