"""The items of a batch that were added by hand: their groups, and a bit for each item that is set when it is acknowledged.

Only the committer's thread loads and changes them. The entries written ahead and the folded bits together are complete, so a
batch may be dropped from memory between any two commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.hub.batches.batch_counts import home_of
from restante.hub.batches.memory import BatchMemory
from restante.hub.engine.core import Core
from restante.model.batches.acknowledged import decode_entry
from restante.model.columns.bits import CHUNK_BYTES, BitPositions, Bits, BitSegment, put_chunk
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix, key_number, number_key
from restante.ports.store import StoreReader

GROUPS_A_ROW = 500
_GROUP = np.dtype("<u8")
_FULL = 0xFFFF


class GroupBegins:
    """The ascending positions where the groups of a batch begin. A group ends where the next begins."""

    __slots__ = ("_begins", "count")

    def __init__(self, begins: NDArray[np.int64]) -> None:
        self._begins = begins
        self.count = len(begins)

    @property
    def begins(self) -> NDArray[np.int64]:
        return self._begins[: self.count]

    def add(self, begin: int) -> None:
        if self.count == len(self._begins):
            self._begins = np.concatenate([self._begins, np.zeros(max(8, self.count), np.int64)])
        self._begins[self.count] = begin
        self.count += 1

    def size(self, group: int, items: int) -> int:
        """The size of the group that begins at `group`, in a batch of `items` items; 0 if no group begins there."""
        at = int(np.searchsorted(self.begins, group))
        if at == self.count or self._begins[at] != group:
            return 0
        return (int(self._begins[at + 1]) if at + 1 < self.count else items) - group


class HandItems:
    """The acknowledged items of one batch, in memory."""

    __slots__ = ("_bits", "_core", "ahead", "ahead_bytes", "ahead_entries", "batch_id", "groups", "home", "used_at")

    def __init__(self, core: Core, batch_id: bytes) -> None:
        self._core = core
        self.batch_id = batch_id
        self.home = home_of(core, batch_id)
        self.groups = GroupBegins(stored_groups(core.store, self.home, batch_id))
        self._bits: Bits | None = None
        self.ahead = 0
        """The number of the last entry written ahead."""
        self.ahead_bytes = 0
        self.ahead_entries = 0
        self.used_at = 0

    @property
    def bits(self) -> Bits:
        if self._bits is None:
            self._bits = self._load()
        return self._bits

    @property
    def nbytes(self) -> int:
        return self.groups.begins.nbytes + (0 if self._bits is None else self._bits.nbytes)

    def _load(self) -> Bits:
        """Read the entries written ahead. Folded segments are read when they are needed."""
        bits = Bits(partial(stored_segment, self._core.store, self.home, self.batch_id))
        for key, value in _under(self._core.store, self.home, Space.BATCH_ACKNOWLEDGED, self.batch_id):
            set_entry(bits, value)
            self.ahead, self.ahead_bytes = key_number(key[16:]), self.ahead_bytes + len(value)
            self.ahead_entries += 1
        return bits

    def apply(self, positions: BitPositions, trial: Bits | None, size: int) -> None:
        """Apply acknowledgements that have been committed."""
        if trial is not None:
            self.bits.take_over(trial)
        else:
            self.bits.set(positions)
        self.ahead += 1
        self.ahead_bytes += size
        self.ahead_entries += 1
        much = self.ahead_bytes >= limits.BATCH_AHEAD_BYTES_MAX
        if much or self.ahead_entries >= limits.BATCH_AHEAD_ENTRIES_MAX:
            self._core.memory(BatchMemory).work.fold(self.batch_id)

    def folded(self, size: int, entries: int) -> None:
        """Note that entries of this size and number have been stored as bits."""
        self.ahead_bytes -= size
        self.ahead_entries -= entries


class HandItemsKnown(dict[bytes, HandItems]):
    """The items used last, by batch id, the latest last. Only the committer's thread uses it."""


def items_of(core: Core, batch_id: bytes) -> HandItems:
    """The items of a batch, from memory or else from the store. Call it in the committer's thread."""
    found = core.memory(HandItemsKnown).pop(batch_id, None)
    if found is None:
        found = HandItems(core, batch_id)
        core.between_commits.append(partial(make_room, core))
    core.memory(HandItemsKnown)[batch_id] = found
    found.used_at = core.clock()
    return found


def make_room(core: Core) -> None:
    """Drop the least recently used batches from memory if there are too many. Call it between commits.

    During a commit, planned acknowledgements are not in the bits yet, and a reload would miss them.
    """
    room, places = limits.BATCH_BITS_BYTES_MAX, limits.BATCHES_REMEMBERED_MAX
    for batch_id, items in reversed(tuple(core.memory(HandItemsKnown).items())):
        room, places = room - items.nbytes, places - 1
        if room < 0 or places < 1:
            del core.memory(HandItemsKnown)[batch_id]


def drop_quiet(core: Core, *, before: int) -> None:
    """Drop batches from memory that were not used since `before`. Call it between commits."""
    for batch_id, items in tuple(core.memory(HandItemsKnown).items()):
        if items.used_at < before:
            del core.memory(HandItemsKnown)[batch_id]


def set_entry(bits: Bits, value: bytes) -> None:
    """Set the bits of an entry that was written ahead."""
    entry = decode_entry(value)
    bits.set(entry.positions)
    for start, stop in entry.ranges:
        bits.set_range(start, stop)


def entry_key(batch_id: bytes, number: int) -> bytes:
    return batch_id + number_key(number)


def groups_key(batch_id: bytes, row: int) -> bytes:
    return batch_id + number_key(row)


def packed_group(begin: int) -> bytes:
    return np.array([begin], _GROUP).tobytes()


def chunk_key(batch_id: bytes, segment: int, chunk: int) -> bytes:
    return batch_id + number_key(segment) + chunk.to_bytes(2, "big")


def full_key(batch_id: bytes, segment: int) -> bytes:
    """The key of the single row that stands for a segment with all bits set."""
    return chunk_key(batch_id, segment, _FULL)


def stored_segment(store: StoreReader, home: int, batch_id: bytes, number: int) -> BitSegment:
    """A folded segment: its bits, or a bool if all bits are equal."""
    prefix = batch_id + number_key(number)
    rows = store.scan(home, Space.BATCH_BITS, start=prefix, end=after_prefix(prefix))
    if not rows:
        return False
    if int.from_bytes(rows[-1][0][24:], "big") == _FULL:
        return True
    chunks = [(int.from_bytes(key[24:], "big"), value) for key, value in rows]
    part = np.zeros(chunks[-1][0] * CHUNK_BYTES + len(chunks[-1][1]), np.uint8)
    for chunk, value in chunks:
        put_chunk(part, chunk, value)
    return part


def stored_groups(store: StoreReader, home: int, batch_id: bytes) -> NDArray[np.int64]:
    rows = [value for _, value in _under(store, home, Space.BATCH_GROUP, batch_id)]
    return np.frombuffer(b"".join(rows), _GROUP).astype(np.int64)


def _under(store: StoreReader, home: int, space: Space, batch_id: bytes) -> Sequence[tuple[bytes, bytes]]:
    return store.scan(home, space, start=batch_id, end=after_prefix(batch_id))
