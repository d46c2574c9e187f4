"""`Overview`: all cabinets of a partition as columns, with their drawers and heads, to count what waits in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.engine.core import Core
from restante.hub.engine.damage import tell_once
from restante.hub.engine.partitions import Partition
from restante.hub.engine.row_reads import read_records
from restante.model.columns.arrow import column_of
from restante.model.columns.texts import Texts
from restante.model.publishing.message import ACTION_KIND, NEVER
from restante.model.storage.changes import Space
from restante.model.storage.head import Head, decode_head
from restante.model.storage.keys import key_cabinet, key_number
from restante.model.storage.merge import DrawerStretch, cabinets_of
from restante.model.storage.rows import Cabinets, cabinet_hashes, cabinet_ranks
from restante.model.storage.run import StoredSegment, drawer_numbers


@dataclass(frozen=True, slots=True)
class Overview:
    """Drawer i belongs to cabinet `rank[i]`; head j to cabinet `head_rank[j]`. Ranks are dense."""

    segments: list[StoredSegment]
    segment: NDArray[np.int64]
    """The index in `segments` of each drawer's segment."""
    drawer: NDArray[np.int64]
    rank: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    count: NDArray[np.int64]
    recipients: pa.StringArray
    published: NDArray[np.int64]
    earliest_expiry: NDArray[np.int64]
    heads: list[tuple[bytes, bytes]]
    """Keys and values, as stored."""
    decoded: list[Head]
    head_rank: NDArray[np.int64]
    ranks: int
    action: NDArray[np.bool_]
    """Whether each drawer holds actions, which are no mail."""

    def of_heads(self, values: list[int]) -> NDArray[np.int64]:
        """Values given for each head, arranged by rank; 0 for cabinets without a head."""
        by_rank = np.zeros(self.ranks, np.int64)
        by_rank[self.head_rank] = values
        return by_rank


def overview(core: Core, partition: Partition) -> Overview:
    """The drawers of a partition with their heads, without damaged directory lines. Call it inside `core.pins.reading()`.

    Heads are read before runs, as in `look`.
    """
    heads = core.store.scan(partition.number, Space.HEAD)
    segments = [stored for run in partition.runs for stored in run.segments]
    counts = [len(stored.segment.drawers) for stored in segments]
    stretches = [DrawerStretch(stored, 0, count) for stored, count in zip(segments, counts, strict=True)]
    listed = _joined(stretches, [key for key, _ in heads], core.deed.key)
    rank = cabinet_ranks(listed) if len(listed) else np.zeros(0, np.int64)
    drawers = sum(counts)
    numbers = [drawer_numbers(stored) for stored in segments]
    sound = _sound(segments)
    recipients = listed.recipient.slice(0, drawers)
    return Overview(
        segments,
        np.repeat(np.arange(len(segments)), counts)[sound],
        _flat([np.arange(count) for count in counts])[sound],
        rank[:drawers][sound],
        _flat([first for first, _ in numbers])[sound],
        _flat([last for _, last in numbers])[sound],
        _flat([stored.segment.drawers["count"] for stored in segments])[sound],
        recipients if isinstance(sound, slice) else recipients.filter(column_of(sound)),
        _flat([stored.segment.drawers["earliest_published"] for stored in segments])[sound],
        _flat([stored.segment.drawers["earliest_expiry"] for stored in segments])[sound],
        heads,
        [decode_head(value) for _, value in heads],
        rank[drawers:],
        int(rank.max()) + 1 if len(rank) else 0,
        _actions(listed.kind)[:drawers][sound],
    )


def _actions(kind: Texts) -> NDArray[np.bool_]:
    code = pc.index(kind.values, ACTION_KIND).as_py()
    found: NDArray[np.bool_] = kind.codes == code
    return found


def _sound(segments: list[StoredSegment]) -> slice | NDArray[np.bool_]:
    """The drawers whose directory lines are not damaged, which are nearly always all."""
    if all(stored.segment.damaged is None for stored in segments):
        return slice(None)
    damaged = [stored.segment.damaged for stored in segments]
    lines = [len(stored.segment.drawers) for stored in segments]
    return np.concatenate(
        [np.ones(count, np.bool_) if own is None else ~own for own, count in zip(damaged, lines, strict=True)]
    )


