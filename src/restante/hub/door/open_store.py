"""Opening a store: whose it is, what it holds, and what a crash left lying about."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from restante.decoders import packed_decoder
from restante.hub.door.opening_rows import BlobsAhead, is_unused, opening_rows
from restante.hub.engine.fronts import Fronts
from restante.hub.engine.identity_reads import load_fingerprints
from restante.hub.engine.identity_upkeep import blobs_of
from restante.hub.engine.partitions import Deed, Partition, create_deed, load_deed, load_partition
from restante.hub.mailboxes.claim_checks import ContentRow
from restante.hub.upkeep.migrate import migrate
from restante.limits import BLOB_NUMBERS_PER_FENCE
from restante.model.storage.changes import Changes, Space
from restante.model.storage.partition import check_new_count
from restante.model.storage.run import decode_run
from restante.ports.carrier import Shard
from restante.ports.store import Store, StoreReader
from restante.settings import Settings

_THREADS = 4


class TakenPartitions(NamedTuple):
    """The partitions that were taken of a store, not yet read."""

    deed: Deed
    fence: int
    owned: range
    unused: bool
    """Whether nothing was ever stored there."""


def take_partitions(
    store: Store, settings: Settings, random: Callable[[int], bytes], shard: Shard | None = None
) -> TakenPartitions:
    """Take the partitions of a store, or those of a shard; a new store is founded, an older one brought forward."""
    migrate(store)
    deed, unused = load_deed(store), False
    if deed is None:
        check_new_count(settings.partition_count)
        unused = is_unused(store, range(settings.partition_count))
        fence = store.raise_fences(settings.partition_count)
        key = shard.key if shard is not None else None
        deed = create_deed(
            store, settings.partition_count, int.from_bytes(random(8), "big") if key is None else key, fence
        )
    owned = range(deed.partition_count) if shard is None else shard.partitions
    return TakenPartitions(deed, store.raise_fences(owned.stop, first=owned.start), owned, unused)


def load_partitions(store: Store, rows: StoreReader, taken: TakenPartitions) -> list[Partition]:
    """Load the partitions that were taken, and drop rows and blobs that a crash left. `rows` reads what is stored."""
    load = partial(_load, store, rows, Fronts(rows))
    if taken.unused:
        loaded = list(map(load, taken.owned))
    else:
        with ThreadPoolExecutor(_THREADS, "restante-load") as threads:
            loaded = list(threads.map(load, taken.owned))
    partitions = [partition for partition, _ in loaded]
    for partition in partitions:
        partition.fronts.opening = None
    if store.shared:
        _number_by_fence(partitions, taken.fence)
    if _drop_useless(store, loaded, taken.fence):
        rows = store  # `rows` may still have rows that `_drop_useless` has deleted.
    _drop_orphans(store, rows, partitions, taken.fence)
    return partitions


def look_ahead(store: StoreReader, partitions: range) -> BlobsAhead:
    """Read what opening these partitions will read of blobs, while another owns them."""
    ahead = BlobsAhead()
    rows = opening_rows(store, partitions, ahead)
    for number in partitions:
        _load(store, rows, Fronts(rows), number)
    return ahead


def _load(store: StoreReader, rows: StoreReader, fronts: Fronts, number: int) -> tuple[Partition, list[bytes]]:
    partition = load_partition(store, rows, number, fronts)
    return partition, load_fingerprints(rows, partition)


def _number_by_fence(partitions: list[Partition], fence: int) -> None:
    """Blob numbers begin with the fence: a former owner may still be writing some under its own."""
    for partition in partitions:
        partition.next_blob = max(partition.next_blob, fence * BLOB_NUMBERS_PER_FENCE)


def _drop_useless(store: Store, loaded: list[tuple[Partition, list[bytes]]], fence: int) -> bool:
    """Drop rows of identities that cannot be read. Their fingerprints were read from the messages, and are stored again later."""
    changes = Changes()
    for partition, keys in loaded:
        for key in keys:
            changes.delete(partition.number, Space.IDENTITIES, key)
            changes.fences[partition.number] = fence
    if not changes.empty():
        store.commit(changes)
    return not changes.empty()


def _drop_orphans(store: Store, rows: StoreReader, partitions: list[Partition], fence: int) -> None:
    """Blobs that nobody names: a crash came between writing them and the commit that would have."""
    changes = Changes()
    for partition in partitions:
        named = set(named_blobs(rows, partition))
        blobs = rows.blobs(partition.number)
        changes.dropped.extend(blob for blob in blobs if blob.number not in named)
        partition.next_blob = max([partition.next_blob, *(blob.number + 1 for blob in blobs[-1:])])
        changes.fences[partition.number] = fence
    if changes.dropped:
        store.commit(changes)


def named_blobs(store: StoreReader, partition: Partition) -> list[int]:
    """All blobs that runs, staged ones included, contents and levels of identities name."""
    rows = [decode_run(value) for _, value in store.scan(partition.number, Space.RUN)]
    named = [segment.blob for row in rows for segment in row.segments]
    for _, value in store.scan(partition.number, Space.CONTENT):
        named.extend(packed_decoder(ContentRow).decode(value).blobs)
    for _, value in store.scan(partition.number, Space.IDENTITIES):
        named.extend(blob.number for blob in blobs_of(partition.number, value))
    return named
