"""What opening reads of a store that is far away: rows at once, and of blobs only what was not read ahead."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

import restante
from restante.assembly import system_clock
from restante.calls.call import Call
from restante.client.surface import sync
from restante.hub.door.hub import OpenHub
from restante.hub.door.open_store import look_ahead
from restante.hub.door.opening_rows import BlobsAhead, OpeningRows
from restante.model.publishing.message import Message
from restante.model.shards.ranges import Ranges
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.carrier import Shard
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.shards.world import QuietHub

PARTITIONS = 8
SETTINGS = Settings(partition_count=PARTITIONS, filing=False, housekeeping_seconds=0)


class CountingStore(MemoryStore):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def get(self, *given: Any) -> bytes | None:
        self.asked["get"] += 1
        return super().get(*given)

    def scan(self, *given: Any, **more: Any) -> list[tuple[bytes, bytes]]:
        self.asked["scan"] += 1
        return super().scan(*given, **more)

    def read_blob(self, *given: Any) -> Any:
        self.asked["read_blob"] += 1
        return super().read_blob(*given)

    def fetch(self, *given: Any) -> Any:
        self.asked["fetch"] += 1
        before = self.asked["scan"]
        found = super().fetch(*given)
        self.asked["scan"] = before
        return found


def filled(store: MemoryStore) -> None:
    with restante.open(None, store=store, settings=SETTINGS) as hub:
        for number in range(20):
            names = [f"r{each}" for each in range(40)]
            hub.producer.send([Message(recipient=name, id=f"{name}-{number}", data=b"x" * 500) for name in names])
        for number in range(12):
            with hub.consignment(f"night {number}") as consignment:
                consignment.stage("w", 0, Message(recipient="r1", id=f"night {number}", data=b"night"))


class _Alone:
    """The carrier of a shard that has all partitions."""

    def ranges(self) -> Ranges:
        return (range(PARTITIONS),)

    def carry(self, partition: int, call: Call[Any]) -> Any:
        raise AssertionError(f"nobody else has partition {partition}, which {call} is about")


def opened(store: MemoryStore, ahead: BlobsAhead | None = None) -> OpenHub:
    shard = Shard(range(PARTITIONS), _Alone())
    return QuietHub(
        store, settings=SETTINGS, origins={}, clock=system_clock, random=os.urandom, shard=shard, ahead=ahead
    )


def survivor_of(store: MemoryStore) -> CountingStore:
    found = CountingStore()
    found._durable = store.survivor()._durable
    return found


def test_rows_are_fetched_at_once_however_many_partitions_and_consignments_there_are() -> None:
    store = MemoryStore()
    filled(store)
    counting = survivor_of(store)
    opened(counting).close()
    assert counting.asked["fetch"] == 1
    assert counting.asked["scan"] + counting.asked["get"] < 5


def test_what_was_read_of_blobs_ahead_is_not_read_again() -> None:
    store = MemoryStore()
    filled(store)
    looking, counting = survivor_of(store), survivor_of(store)
    ahead = look_ahead(looking, range(PARTITIONS))
    assert looking.asked["read_blob"] > PARTITIONS
    with sync.Hub(opened(counting, ahead)) as hub:
        assert counting.asked["read_blob"] == 0
        assert hub.producer.send([Message(recipient="r3", id="r3-7", data=b"x" * 500)]).duplicates == 1


def test_an_heir_has_what_was_committed_after_it_looked() -> None:
    store = MemoryStore()
    filled(store)
    after = store.survivor()
    ahead = look_ahead(after, range(PARTITIONS))
    late = [Message(recipient=f"r{number}", id="late", data=b"late") for number in range(40)]
    with restante.open(None, store=after, settings=SETTINGS) as owner:
        owner.producer.send(late)
    with sync.Hub(opened(after.survivor(), ahead)) as heir:
        assert heir.producer.send(late).duplicates == 40


@pytest.mark.parametrize("reverse", [False, True], ids=["forth", "back"])
@pytest.mark.parametrize("limit", [None, 2], ids=["all", "two"])
def test_rows_that_were_fetched_are_scanned_as_in_the_store(reverse: bool, limit: int | None) -> None:
    store, changes = MemoryStore(), Changes()
    for partition in range(3):
        for number in range(5):
            changes.put(partition, Space.RUN, bytes([number]), bytes([partition, number]))
            changes.put(partition, Space.HEAD, bytes([number]), b"head")
    changes.blobs.append((BlobKey(1, 4), [b"content"]))
    store.commit(changes)
    rows = OpeningRows(store, range(1, 3), BlobsAhead())
    for partition in range(3):
        for space in (Space.RUN, Space.HEAD, Space.ERASED):
            for start, end in ((b"", None), (b"\1", b"\4"), (b"\1", b"\1"), (b"\7", None)):
                asked = {"start": start, "end": end, "limit": limit, "reverse": reverse}
                assert rows.scan(partition, space, **asked) == store.scan(partition, space, **asked)  # type: ignore[arg-type]
            for key in (b"\0", b"\4", b"\5", b""):
                assert rows.get(partition, space, key) == store.get(partition, space, key)
    assert [rows.blobs(partition) for partition in (1, 2)] == [[BlobKey(1, 4)], []]
    assert bytes(rows.read_blob(BlobKey(1, 4), 1, 3)) == b"ont"
