"""The memory engine: the contract, and failures between the steps of a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from restante.errors import OutcomeUnknown, StorageFull, Unavailable
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.store import Store
from restante.stores.memory import MemoryStore
from restante.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    def open(self, folder: Path) -> Store:
        return MemoryStore()

    def reopen(self, store: Store, folder: Path) -> Store:
        assert isinstance(store, MemoryStore)
        store.close()
        return store.survivor()

    def lose_answer(self, store: Store, *, stored: bool) -> None:
        assert isinstance(store, MemoryStore)
        # A blob, the entries of a partition, and being seen.
        store.fail_at(3 if stored else 1, OutcomeUnknown("The answer is lost."))


def two_of_each() -> Changes:
    changes = Changes(blobs=[(BlobKey(0, 1), [b"one"]), (BlobKey(1, 1), [b"two"])], dropped=[BlobKey(0, 0)])
    changes.put(0, Space.RUN, b"a", b"1")
    changes.put(1, Space.RUN, b"b", b"2")
    return changes


def store_with_a_blob() -> MemoryStore:
    store = MemoryStore()
    store.put_blob(BlobKey(0, 0), [b"zero"], fence=store.raise_fences(1))
    return store


STEPS = 2 + 2 + 1
"""Of that commit: each blob, each partition, and being seen."""


@pytest.mark.parametrize("step", range(STEPS))
def test_a_crash_before_the_last_step_leaves_blobs_that_no_entry_names(step: int) -> None:
    store = store_with_a_blob()
    store.fail_at(step)
    with pytest.raises(Unavailable):
        store.commit(two_of_each())
    found = store.survivor()
    assert found.scan(0, Space.RUN) == found.scan(1, Space.RUN) == []
    assert found.blobs(0) == [BlobKey(0, 0), BlobKey(0, 1)][: 1 + step]
    assert found.blobs(1) == [BlobKey(1, 1)][: max(0, step - 1)]


def test_a_crash_after_the_last_step_leaves_all_of_it_and_no_answer() -> None:
    store = store_with_a_blob()
    store.fail_at(STEPS)
    with pytest.raises(Unavailable):
        store.commit(two_of_each())
    found = store.survivor()
    assert (found.get(0, Space.RUN, b"a"), found.get(1, Space.RUN, b"b")) == (b"1", b"2")
    assert (found.blobs(0), found.blobs(1)) == ([BlobKey(0, 1)], [BlobKey(1, 1)])


def test_a_store_that_failed_refuses_to_write_until_it_is_opened_again() -> None:
    store = store_with_a_blob()
    store.fail_at(0)
    with pytest.raises(Unavailable):
        store.commit(two_of_each())
    with pytest.raises(Unavailable):
        store.commit(two_of_each())
    survivor = store.survivor()
    survivor.commit(two_of_each())
    assert survivor.get(0, Space.RUN, b"a") == b"1"


@pytest.mark.parametrize("step", range(5))
def test_a_full_store_changes_nothing_and_goes_on(step: int) -> None:
    store = store_with_a_blob()
    store.fail_at(step, StorageFull("no room"))
    with pytest.raises(StorageFull):
        store.commit(two_of_each())
    assert (store.blobs(0), store.blobs(1)) == ([BlobKey(0, 0)], [])
    store.commit(two_of_each())
    assert store.get(1, Space.RUN, b"b") == b"2"


def test_an_ordered_failure_can_be_taken_back() -> None:
    store = MemoryStore()
    store.fail_at(0)
    store.fail_at(None)
    store.commit(two_of_each())
    assert store.get(0, Space.RUN, b"a") == b"1"


def test_a_survivor_is_a_copy() -> None:
    store = MemoryStore()
    store.commit(two_of_each())
    survivor = store.survivor()
    survivor.commit(Changes(dropped=[BlobKey(0, 1)]))
    assert store.blobs(0) == [BlobKey(0, 1)]
