"""Opening a store: whose it is, what it holds, and what a crash left lying about."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import numpy as np

from restante.hub.engine.damage import sound_records
from restante.hub.engine.partitions import Deed, Partition, create_deed, load_deed, load_partition
from restante.hub.mailboxes.claim_checks import ContentRow
from restante.hub.upkeep.migrate import migrate
from restante.model.columns.hashing import Hashes, fingerprints
from restante.model.storage.changes import Changes, Space
from restante.model.storage.identity import Fingerprints, expand
from restante.model.storage.rows import ids_of
from restante.model.storage.run import decode_run
from restante.model.storage.segment import Segment
from restante.model.storage.spread import check_new_count
from restante.ports.store import Store
from restante.settings import Settings

_THREADS = 4


def open_partitions(
    store: Store, settings: Settings, random: Callable[[int], bytes]
) -> tuple[Deed, int, list[Partition]]:
    """Deed, fence and partitions of a store; a new one is founded, an older one brought forward."""
    migrate(store)
    deed = load_deed(store)
    if deed is None:
        check_new_count(settings.partition_count)
        fence = store.raise_fences(settings.partition_count)
        deed = create_deed(store, settings.partition_count, int.from_bytes(random(8), "big"), fence)
    else:
        fence = store.raise_fences(deed.partition_count)
    with ThreadPoolExecutor(_THREADS) as threads:
        partitions = list(threads.map(partial(_load, store), range(deed.partition_count)))
    _drop_orphans(store, partitions, fence)
    return deed, fence, partitions


def _load(store: Store, number: int) -> Partition:
    partition = load_partition(store, number)
    partition.fingerprints = known_fingerprints(store, partition)
    partition.forgotten_rows = 1 if partition.counters.forgotten else 0
    return partition


def _drop_orphans(store: Store, partitions: list[Partition], fence: int) -> None:
    """Blobs that nobody names: a crash came between writing them and the commit that would have."""
    changes = Changes()
    for partition in partitions:
        named = set(named_blobs(store, partition))
        blobs = store.blobs(partition.number)
        changes.dropped.extend(blob for blob in blobs if blob.number not in named)
        partition.next_blob = max([partition.next_blob, *(blob.number + 1 for blob in blobs[-1:])])
        changes.fences[partition.number] = fence
    if changes.dropped:
        store.commit(changes)


def named_blobs(store: Store, partition: Partition) -> list[int]:
    """All blobs that runs, staged ones included, and contents name."""
    rows = [decode_run(value) for _, value in store.scan(partition.number, Space.RUN)]
    named = [segment.blob for row in rows for segment in row.segments]
    for _, value in store.scan(partition.number, Space.CONTENT):
        named.extend(msgspec.msgpack.decode(value, type=ContentRow).blobs)
    return named


def known_fingerprints(store: Store, partition: Partition) -> Fingerprints:
    """The fingerprints of all stored messages that can be read, from their ids."""
    prints, numbers = [], []
    for run in partition.runs:
        for stored in run.segments:
            hashes = _row_hashes(stored.segment)
            for first, records in sound_records(store, stored, 0, stored.segment.rows):
                prints.append(fingerprints(hashes[first : first + len(records)], ids_of(records)))
                numbers.append(records["place"].astype(np.int64) + stored.base)
    return Fingerprints().with_more(np.concatenate(prints), np.concatenate(numbers)) if prints else Fingerprints()


def _row_hashes(segment: Segment) -> Hashes:
    """The recipient's hash of each row; 0 where the directory is damaged."""
    counts = segment.drawers["count"].astype(np.int64)
    if segment.damaged is None:
        return np.repeat(segment.recipient_hash, counts)
    hashes = np.zeros(segment.rows, np.uint64)
    hashes[expand(segment.drawers["row"].astype(np.int64), counts)] = np.repeat(segment.recipient_hash, counts)
    return hashes
