"""Directories of filed segments are read when somebody asks for them, and few stay in memory."""

from __future__ import annotations

import pytest

import restante
from restante import limits
from restante.client.surface.surface import Hub
from restante.hub.engine.fronts import Fronts
from restante.model.storage.changes import BlobKey
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside
from tests.hub.engines import FakeClock
from tests.hub.letters import letter, numbers_of
from tests.hub.test_identities import CountingStore

NAMES = [f"name {number}" for number in range(40)]
SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False)


def open_hub(store: MemoryStore, clock: FakeClock | None = None) -> Hub:
    return restante.open(None, store=store, settings=SETTINGS, clock=clock or FakeClock())


@pytest.fixture
def furnished(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A shelf of many small segments; nothing is left to be read for identities."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES_TARGET", 2_000)
    monkeypatch.setattr(limits, "FILING_FEW_MESSAGES_MAX", 0)
    monkeypatch.setattr(limits, "IDENTITIES_IN_MEMORY_MAX", 1)
    store = MemoryStore()
    with open_hub(store) as hub:
        for number in range(8):
            hub.producer.send([letter(100 * number + at, name) for at, name in enumerate(NAMES)])
        hub.file()
    return store


def shelf_blobs(hub: Hub) -> set[BlobKey]:
    (partition,) = inside(hub).core.partitions
    (run,) = partition.runs
    return {stored.blob for stored in run.segments}


def test_opening_reads_no_directory_and_a_peek_only_those_that_may_have_it(furnished: MemoryStore) -> None:
    store = CountingStore(furnished)
    with open_hub(store) as hub:
        blobs = shelf_blobs(hub)
        assert not blobs & store.read.keys()
        bundle = hub.recipient(NAMES[3]).peek()
        assert bundle is not None
        assert numbers_of(bundle.messages) == [100 * number + 3 for number in range(8)]
        assert 1 <= len(blobs & store.read.keys()) <= 4 < len(blobs)


def test_the_first_hash_of_a_segment_is_in_its_row(furnished: MemoryStore) -> None:
    with open_hub(furnished.survivor()) as hub:
        (partition,) = inside(hub).core.partitions
        for run in partition.runs:
            told = [place.first_hash for place in run.row.segments]
            assert told == [int(stored.segment.recipient_hash[0]) for stored in run.segments]
            expiries = [int(stored.segment.drawers["earliest_expiry"].min()) for stored in run.segments]
            assert [place.earliest_expiry for place in run.row.segments] == expiries


@pytest.mark.parametrize("bytes_max", [0, 3_000])
def test_with_room_for_few_directories_everything_is_found(
    furnished: MemoryStore, bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FRONTS_BYTES_MAX", bytes_max)
    store, clock = furnished.survivor(), FakeClock()
    with open_hub(store, clock) as hub:
        assert len(list(hub.recipients().recipients)) == len(NAMES)
        for place, name in enumerate(NAMES):
            bundle = hub.recipient(name).peek()
            assert bundle is not None
            assert numbers_of(bundle.messages) == [100 * number + place for number in range(8)]
            bundle.dequeue()
        fronts = inside(hub).core.partitions[0].fronts
        assert fronts._lately._bytes <= bytes_max
        hub.expire()
        clock.advance(SETTINGS.collected_retention_seconds + 1)
        hub.retain()
        assert not inside(hub).core.partitions[0].runs


def test_what_expires_is_found_by_the_row_of_its_run(furnished: MemoryStore) -> None:
    clock = FakeClock()
    store = CountingStore(furnished)
    with open_hub(store, clock) as hub:
        assert hub.expire() == 0
        assert not shelf_blobs(hub) & store.read.keys()


def test_an_erasure_leaves_no_directory_in_memory(furnished: MemoryStore) -> None:
    with open_hub(furnished.survivor()) as hub:
        hub.recipient(NAMES[0]).peek()
        hub.recipient(NAMES[0]).erase()
        fronts = inside(hub).core.partitions[0].fronts
        assert isinstance(fronts, Fronts)
        assert not fronts._lately._values
        assert hub.recipient(NAMES[1]).peek() is not None
