"""Looking up identities in memory and in stored levels, and loading them when a partition is opened.

Losing a stored level loses no identity: its messages' ids are read from the runs once, and filing stores them again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.engine.core import Core
from restante.hub.engine.damage import sound_records
from restante.hub.engine.partitions import Partition
from restante.model.columns.arrays import Numbers
from restante.model.columns.hashing import Hashes, fingerprints
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.identity import Fingerprints, Known, expand, find_in, have_common, known
from restante.model.storage.identity_level import (
    BLOCK_ENTRIES,
    BlockStretch,
    LevelRow,
    Ranks,
    StoredLevel,
    assemble,
    candidates,
    decode_blocks,
    decode_front,
    decode_level,
    stretches,
)
from restante.model.storage.rows import ids_of
from restante.model.storage.run import Run
from restante.model.storage.segment import Segment
from restante.ports.store import Store, StoreReader

_log = logging.getLogger(__name__)

_GAP_BLOCKS = 8
"""A gap of up to this many blocks between two wanted blocks is read too, because two separate reads would take longer."""
_BLOCKS_AT_ONCE = 256


def find(core: Core, partition: Partition, asked: Hashes) -> tuple[Numbers, Numbers]:
    """Pairs of (index in `asked`, number of a message with that fingerprint). Fastest when `asked` is ascending.

    Call it inside `core.pins.reading()`, or in the committer's thread.
    """
    found = [_find(core, partition, level, asked) for level in partition.fingerprints.levels]
    indices = [index for index, _ in found] or [np.zeros(0, np.int64)]
    numbers = [number for _, number in found] or [np.zeros(0, np.int64)]
    return np.concatenate(indices), np.concatenate(numbers)


def has_newer(core: Core, partition: Partition, asked: Hashes, *, beyond: int, ascending: bool = False) -> bool:
    """Whether a message with a number above `beyond` has one of these fingerprints. Call it where `find` may be called."""
    for level in reversed(partition.fingerprints.levels):
        if level.last <= beyond:
            continue
        if ascending and isinstance(level, Known):
            if have_common(level, asked, beyond=beyond):
                return True
        elif (_find(core, partition, level, asked)[1] > beyond).any():
            return True
    return False


def _find(core: Core, partition: Partition, level: Known | StoredLevel, asked: Hashes) -> tuple[Numbers, Numbers]:
    if isinstance(level, Known):
        return find_in(level, asked)
    try:
        return find_stored(core.store, partition.number, level, asked)
    except DataDamaged as error:
        instead = read_again(core, partition, level, error)
        return (np.zeros(0, np.int64),) * 2 if instead is None else find_in(instead, asked)


def find_stored(store: Store, partition: int, level: StoredLevel, asked: Hashes) -> tuple[Numbers, Numbers]:
    """The pairs of one stored level, as in `find`; `DataDamaged` if a block with a candidate cannot be read."""
    index, low, high = candidates(level, asked)
    if not len(index):
        return index, index
    ranks, index = expand(low, high - low), np.repeat(index, high - low)
    order = np.argsort(ranks, kind="stable")
    ranks, index = ranks[order], index[order]
    prints, offsets = np.empty(len(ranks), np.uint64), np.empty(len(ranks), np.int64)
    for stretch in stretches(level, ranks, gap=_GAP_BLOCKS, blocks_max=_BLOCKS_AT_ONCE):
        inside = slice(*np.searchsorted(ranks, [stretch.rank, stretch.rank + stretch.size]).tolist())
        own_prints, own_offsets = read_entries(store, partition, level, stretch)
        prints[inside] = own_prints[ranks[inside] - stretch.rank]
        offsets[inside] = own_offsets[ranks[inside] - stretch.rank]
    same = prints == asked[index]
    return index[same], offsets[same] + level.base


def read_entries(
    store: StoreReader, partition: int, level: StoredLevel, stretch: BlockStretch
) -> tuple[Hashes, NDArray[np.uint32]]:
    content = store.read_blob(BlobKey(partition, stretch.blob), stretch.offset, stretch.length)
    return decode_blocks(level, stretch, content)


def read_again(core: Core, partition: Partition, level: StoredLevel, error: DataDamaged) -> Known | None:
    """Read the fingerprints of an unreadable level from the runs, and put them in its place in memory."""
    _log.error("Identities of partition %d are read again from its messages: %s", partition.number, error.message)
    instead = read_known(core.store, partition.runs, level.first, level.last)
    partition.leave_stored(level, instead)
    return instead


def load_fingerprints(store: StoreReader, partition: Partition) -> list[bytes]:
    """Load a partition's fingerprints: the stored levels, and from the runs the messages that no level covers.

    Return the keys of level rows that are useless, to be deleted.
    """
    levels, useless = _stored_levels(store, partition)
    found: list[Known | StoredLevel] = []
    before = 0
    for level in levels:
        found += _between(store, partition.runs, before + 1, level.first - 1)
        found.append(level)
        before = level.last
    found += _between(store, partition.runs, before + 1, partition.counters.visible)
    partition.fingerprints = Fingerprints(tuple(found))
    return useless


def _stored_levels(store: StoreReader, partition: Partition) -> tuple[list[StoredLevel], list[bytes]]:
    """The readable stored levels in number order, and the keys of the other rows."""
    read: list[tuple[bytes, StoredLevel]] = []
    useless: list[bytes] = []
    for key, value in store.scan(partition.number, Space.IDENTITIES):
        try:
            read.append((key, load_level(store, partition.number, decode_level(value))))
        except DataDamaged as error:
            _log.error("Identities of partition %d are read from its messages: %s", partition.number, error.message)
            useless.append(key)
    levels: list[StoredLevel] = []
    for key, level in sorted(read, key=lambda entry: entry[1].first):
        if level.first <= (levels[-1].last if levels else 0) or level.last > partition.counters.visible:
            useless.append(key)
        else:
            levels.append(level)
    return levels, useless


def load_level(store: StoreReader, partition: int, row: LevelRow) -> StoredLevel:
    """A level from its row; `DataDamaged` if its fronts cannot be read."""
    fronts = [
        decode_front(bytes(store.read_blob(BlobKey(partition, part.blob), 0, part.front)), part) for part in row.parts
    ]
    return assemble(row, fronts)


def _between(store: StoreReader, runs: Sequence[Run], first: int, last: int) -> list[Known]:
    found = read_known(store, runs, first, last) if first <= last else None
    return [] if found is None else [found]


def read_known(store: StoreReader, runs: Sequence[Run], first: int, last: int) -> Known | None:
    """The fingerprints of the readable stored messages numbered `first` to `last`, computed from their ids."""
    prints, numbers = [], []
    for run in runs:
        if run.row.last < first or run.row.first > last:
            continue
        for stored in run.segments:
            hashes = _row_hashes(stored.segment)
            for row, records in sound_records(store, stored, 0, stored.segment.rows):
                number = records["place"].astype(np.int64) + stored.base
                inside = (
                    slice(None)
                    if first <= run.row.first and run.row.last <= last
                    else (first <= number) & (number <= last)
                )
                prints.append(fingerprints(hashes[row : row + len(records)], ids_of(records))[inside])
                numbers.append(number[inside])
    if not sum(map(len, prints)):
        return None
    return known(np.concatenate(prints), np.concatenate(numbers))


def _row_hashes(segment: Segment) -> Hashes:
    """The recipient's hash of each row; 0 where the directory is damaged."""
    counts = segment.drawers["count"].astype(np.int64)
    if segment.damaged is None:
        return np.repeat(segment.recipient_hash, counts)
    hashes = np.zeros(segment.rows, np.uint64)
    hashes[expand(segment.drawers["row"].astype(np.int64), counts)] = np.repeat(segment.recipient_hash, counts)
    return hashes


def all_entries(
    store: StoreReader, partition: int, level: StoredLevel, ranks: tuple[int, int]
) -> tuple[Hashes, NDArray[np.uint32]]:
    """Fingerprints and offsets of the blocks that hold the ranks first to last (exclusive), so of a few more ranks."""
    first, last = ranks
    if first >= last:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    wanted: Ranks = np.append(np.arange(first, last, BLOCK_ENTRIES), last - 1)
    read = [
        read_entries(store, partition, level, stretch)
        for stretch in stretches(level, wanted, gap=0, blocks_max=_BLOCKS_AT_ONCE)
    ]
    return np.concatenate([prints for prints, _ in read]), np.concatenate([offsets for _, offsets in read])
