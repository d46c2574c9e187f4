"""A store in which nothing was ever stored is opened without reading what cannot be there."""

from __future__ import annotations

from typing import Any

import restante
from restante.hub.door.opening_rows import is_unused
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes, Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore

PARTITIONS = 16
SETTINGS = Settings(partition_count=PARTITIONS, filing=False, housekeeping_seconds=0)


class CountedStore(MemoryStore):
    """Counts how often it was asked for rows."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0

    def scan(self, *args: Any, **named: Any) -> list[tuple[bytes, bytes]]:
        self.scans += 1
        return super().scan(*args, **named)


def test_a_new_store_is_asked_once_or_twice_a_partition() -> None:
    store = CountedStore()
    with restante.open(None, store=store, settings=SETTINGS) as hub:
        assert store.scans <= 4 * PARTITIONS
        hub.producer.send(Message(recipient="ada", data=b"hello"))
        assert hub.recipient("ada").peek() is not None


def test_a_store_that_has_lost_its_deed_is_not_taken_for_a_new_one() -> None:
    store = MemoryStore()
    with restante.open(None, store=store, settings=SETTINGS) as hub:
        hub.producer.send(Message(recipient="ada", data=b"hello"))
    left = store.survivor()
    changes = Changes(fences={0: left.raise_fences(PARTITIONS)})
    changes.delete(0, Space.META, b"deed")
    left.commit(changes)
    assert not is_unused(left, range(PARTITIONS))
    assert is_unused(MemoryStore(), range(PARTITIONS))
    with restante.open(None, store=left, settings=SETTINGS) as hub:
        assert [each.recipient for each in hub.recipients().recipients] == ["ada"]
