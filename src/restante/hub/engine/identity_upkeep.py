"""Storing identities, in the background: identities in memory become a stored level, and levels of similar size are merged.

As in a merge of runs, the parts of a level are written ahead, and one small commit swaps the rows. It may stop anywhere:
before the commit the new blobs are orphans, after it the old ones are, and opening the store drops orphans. Entries of
messages before the first stored run are left out, because those messages are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.errors import DataDamaged
from restante.hub.engine.core import Core
from restante.hub.engine.identity_reads import all_entries, read_again
from restante.hub.engine.partitions import Partition
from restante.hub.engine.plan import RequestDraft
from restante.model.columns.hashing import Hashes
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.identity import Known
from restante.model.storage.identity_level import (
    EncodedPart,
    LevelRow,
    PartFront,
    PartRow,
    StoredLevel,
    assemble,
    bits_for,
    bucket_ranks,
    decode_front,
    decode_level,
    encode_level,
    encode_part,
    part_bits_for,
)
from restante.model.storage.keys import key_number, number_key
from restante.model.storage.run import Run

_Entries = tuple[Hashes, NDArray[np.uint32]]


@dataclass(frozen=True, slots=True)
class _Source:
    """Levels to be merged into one, and the numbers that the result covers."""

    levels: Sequence[Known | StoredLevel]
    first: int
    last: int


class _MetDamagedLevel(Exception):  # no error: a signal inside this module
    """A level to be merged cannot be read."""

    def __init__(self, level: StoredLevel, error: DataDamaged) -> None:
        super().__init__(error.message)
        self.level = level
        self.error = error


def keep_identities(core: Core, partition: Partition, *, everything: bool = False) -> None:
    """Store the identities that are too many for memory, or with `everything` all, and merge levels; under the filing lock."""
    known = partition.fingerprints if everything else partition.sorted_fingerprints
    for stretch in known.in_memory():
        if everything or not stretch.newest or stretch.entries >= limits.IDENTITIES_IN_MEMORY_MAX:
            _store(core, partition, _Source(stretch.levels, stretch.first, stretch.last))
    while levels := partition.sorted_fingerprints.mergeable_stored():
        _store(core, partition, _Source(levels, levels[0].first, levels[-1].last))
    partition.compact_fingerprints()


def keep_due(core: Core) -> int:
    """Store the identities of every partition that has too many in memory; return how many partitions."""
    due = [partition for partition in core.partitions if _is_due(partition)]
    for partition in due:
        with partition.filing_lock:
            keep_identities(core, partition)
    return len(due)


def _is_due(partition: Partition) -> bool:
    # Leave out `_recent`: it holds far fewer entries than the bound, and sorting them for this count would cost too much.
    levels = partition.sorted_fingerprints.levels
    return sum([len(level) for level in levels if isinstance(level, Known)]) >= limits.IDENTITIES_IN_MEMORY_MAX


def keep_ahead(core: Core, partition: Partition, runs: Sequence[Run]) -> None:
    """Store identities before a large merge, so that the large run is fully covered by stored levels.

    Opening a partition reads every run that reaches beyond them, which would take long.
    """
    large = sum(run.row.rows for run in runs) > limits.IDENTITIES_IN_MEMORY_MAX
    if large and runs[-1].row.last > partition.fingerprints.covered:
        keep_identities(core, partition, everything=True)


def _store(core: Core, partition: Partition, source: _Source) -> None:
    """Write a level, and swap it for the levels that it is made of."""
    written: list[tuple[PartRow, PartFront]] = []
    try:
        with core.pins.reading():
            _write_parts(core, partition, source, written)
        core.commit(lambda draft: _swap(core, draft, partition, _assembled(source, written)))
    except BaseException as error:
        core.pins.bury_unless_named([BlobKey(partition.number, place.blob) for place, _ in written], error)
        if not isinstance(error, _MetDamagedLevel):
            raise
        with core.pins.reading():
            read_again(core, partition, error.level, error.error)


def _base(source: _Source) -> int:
    return min(level.base for level in source.levels)


def _bits(source: _Source) -> tuple[int, int]:
    """How many bits of a fingerprint select the bucket, and how many select the part."""
    entries = sum(len(level) for level in source.levels)
    return bits_for(entries), part_bits_for(entries)


def _assembled(source: _Source, written: Sequence[tuple[PartRow, PartFront]]) -> StoredLevel:
    places = tuple(place for place, _ in written)
    row = LevelRow(places[0].blob, source.first, source.last, _base(source), _bits(source)[0], places)
    return assemble(row, [front for _, front in written])


def _write_parts(core: Core, partition: Partition, source: _Source, written: list[tuple[PartRow, PartFront]]) -> None:
    """Write the parts of a level. `written` lists every blob that was written, even after an error."""
    for encoded in _parts(core, partition, source):
        blob = partition.take_blob()
        place = PartRow(blob.number, encoded.length, len(encoded.front), encoded.size)
        core.store.put_blob(blob, (encoded.front, encoded.entries), fence=core.fence)
        written.append((place, decode_front(encoded.front, place)))


def _parts(core: Core, partition: Partition, source: _Source) -> Iterator[EncodedPart]:
    """The parts of a level, one after another. Each merges one range of fingerprints from all source levels."""
    base, (bits, part_bits) = _base(source), _bits(source)
    first_stored = partition.runs[0].row.first if partition.runs else 0
    for part in range(1 << part_bits):
        low = part << (64 - part_bits)
        high = low + (1 << (64 - part_bits)) - 1
        taken = [_within(core, partition, level, low, high) for level in source.levels]
        prints = np.concatenate([own for own, _ in taken])
        offsets = [own + np.uint32(level.base - base) for level, (_, own) in zip(source.levels, taken, strict=True)]
        offset = np.concatenate(offsets)
        if first_stored > base:
            kept = offset >= first_stored - base
            prints, offset = prints[kept], offset[kept]
        order = np.argsort(prints, kind="stable")
        yield encode_part(prints[order], offset[order], bits=bits, part_bits=part_bits, part=part)


def _within(core: Core, partition: Partition, level: Known | StoredLevel, low: int, high: int) -> _Entries:
    """The entries of a level with fingerprints from `low` to `high`."""
    if isinstance(level, StoredLevel):
        try:
            prints, offset = all_entries(core.store, partition.number, level, bucket_ranks(level, low, high))
        except DataDamaged as error:
            raise _MetDamagedLevel(level, error) from error
    else:
        prints, offset = level.fingerprint, level.offset
    first = int(np.searchsorted(prints, np.uint64(low), side="left"))
    last = int(np.searchsorted(prints, np.uint64(high), side="right"))
    return prints[first:last], offset[first:last]


def _swap(core: Core, draft: RequestDraft, partition: Partition, level: StoredLevel) -> None:
    """Replace the rows that a level covers with its own row, and delete rows that memory does not know."""
    number = partition.number
    kept = {
        own.row.identity for own in partition.fingerprints.stored if own.last < level.first or own.first > level.last
    }
    gone: list[BlobKey] = []
    for key, value in draft.scan_prefix(number, Space.IDENTITIES, b""):
        if key_number(key) not in kept:
            draft.delete(number, Space.IDENTITIES, key)
            gone += blobs_of(number, value)
    draft.put(number, Space.IDENTITIES, number_key(level.row.identity), encode_level(level.row))
    draft.counters[number] = draft.count(number)
    draft.applies.append(lambda: partition.enter_stored(level))
    draft.applies.append(lambda: core.pins.bury(gone))


def blobs_of(partition: int, value: bytes) -> list[BlobKey]:
    """The blobs that a row names; none if the row cannot be decoded."""
    try:
        return [BlobKey(partition, part.blob) for part in decode_level(value).parts]
    except DataDamaged:
        return []
