"""The store: an ordered map with blobs, that commits one `Changes` value whole or not at all.

An engine decides nothing but how bytes lie. Everything it promises is in `restante.testing.store_contract`:

- `commit` is atomic over everything in it, durable when it returns, and refused with `StoreConflict` (nothing
  changed) when a partition's fence differs from the one given. No disk space left is `StorageFull`, nothing
  changed, and the store goes on working when there is room again.
- `get`, `scan` and `read_blob` see all that was committed before they were called and nothing uncommitted. They may
  be called from any thread, beside a commit. Commits come from one thread at a time.
- `put_blob` makes a blob durable ahead of the commit that will name it in an entry. What was put and is not kept by
  anybody is the hub's to drop: `blobs` lists what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.model.storage.changes import BlobKey, Buffer, Changes, Space


class StoreSize(NamedTuple):
    """What the store occupies, and what it has written since it was opened (journals included), in bytes."""

    stored_bytes: int
    written_bytes: int


class Store(Protocol):
    """A store engine. All methods raise only errors of `restante.errors`."""

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        """The value, or None."""
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

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer]) -> None:
        """Write a blob durably before any commit names it."""
        ...

    def blobs(self, partition: int) -> list[BlobKey]:
        """All blobs of a partition, ascending."""
        ...

    def raise_fences(self, partition_count: int) -> int:
        """Take every partition below `partition_count`: gives and stores a fence higher than any before, durably."""
        ...

    def commit(self, changes: Changes) -> None: ...

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

    def size(self) -> StoreSize: ...

    def close(self) -> None: ...
