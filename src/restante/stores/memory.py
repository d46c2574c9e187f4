"""The memory engine: it keeps the contract without a disk, for tests of everything above the store.

It can carry out a commit in separate steps and fail between any two of them, like a machine that crashes there. Because a
commit is atomic, such a crash leaves either all of it, or blobs that no entry names. `fail_at` orders a failure, and
`survivor` is the store that the next owner finds.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from restante.errors import (
    DataDamaged,
    NotOwner,
    OutcomeUnknown,
    RestanteError,
    StorageFull,
    StoreConflict,
    Unavailable,
)
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.ports.store import FetchedRows, StoreSize

_Step = Callable[[], None]


@dataclass(slots=True)
class _Table:
    """The entries of one space in one partition: the values, and their keys in order."""

    keys: list[bytes] = field(default_factory=list)
    values: dict[bytes, bytes] = field(default_factory=dict)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


@dataclass(slots=True)
class _Durable:
    """The rows and blobs that a crash leaves."""

    tables: defaultdict[tuple[int, Space], _Table] = field(default_factory=lambda: defaultdict(_Table))
    blobs: dict[BlobKey, bytes] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)
    commits: int = 0
    written_bytes: int = 0


class MemoryStore:
    """A `Store` in memory. Use `survivor` where another engine would be opened again.

    It is `shared`, although no other process can take it, so that the hub's tests cover the handling of shared stores.
    """

    shared = True

    def __init__(self) -> None:
        self._durable = _Durable()
        self._lock = threading.Lock()
        self._stopped: str | None = None
        self._closed = False
        self._fail_after: int | None = None
        self._failure: RestanteError | None = None
        self._doubtful_since: int | None = None
        """The number of commits before the one whose outcome is unknown."""
        self._unresolved: RestanteError | None = None
        self.owned = True
        """Whether the store is still owned. Tests end this."""

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        with self._lock:
            self._require_open()
            return self._durable.tables[partition, space].values.get(key)

    def scan(
        self,
        partition: int,
        space: Space,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[bytes, bytes]]:
        with self._lock:
            self._require_open()
            table = self._durable.tables[partition, space]
            first = bisect_left(table.keys, start)
            last = len(table.keys) if end is None else bisect_left(table.keys, end)
            if limit is not None:
                first, last = (max(first, last - limit), last) if reverse else (first, min(last, first + limit))
            keys = table.keys[first:last]
            if reverse:
                keys.reverse()
            return [(key, table.values[key]) for key in keys]

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        with self._lock:
            self._require_open()
            data = self._durable.blobs.get(blob)
        if data is None:
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} is missing.")
        if offset + length > len(data):
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} ends before byte {offset + length}.")
        return memoryview(data)[offset : offset + length]

    def blob_size(self, blob: BlobKey) -> int:
        with self._lock:
            self._require_open()
            data = self._durable.blobs.get(blob)
        if data is None:
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} is missing.")
        return len(data)

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        with self._lock:
            self._require_open()
            tables = self._durable.tables
            found = ((entry, tables[entry.partition, entry.space].values.get(entry.key)) for entry in keys)
            return {entry: value for entry, value in found if value is not None}

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        with self._lock:
            self._require_writable()
            self._require_fences({blob.partition: fence})
            self._carry_out([partial(self._write_blob, blob, parts)], blobs=[blob])

    def put_blobs(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]], *, fence: int) -> None:
        for blob, parts in blobs:
            self.put_blob(blob, parts, fence=fence)

    def blobs(self, partition: int) -> list[BlobKey]:
        with self._lock:
            self._require_open()
            return sorted(blob for blob in self._durable.blobs if blob.partition == partition)

    def fetch(self, partitions: range, spaces: Sequence[Space]) -> FetchedRows:
        asked = [(partition, space) for partition in partitions for space in spaces]
        return FetchedRows({own: self.scan(*own) for own in asked}, {own: self.blobs(own) for own in partitions})

    def raise_fences(self, partition_count: int, *, first: int = 0) -> int:
        with self._lock:
            self._require_writable()
            fences = self._durable.fences
            fence = max(fences.values(), default=0) + 1
            fences.update(dict.fromkeys(range(first, partition_count), fence))
            return fence

    def commit(self, changes: Changes) -> None:
        with self._lock:
            self._require_writable()
            self._require_fences(changes.fences)
            commits = self._durable.commits
            try:
                self._carry_out(self._steps(changes), blobs=[blob for blob, _ in changes.blobs])
            except OutcomeUnknown:
                self._doubtful_since = commits
                raise

    def resolve(self) -> bool:
        with self._lock:
            self._require_open()
            assert self._doubtful_since is not None, "there is a commit in doubt"
            if self._unresolved is not None:
                raise self._unresolved
            stored = self._durable.commits > self._doubtful_since
            self._doubtful_since = None
            return stored

    def is_quick(self, byte_count: int) -> bool:  # noqa: ARG002 - memory is always quick
        return True

    def require_owned(self) -> None:
        if not self.owned:
            raise NotOwner("The lease of the store has ended.")

    def lease_seconds(self) -> float | None:
        return None

    def scrub(self) -> bool:
        """Do nothing, because there are no files."""
        return True

    def failure(self) -> str | None:
        return self._stopped

    def checkpoint(self) -> None:
        """Do nothing, because there is nothing to tidy up."""

    def size(self) -> StoreSize:
        with self._lock:
            entries = sum(
                len(key) + len(value) for table in self._durable.tables.values() for key, value in table.values.items()
            )
            blobs = sum(map(len, self._durable.blobs.values()))
            return StoreSize(stored_bytes=entries + blobs, written_bytes=self._durable.written_bytes)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def fail_at(self, step: int | None, error: RestanteError | None = None) -> None:
        """Make the next write fail after `step` of its steps. After its last step, it is stored, but not answered.

        After `StorageFull` nothing is changed, and the store goes on. After `OutcomeUnknown` it goes on when `resolve` has
        reported the outcome. After any other error (`Unavailable` by default) it refuses to write, like an engine that
        cannot know what its disk holds; continue with the `survivor`.

        A write with fewer steps fails after its last one. None cancels the failure.
        """
        self._fail_after = step
        self._failure = error or Unavailable("A failure was ordered here; reopen the store to go on.")

    def keep_in_doubt(self, error: RestanteError | None) -> None:
        """Make `resolve` raise this error until this is called again with None."""
        self._unresolved = error

    def survivor(self) -> MemoryStore:
        """A store with a copy of the durable data of this one, as found after a crash or a restart."""
        survivor = MemoryStore()
        with self._lock:
            survivor._durable = deepcopy(self._durable)
        survivor._durable.written_bytes = 0
        return survivor

    def _steps(self, changes: Changes) -> list[_Step]:
        """A commit as steps: write each blob, prepare the entries of each partition, make everything visible."""
        blobs: list[_Step] = [partial(self._write_blob, blob, parts) for blob, parts in changes.blobs]
        # Prepared entries are invisible: a crash after one of these steps leaves the same as a crash before it.
        groups: list[_Step] = [_prepare_entries for _ in {entry.partition for entry in changes.entries}]
        return [*blobs, *groups, partial(self._make_visible, changes)]

    def _carry_out(self, steps: Sequence[_Step], blobs: Iterable[BlobKey]) -> None:
        fail_after, self._fail_after = self._fail_after, None
        for step in steps if fail_after is None else steps[:fail_after]:
            step()
        if fail_after is None:
            return
        assert self._failure is not None
        if isinstance(self._failure, StorageFull):
            assert fail_after < len(steps), "a write that is whole has found room"
            for blob in blobs:
                self._durable.blobs.pop(blob, None)
        elif isinstance(self._failure, OutcomeUnknown):
            # Blobs of a commit that was not stored were rolled back with its transaction.
            for blob in blobs if fail_after < len(steps) else ():
                self._durable.blobs.pop(blob, None)
        else:
            self._stopped = self._failure.message
        raise self._failure

    def _write_blob(self, blob: BlobKey, parts: Sequence[Buffer]) -> None:
        assert blob not in self._durable.blobs, "a blob is written once, under a number never used before"
        data = b"".join(parts)
        self._durable.blobs[blob] = data
        self._durable.written_bytes += len(data)

    def _make_visible(self, changes: Changes) -> None:
        for entry, value in changes.entries.items():
            self._write_entry(entry, value)
        for blob in changes.dropped:
            self._durable.blobs.pop(blob, None)
        self._durable.commits += 1

    def _write_entry(self, entry: EntryKey, value: bytes | None) -> None:
        table = self._durable.tables[entry.partition, entry.space]
        if value is None:
            table.delete(entry.key)
        else:
            table.put(entry.key, value)
            self._durable.written_bytes += len(entry.key) + len(value)

    def _require_fences(self, fences: Mapping[int, int]) -> None:
        for partition, fence in fences.items():
            if self._durable.fences.get(partition) != fence:
                raise StoreConflict(f"Another owner has taken partition {partition}; nothing was changed.")

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")

    def _require_writable(self) -> None:
        self._require_open()
        if self._stopped is not None:
            raise Unavailable(self._stopped)
        if self._doubtful_since is not None:
            raise Unavailable("The outcome of the last commit is not known yet.")


def _prepare_entries() -> None:
    pass
