"""Large publishes, whose mailbags are written ahead of the commit that names them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import MessageConflict, RestanteError, StorageFull, Unavailable
from restante.hub.publishing.large_publish import _AHEAD_BYTES_MIN
from restante.model.publishing.message import Message
from restante.model.storage.changes import BlobKey, Buffer, Changes
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, filing=False)
COUNT = 400


class LocalStore(MemoryStore):
    """A store of one process that tells what it is asked for, and may be disturbed when blobs were written."""

    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.ahead: list[BlobKey] = []
        self.in_commits: list[BlobKey] = []
        self.after_blobs: Callable[[], object] = lambda: None

    def put_blobs(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]], *, fence: int) -> None:
        super().put_blobs(blobs, fence=fence)
        self.ahead += [blob for blob, _ in blobs]
        after, self.after_blobs = self.after_blobs, lambda: None
        after()

    def commit(self, changes: Changes) -> None:
        super().commit(changes)
        self.in_commits += [blob for blob, _ in changes.blobs]


@pytest.fixture
def store() -> LocalStore:
    return LocalStore()


@pytest.fixture
def hub(store: LocalStore) -> Hub:
    return opened(store)


def opened(store: MemoryStore) -> Hub:
    return restante.open(None, store=store, settings=SETTINGS)


def letters(size: int = _AHEAD_BYTES_MIN // COUNT, *, first: int = 0) -> pa.Table:
    """Messages for some recipients in all partitions, together of about the size from which on they are written ahead."""
    numbers = range(first, first + COUNT)
    return pa.table(
        {
            "recipient": [f"recipient {number % 20}" for number in numbers],
            "id": [id_of(number) for number in numbers],
            "data": [number.to_bytes(4, "big") * (size // 4 + 1) for number in numbers],
        }
    )


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def collected(hub: Hub) -> set[str]:
    found: set[str] = set()
    for number in range(20):
        bundle = hub.recipient(f"recipient {number}").peek()
        found |= set() if bundle is None else {str(each.id) for each in bundle.messages}
    return found


ALL = {id_of(number) for number in range(COUNT)}


def assert_only_named(hub: Hub) -> None:
    core = inside(hub).core
    for partition in core.partitions:
        named = {stored.blob for run in partition.runs for stored in run.segments}
        assert set(core.store.blobs(partition.number)) == named


def test_the_mailbags_of_a_large_publish_are_written_before_its_commit(hub: Hub, store: LocalStore) -> None:
    assert hub.producer.send(letters()).accepted == COUNT
    assert len({blob.partition for blob in store.ahead}) == 4
    assert store.in_commits == []
    assert collected(hub) == ALL
    assert_only_named(hub)
    hub.close()
    again = opened(store.survivor())
    assert collected(again) == ALL
    again.close()


def test_a_smaller_publish_is_one_commit(hub: Hub, store: LocalStore) -> None:
    assert hub.producer.send(letters(size=8)).accepted == COUNT
    assert store.ahead == []
    assert len(store.in_commits) == 4
    hub.close()


def test_what_is_in_conflict_meanwhile_is_refused_and_its_mailbags_are_dropped(hub: Hub, store: LocalStore) -> None:
    other = Message(recipient="recipient 7", id=id_of(7), data=b"came in between")
    store.after_blobs = lambda: hub.producer.send(other)
    with pytest.raises(MessageConflict):
        hub.producer.send(letters())
    assert collected(hub) == {id_of(7)}
    hub.file()
    assert_only_named(hub)
    hub.close()


def test_what_came_meanwhile_is_a_duplicate_and_the_rest_is_stored(hub: Hub, store: LocalStore) -> None:
    same = letters().slice(7, 1).to_pylist()[0]
    store.after_blobs = lambda: hub.producer.send(Message(**same))
    receipt = hub.producer.send(letters())
    assert (receipt.accepted, receipt.duplicates) == (COUNT - 1, 1)
    assert collected(hub) == ALL
    hub.file()
    assert collected(hub) == ALL
    assert_only_named(hub)
    hub.close()


@pytest.mark.parametrize("error", [StorageFull("full"), Unavailable("gone")], ids=["full", "unavailable"])
def test_a_commit_that_fails_stores_nothing_and_a_reopened_store_keeps_no_blob_of_it(
    hub: Hub, store: LocalStore, error: RestanteError
) -> None:
    store.after_blobs = lambda: store.fail_at(0, error)
    with pytest.raises(type(error)):
        hub.producer.send(letters())
    hub.close()
    again = opened(store.survivor())
    assert collected(again) == set()
    assert_only_named(again)
    assert again.producer.send(letters()).accepted == COUNT
    assert collected(again) == ALL
    again.close()


def test_a_hub_that_ends_between_mailbags_and_commit_leaves_nothing(hub: Hub, store: LocalStore) -> None:
    left: list[MemoryStore] = []
    store.after_blobs = lambda: left.append(store.survivor())
    hub.producer.send(letters())
    hub.close()
    again = opened(left[0])
    assert collected(again) == set()
    assert_only_named(again)
    again.close()


def test_after_a_disk_that_was_full_the_same_is_stored(hub: Hub, store: LocalStore) -> None:
    store.fail_at(0, StorageFull("full"))
    with pytest.raises(StorageFull):
        hub.producer.send(letters())
    assert hub.producer.send(letters()).accepted == COUNT
    assert collected(hub) == ALL
    hub.file()
    assert_only_named(hub)
    hub.close()


def test_in_a_folder_it_is_one_file_and_sound(tmp_path: Path) -> None:
    with restante.open(tmp_path, settings=SETTINGS) as hub:
        hub.producer.send(letters(size=4096))
        assert len(list((tmp_path / "blobs").iterdir())) == 1
        assert collected(hub) == ALL
    with restante.open(tmp_path, settings=SETTINGS) as hub:
        assert collected(hub) == ALL
        assert_only_named(hub)
