"""The folders of several shards, read as one store: each partition from the shard that has it. No hub may have them open."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from restante.assembly import open_moment, open_store
from restante.cluster.shard_folders import ShardTable, read_table, require_folders, shard_folders
from restante.errors import DataDamaged
from restante.hub.engine.partitions import load_deed
from restante.model.shards.ranges import Ranges, shard_of
from restante.model.storage.changes import BlobKey, Buffer, EntryKey, Space
from restante.ports.store import Store, StoreReader, StoreSize
from restante.settings import Settings
from restante.settings.texts import is_store_url
from restante.stores.sqlite.data_folder import FolderLock


class JoinedShards:
    """A `StoreReader` over the stores of all shards."""

    def __init__(self, ranges: Ranges, stores: Sequence[StoreReader], kept: ExitStack) -> None:
        self._ranges = ranges
        self.stores = stores
        self._kept = kept
        """Resources that end with these shards: the lock of the folder, the stores."""

    def _of(self, partition: int) -> StoreReader:
        return self.stores[shard_of(self._ranges, partition)]

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        return self._of(partition).get(partition, space, key)

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        found = ((entry, self.get(*entry)) for entry in keys)
        return {entry: value for entry, value in found if value is not None}

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
        return self._of(partition).scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        return self._of(blob.partition).read_blob(blob, offset, length)

    def blob_size(self, blob: BlobKey) -> int:
        return self._of(blob.partition).blob_size(blob)

    def blobs(self, partition: int) -> list[BlobKey]:
        return self._of(partition).blobs(partition)

    def size(self) -> StoreSize:
        sizes = [store.size() for store in self.stores]
        return StoreSize(sum(size.stored_bytes for size in sizes), sum(size.written_bytes for size in sizes))

    def close(self) -> None:
        self._kept.close()


def open_shards(folder: Path, table: ShardTable) -> JoinedShards:
    """The shards of a folder that nobody serves; the folder is locked until it is closed."""
    with ExitStack() as kept:
        kept.callback(FolderLock(folder).release)
        require_folders(folder, table)
        stores: list[Store] = []
        for own in shard_folders(folder, table):
            stores.append(open_store(own))
            kept.callback(stores[-1].close)
        _require_of_one_hub(folder, table, stores)
        return JoinedShards(table.ranges, stores, kept.pop_all())


def _require_of_one_hub(folder: Path, table: ShardTable, stores: Sequence[StoreReader]) -> None:
    for own, store in zip(shard_folders(folder, table), stores, strict=True):
        deed = load_deed(store)
        if deed is not None and (deed.partition_count, deed.key) != (table.partition_count, table.key):
            raise DataDamaged(f"{own} is of another hub than {folder} says: restore it from a backup.")


def open_look(place: str | os.PathLike[str], settings: Settings | None = None) -> StoreReader:
    """A store to be looked at: a data folder that nobody serves, of one shard or of several, or a database."""
    table = None if is_store_url(os.fspath(place)) else read_table(Path(place))
    return open_moment(place, settings) if table is None else open_shards(Path(place), table)


def partitions_of(place: str | os.PathLike[str]) -> range | None:
    """The partitions of a folder that is one of several shards; None of any other place."""
    if is_store_url(os.fspath(place)):
        return None
    path = Path(place).resolve()
    table = read_table(path.parent)
    folders = [] if table is None else shard_folders(path.parent, table)
    return table.ranges[folders.index(path)] if table is not None and path in folders else None
