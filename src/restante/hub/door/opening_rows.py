"""The rows that a hub reads when it is opened, fetched at once: a store that is far away would be asked hundreds of times.

They are fetched when the partitions are owned: before, another owner may still change them. A blob never changes, so what was
read of blobs before that, while another owned them, is good.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from restante.hub.door import subjects
from restante.limits import READ_AHEAD_BYTES_MAX
from restante.model.storage.changes import BlobKey, Buffer, EntryKey, Space
from restante.ports.store import FetchesRows, StoreReader, StoreSize

BlobSlice: TypeAlias = tuple[BlobKey, int, int]
"""A blob, where in it, and how much."""

_SPACES = (
    *(
        Space.META,
        Space.PARTITION,
        Space.RUN,
        Space.CONTENT,
        Space.ERASED,
        Space.IDENTITIES,
    ),  # `open_store` reads these
    *subjects.SPACES,
)
"""The spaces of which opening reads all rows."""


class BlobsAhead:
    """The slices of blobs that were read ahead, up to a bound."""

    def __init__(self) -> None:
        self._slices: dict[BlobSlice, bytes] = {}
        self._bytes = 0

    def get(self, wanted: BlobSlice) -> bytes | None:
        return self._slices.get(wanted)

    def keep(self, wanted: BlobSlice, content: Buffer) -> None:
        if self._bytes + len(content) <= READ_AHEAD_BYTES_MAX:
            self._slices[wanted] = bytes(content)
            self._bytes += len(content)


class OpeningRows:
    """A `StoreReader` of partitions that are being opened, or soon will be; forgotten when they are."""

    def __init__(self, store: StoreReader, partitions: range, ahead: BlobsAhead) -> None:
        assert isinstance(store, FetchesRows), "others are asked themselves"
        self._store: StoreReader = store
        self._partitions = partitions
        self._ahead = ahead
        self._rows, self._blobs = store.fetch(partitions, _SPACES)

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        if not self._has(partition, space):
            return self._store.get(partition, space, key)
        found = self.scan(partition, space, start=key, limit=1)
        return found[0][1] if found and found[0][0] == key else None

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        return self._store.get_many(keys)

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
        if not self._has(partition, space):
            return self._store.scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)
        rows = self._rows.get((partition, space), [])
        found = rows[bisect_left(rows, (start,)) : len(rows) if end is None else bisect_left(rows, (end,))]
        return (found[::-1] if reverse else found)[:limit]

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        found: Buffer | None = self._ahead.get((blob, offset, length))
        if found is None:
            found = self._store.read_blob(blob, offset, length)
            self._ahead.keep((blob, offset, length), found)
        return found

    def blob_size(self, blob: BlobKey) -> int:
        return self._store.blob_size(blob)

    def blobs(self, partition: int) -> list[BlobKey]:
        return self._blobs.get(partition, [])

    def size(self) -> StoreSize:
        return self._store.size()

    def close(self) -> None:
        """Close nothing: the store belongs to the caller."""

    def _has(self, partition: int, space: Space) -> bool:
        return partition in self._partitions and space in _SPACES


class NewRows(OpeningRows):
    """A `StoreReader` of partitions in which nothing was ever stored."""

    def __init__(self, store: StoreReader, partitions: range) -> None:
        self._store = store
        self._partitions = partitions
        self._ahead = BlobsAhead()
        self._rows, self._blobs = {}, {}

    def _has(self, partition: int, space: Space) -> bool:
        return space is not Space.META and super()._has(partition, space)


def is_unused(store: StoreReader, partitions: range) -> bool:
    """Whether nothing was ever stored in these partitions: the first commit in one leaves a row of its counters."""
    return not any(store.scan(own, Space.PARTITION, limit=1) or store.blobs(own) for own in partitions)


def opening_rows(
    store: StoreReader, partitions: range, ahead: BlobsAhead | None = None, *, unused: bool = False
) -> StoreReader:
    """The reader for a hub that opens these partitions, after it has taken them."""
    if unused:
        return NewRows(store, partitions)
    if not isinstance(store, FetchesRows):
        return store
    return OpeningRows(store, partitions, BlobsAhead() if ahead is None else ahead)
