"""Another number of shards for a database that nobody serves.

Rows are kept by partition, so none moves. One transaction replaces the table of shards, and makes or removes the rows that
only several shards have. So a crash at any moment leaves either the old shards or the new ones.
"""

from __future__ import annotations

import os
import platform
from contextlib import closing

from restante.assembly import enter_nodes, look_at_shards, open_database, open_hub
from restante.cluster.local_shards import ShardHubs
from restante.cluster.reshard import SETTLE_SECONDS, Resharded
from restante.errors import DataLocked, InvalidRequest
from restante.hub.engine.partitions import load_deed
from restante.hub.upkeep.copy import LEFT_OUT
from restante.hub.upkeep.shard_rows import rows_hidden_alone, rows_hidden_apart, rows_of_several
from restante.model.shards.ranges import Ranges, even_ranges
from restante.model.storage.changes import Changes, EntryKey
from restante.ports.carrier import Shard
from restante.ports.membership import WholeStore
from restante.ports.store import StoreReader
from restante.settings import Settings


def database_shard_count(url: str, settings: Settings) -> int:
    return len(_founded(url, settings))


def reshard_database(url: str, shards: int, settings: Settings) -> Resharded:
    """Give a database so many shards. Clients see no difference but in speed: numbers and positions stay."""
    before = database_shard_count(url, settings)
    if before == shards:
        return Resharded(before, shards, 0, 0)
    settle_database(url, settings)
    with closing(open_database(url, settings)) as store:
        deed = load_deed(store)
        if deed is None or store.shard_count != before:
            raise DataLocked("Somebody else has changed the store meanwhile. Try again.")
        ranges = even_ranges(deed.partition_count, shards)
        changes = _changed(store, before, ranges)
        store.cut([own.start for own in ranges], changes)
    put = [len(key.key) + len(value) for key, value in changes.entries.items() if value is not None]
    return Resharded(before, shards, len(changes.entries), sum(put))


def settle_database(url: str, settings: Settings) -> None:
    """Open a database once, so that it is of this version, and nothing is under way between its shards. `DataLocked` if it is served."""
    ranges = _founded(url, settings)
    if len(ranges) == 1:
        open_hub(url, settings=settings).close()
        return
    open_database(url, settings).close()  # nobody owns any of it, or has died for as long as its lease
    with DatabaseShards(url, ranges, settings) as hubs:
        hubs.settle(SETTLE_SECONDS)


class DatabaseShards(ShardHubs):
    """The shards of a database, all owned by this process."""

    def __init__(self, url: str, ranges: Ranges, settings: Settings) -> None:
        super().__init__(ranges)
        node = enter_nodes(url, f"{platform.node()}, process {os.getpid()}", settings, b"")
        with self._kept as kept:
            kept.callback(node.close)
            for number, own in enumerate(ranges):
                store = node.take(number)
                if store is None:
                    raise DataLocked(f"A node has taken shard {number} meanwhile. Stop all nodes first.")
                self._open(open_hub(None, settings=settings, store=store, shard=Shard(own, self)))
            self._kept = kept.pop_all()


def _founded(url: str, settings: Settings) -> Ranges:
    shared = look_at_shards(url, settings)
    if shared is None:
        raise InvalidRequest(f"Nothing is stored in {url} yet: make it with `restante migrate --store … --shards N`.")
    return shared.ranges


def _changed(store: WholeStore, before: int, ranges: Ranges) -> Changes:
    """The rows that are other with so many shards."""
    count, changes = ranges[-1].stop, Changes()
    if len(ranges) == 1:
        gone = rows_hidden_alone(store, count)
    else:
        gone = rows_hidden_apart(store, ranges)
        changes.entries.update(rows_of_several(store, count) if before == 1 else {})
    changes.entries.update(dict.fromkeys(gone | _left_out(store, count)))
    return changes


def _left_out(store: StoreReader, partition_count: int) -> frozenset[EntryKey]:
    """The spaces of rows that no copy has either."""
    return frozenset(
        EntryKey(partition, space, key)
        for partition in range(partition_count)
        for space in LEFT_OUT
        for key, _ in store.scan(partition, space)
    )
