"""Any history of a store, compared with plain dictionaries that do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from restante.errors import DataDamaged, StoreConflict
from restante.limits import KIB
from restante.model.storage.changes import BlobKey, Changes, EntryKey, Space
from restante.ports.store import Store

PARTITIONS = 3

_partitions = st.integers(0, PARTITIONS - 1)
_spaces = st.sampled_from([Space.META, Space.RUN, Space.ERASED])
# Few letters, the extremes among them, so that keys meet and one is often the beginning of another.
_keys = st.lists(st.sampled_from([b"\x00", b"a", b"\xff"]), max_size=3).map(b"".join)
_entries = st.dictionaries(
    st.builds(EntryKey, _partitions, _spaces, _keys), st.none() | st.binary(max_size=40), max_size=8
)
# Some small and some that are large on any engine.
_blob_sizes = st.sampled_from([0, 1, 700, 20 * KIB, 300 * KIB])


class StoreMachine(RuleBasedStateMachine):
    """Opens a store in `folder`, and again whenever the history says so."""

    def __init__(
        self, open_store: Callable[[Path], Store], reopen: Callable[[Store, Path], Store], folder: Path
    ) -> None:
        super().__init__()
        self.folder = folder / "data"
        self.reopen_store = reopen
        self.store = open_store(self.folder)
        self.fence = self.store.raise_fences(PARTITIONS)
        self.entries: dict[EntryKey, bytes] = {}
        self.blobs: dict[BlobKey, bytes] = {}
        self.last_number = 0

    @rule(entries=_entries, sizes=st.lists(_blob_sizes, max_size=3), dropped=st.integers(0, 2), partition=_partitions)
    def commit(self, entries: dict[EntryKey, bytes | None], sizes: list[int], dropped: int, partition: int) -> None:
        blobs = {self.new_blob(partition): self.content(size) for size in sizes}
        gone = list(self.blobs)[:dropped]
        self.store.commit(
            Changes(
                entries=entries,
                blobs=[(blob, [data[:1], data[1:]]) for blob, data in blobs.items()],
                dropped=gone,
                fences=dict.fromkeys(range(PARTITIONS), self.fence),
            )
        )
        for entry, value in entries.items():
            if value is None:
                self.entries.pop(entry, None)
            else:
                self.entries[entry] = value
        self.blobs = {blob: data for blob, data in (self.blobs | blobs).items() if blob not in gone}

    @rule(entries=_entries, size=_blob_sizes, partition=_partitions)
    def commit_with_a_stale_fence(self, entries: dict[EntryKey, bytes | None], size: int, partition: int) -> None:
        stale = Changes(entries=entries, dropped=list(self.blobs), fences={partition: self.fence - 1})
        stale.blobs.append((self.new_blob(partition), [self.content(size)]))
        with pytest.raises(StoreConflict):
            self.store.commit(stale)

    @rule(size=_blob_sizes, partition=_partitions)
    def put_blob(self, size: int, partition: int) -> None:
        blob = self.new_blob(partition)
        self.blobs[blob] = self.content(size)
        self.store.put_blob(blob, [self.blobs[blob]], fence=self.fence)

    @rule(partition=_partitions, space=_spaces, start=_keys, end=st.none() | _keys, limit=st.none() | st.integers(0, 4))
    def scan(self, partition: int, space: Space, start: bytes, end: bytes | None, limit: int | None) -> None:
        rows = [
            (key, value)
            for (of, family, key), value in sorted(self.entries.items())
            if (of, family) == (partition, space) and start <= key and (end is None or key < end)
        ]
        for reverse in (False, True):
            found = self.store.scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)
            assert found == (rows[::-1] if reverse else rows)[:limit]

    @rule(partition=_partitions, space=_spaces, key=_keys)
    def get(self, partition: int, space: Space, key: bytes) -> None:
        assert self.store.get(partition, space, key) == self.entries.get(EntryKey(partition, space, key))

    @rule(keys=st.lists(st.builds(EntryKey, _partitions, _spaces, _keys), max_size=8))
    def get_many(self, keys: list[EntryKey]) -> None:
        assert self.store.get_many(keys) == {key: self.entries[key] for key in keys if key in self.entries}

    @precondition(lambda self: self.blobs)
    @rule(data=st.data())
    def read_a_slice(self, data: st.DataObject) -> None:
        blob = data.draw(st.sampled_from(sorted(self.blobs)))
        content = self.blobs[blob]
        offset = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, len(content) - offset))
        assert bytes(self.store.read_blob(blob, offset, length)) == content[offset : offset + length]
        with pytest.raises(DataDamaged):
            self.store.read_blob(blob, offset, len(content) - offset + 1)

    @rule()
    def reopen(self) -> None:
        self.store = self.reopen_store(self.store, self.folder)

    @rule()
    def raise_fences(self) -> None:
        fence = self.store.raise_fences(PARTITIONS)
        assert fence > self.fence
        self.fence = fence

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @invariant()
    def the_same_blobs_are_there(self) -> None:
        for partition in range(PARTITIONS):
            assert self.store.blobs(partition) == sorted(blob for blob in self.blobs if blob.partition == partition)

    def teardown(self) -> None:
        found = {
            EntryKey(partition, space, key): value
            for partition in range(PARTITIONS)
            for space in Space
            for key, value in self.store.scan(partition, space)
        }
        self.store.close()
        assert found == self.entries

    def new_blob(self, partition: int) -> BlobKey:
        self.last_number += 1
        return BlobKey(partition, self.last_number)

    def content(self, size: int) -> bytes:
        return bytes([self.last_number % 256]) * size
