"""The store: an ordered map with blobs, that commits one `Changes` value whole or not at all.

An engine decides nothing but how bytes lie. Everything it promises is in `restante.testing.store_contract`:

- `commit` is atomic over everything in it, durable when it returns, and refused with `StoreConflict` (nothing
  changed) when a partition's fence differs from the one given. No disk space left is `StorageFull`, nothing
  changed, and the store goes on working when there is room again.
- Three ways in which a commit fails otherwise. `OutcomeUnknown`: it may be stored; nothing is committed until `resolve`
  has said whether it is. `Unavailable` while `failure` gives None: nothing was changed, and the same commit may be
  stored later. `Unavailable` with a `failure`: the store has stopped, and only opening it finds out.
- `get`, `scan` and `read_blob` see all that was committed before they were called and nothing uncommitted. They may
  be called from any thread, beside a commit. Commits come from one thread at a time.
- `put_blob` makes a blob durable ahead of the commit that will name it in an entry, and is refused like a commit if the
  fence is another. The hub drops blobs that no entry names: `blobs` lists all that there are.
- A store is `shared` if another process may take it while this one has it open. Then blob numbers begin with the fence,
  and an answer that rests on no commit is given only after `require_owned`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space


class StoreSize(NamedTuple):
    """The bytes that the store occupies, and that it has written since it was opened (journals included)."""

    stored_bytes: int
    written_bytes: int


class BlobPlace(NamedTuple):
    """The place of a blob: its file, its first byte there, and its length."""

    path: str
    start: int
    length: int


class FetchedRows(NamedTuple):
    """All entries of some spaces and all blobs, of some partitions."""

    rows: dict[tuple[int, Space], list[tuple[bytes, bytes]]]
    """The entries in key order; a partition and space without any may be missing."""
    blobs: dict[int, list[BlobKey]]
    """Ascending; a partition that has none may be missing."""


@runtime_checkable
class FetchesRows(Protocol):
    """A store that is far away: what many scans would give, it gives at once."""

    def fetch(self, partitions: range, spaces: Sequence[Space]) -> FetchedRows:
        """The rows of these spaces in these partitions. They are of one moment if no commit comes in between."""
        ...


@runtime_checkable
class BlobsInFiles(Protocol):
    """A store whose blobs other processes of this machine can read, too, as long as a reader here is pinned to them."""

    def blob_place(self, blob: BlobKey) -> BlobPlace | None:
        """Where the blob lies; None if it is in no file."""
        ...


class StoreReader(Protocol):
    """The reads of a store. All methods raise only errors of `restante.errors`."""

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        """The values of those that are there, for the price of one `get` where the store is far away.

        They are of one moment if no commit comes in between.
        """
        ...

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
        """Entries with start ≤ key < end in key order (or the reverse), at most `limit`."""
        ...

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        """Exactly that slice; `DataDamaged` when the blob is missing or shorter."""
        ...

    def blob_size(self, blob: BlobKey) -> int:
        """The length of a blob in bytes; `DataDamaged` when the blob is missing."""
        ...

    def blobs(self, partition: int) -> list[BlobKey]:
        """All blobs of a partition, ascending."""
        ...

    def size(self) -> StoreSize: ...

    def close(self) -> None: ...


class Store(StoreReader, Protocol):
    """A store engine. All methods raise only errors of `restante.errors`."""

    @property
    def shared(self) -> bool:
        """Whether another process may take the store while this one has it open."""
        ...

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        """Write a blob durably before any commit names it; `StoreConflict` if its partition has another fence.

        After `Unavailable` it may be there all the same: its number is not used again.
        """
        ...

    def put_blobs(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]], *, fence: int) -> None:
        """Write several blobs as `put_blob` does, together where that is cheaper. After an error some of them may be there."""
        ...

    def raise_fences(self, partition_count: int, *, first: int = 0) -> int:
        """Take the partitions from `first` on, below `partition_count`: gives a fence higher than any before, durably."""
        ...

    def commit(self, changes: Changes) -> None: ...

    def is_quick(self, byte_count: int) -> bool:
        """Whether a commit of so many bytes, made now, would wait for nothing but one flush, and flushes take little time."""
        ...

    def resolve(self) -> bool:
        """Whether the commit that ended in `OutcomeUnknown` is stored. Looked up, never guessed.

        `Unavailable` if the store cannot say yet; `StoreConflict` if another owner has taken it, or commits are lost.
        """
        ...

    def require_owned(self) -> None:
        """Raise `NotOwner` if another may own the store by now. If it returns, everything that was read before is still true."""
        ...

    def lease_seconds(self) -> float | None:
        """The time that is left for which it is owned; None: for as long as it is open."""
        ...

    def checkpoint(self) -> None:
        """Tidy up what commits left behind (journals, deleted files); may be called from any thread."""
        ...

    def scrub(self) -> bool:
        """Leave nothing in the files of what was dropped and deleted before; False if that must be tried again later.

        It may take long, and holds up no commit for long.
        """
        ...

    def failure(self) -> str | None:
        """Why nothing is committed any more until the store is opened again; None while it works."""
        ...