def _flat(parts: list[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _joined(stretches: list[DrawerStretch], keys: list[bytes], hash_key: int) -> Cabinets:
    """The cabinets of drawers and heads as one table."""
    cabinets = [key_cabinet(key) for key in keys]
    hashes = np.array([key_number(key) for key in keys], np.uint64)
    origin = Texts.encode(pa.array([cabinet.origin for cabinet in cabinets], pa.string()))
    kind = Texts.encode(pa.array([cabinet.kind for cabinet in cabinets], pa.string()))
    recipient = pa.array([cabinet.recipient for cabinet in cabinets], pa.string())
    own = Cabinets(hashes, cabinet_hashes(hashes, origin, kind, hash_key), recipient, origin, kind)
    if not stretches:
        return own
    drawers = cabinets_of(stretches)
    return Cabinets(
        np.concatenate([drawers.recipient_hash, own.recipient_hash]),
        np.concatenate([drawers.cabinet_hash, own.cabinet_hash]),
        pa.concat_arrays([drawers.recipient, own.recipient]),
        Texts.concat([drawers.origin, own.origin]),
        Texts.concat([drawers.kind, own.kind]),
    )


@dataclass(frozen=True, slots=True)
class Beyond:
    """The rows of each drawer beyond its cabinet's head: how many, and when the oldest of them was published."""

    count: NDArray[np.int64]
    published: NDArray[np.int64]


def beyond_heads(core: Core, partition: Partition, seen: Overview) -> Beyond:
    """Count rows beyond heads, from the directories. Rows are read only in segments with drawers that a head divides.

    A divided drawer that cannot be read counts as empty.
    """
    head = seen.of_heads([head.head for head in seen.decoded])[seen.rank]
    count = np.where(seen.first > head, seen.count, 0)
    published = seen.published.copy()
    divided = (seen.first <= head) & (seen.last > head)
    for index in np.unique(seen.segment[divided]).tolist():
        own = np.flatnonzero(divided & (seen.segment == index))
        stored, drawer = seen.segments[index], seen.drawer[own]
        try:
            count[own], published[own] = _divide(core, stored, drawer, head[own])
        except DataDamaged as error:
            tell_once(partition, f"Some of the counting in blob {stored.blob.number} of {stored.blob.partition}", error)
            count[own], published[own] = _divide_each(core, stored, drawer, head[own])
    return Beyond(count, published)


def _divide(
    core: Core, stored: StoredSegment, drawer: NDArray[np.int64], head: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lines = stored.segment.drawers
    if stored.segment.damaged is not None:
        # Rows of damaged lines belong to no drawer, so the rows cannot be searched as one sorted array.
        return _divide_each(core, stored, drawer, head)
    records = read_records(core.store, stored, 0, stored.segment.rows)
    of_row = np.repeat(np.arange(len(lines)), lines["count"])
    keys = (of_row << 32) | records["place"]
    position = np.searchsorted(keys, (drawer << 32) | (head - stored.base), side="right")
    end = lines["row"][drawer].astype(np.int64) + lines["count"][drawer]
    borders = np.column_stack([position, end]).reshape(-1)
    published = np.append(records["published_at"], 0)
    return end - position, np.minimum.reduceat(published, borders)[::2]


def _divide_each(
    core: Core, stored: StoredSegment, drawer: NDArray[np.int64], head: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count drawer by drawer, when the segment cannot be read whole."""
    count, published = np.zeros(len(drawer), np.int64), np.full(len(drawer), NEVER, np.int64)
    for index, line in enumerate(stored.segment.drawers[drawer]):
        row = int(line["row"])
        try:
            records = read_records(core.store, stored, row, row + int(line["count"]))
        except DataDamaged:
            continue
        beyond = records["place"] > head[index] - stored.base
        count[index] = int(beyond.sum())
        published[index] = records["published_at"][beyond].min(initial=NEVER)
    return count, published
