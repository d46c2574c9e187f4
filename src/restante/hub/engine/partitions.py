"""`Partition` is the memory of one partition; `load_partition` reads it from a store.

The fingerprints of a partition's messages are in two places: those of the latest few in the dictionary `_recent`, where a
small publish adds its own quickly, and all others in the sorted arrays and stored levels of `_fingerprints`. Entries only
move from `_recent` into the arrays. So a reader that looks in `_recent` first misses none.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import DataDamaged, FormatUnsupported, NotOwner
from restante.hub.engine.fronts import Fronts
from restante.hub.engine.row_reads import read_front
from restante.model.columns.hashing import Hashes
from restante.model.removal.erasure import Erased, decode_erased
from restante.model.storage.changes import BlobKey, Changes, EntryKey, Space
from restante.model.storage.identity import Fingerprints, Known, merge
from restante.model.storage.identity_level import StoredLevel
from restante.model.storage.keys import number_key
from restante.model.storage.run import Run, RunRow, RunState, decode_run, is_small
from restante.ports.store import Store, StoreReader

FORMAT_VERSION = 8
"""The version of the format of the data. `hub/upkeep` migrates older data to it."""
DEED_KEY = b"deed"
PARTITION_KEY = b"partition"
_RECENT_MAX = 1_024
"""The number of fingerprints in `_recent` from which they are sorted into the arrays."""


class Deed(msgspec.Struct, frozen=True, array_like=True):
    """The facts that are fixed when a store is created."""

    format: int
    partition_count: int
    key: int
    """The key of all hashes."""


class PartitionRow(msgspec.Struct, frozen=True, array_like=True):
    """The counters of a partition, written by every commit that changes one."""

    visible: int = 0
    waiting: int = 0
    next_blob: int = 1
    forgotten: int = 0
    """No message with a higher number is past its retention."""
    erasures: int = 0
    """How many recipients were erased. If the count has changed, earlier lookups may be wrong."""
    feed_gone: int = 0
    """The last number that retention took from the feed, which begins at the next one."""


@dataclass(slots=True)
class Unfiled:
    """Wakes filing, and lists the partitions with too many runs."""

    wanted: threading.Event = field(default_factory=threading.Event)
    overdue: set[int] = field(default_factory=set)
    """Partitions with so many runs that publishers must help with filing (`filing.relieve`)."""

    def note(self, partition: Partition) -> None:
        """Update `overdue` after the runs of a partition have changed."""
        if len(partition.runs) > limits.UNFILED_RUNS_MAX:
            self.overdue.add(partition.number)
        elif self.overdue:
            self.overdue.discard(partition.number)


class Partition:
    """The memory of one partition. Only the committer's thread changes it; readers see whole values."""

    __slots__ = (
        "_fingerprints",
        "_lock",
        "_recent",
        "counters",
        "damage_told",
        "damaged_runs",
        "erased",
        "feed_runs",
        "filing_lock",
        "fresh_runs",
        "fronts",
        "next_blob",
        "number",
        "row_key",
        "runs",
    )

    def __init__(self, number: int, fronts: Fronts | None = None) -> None:
        self.number = number
        self.row_key = EntryKey(number, Space.PARTITION, PARTITION_KEY)
        """The key of the counters."""
        self.fronts = fronts or Fronts()
        """The cache of segment fronts, shared with the other partitions."""
        self.counters = PartitionRow()
        self.runs: tuple[Run, ...] = ()
        """The visible runs in number order."""
        self.feed_runs: tuple[RunRow, ...] = ()
        """Runs that were merged into shelves and are kept for the feed."""
        self._fingerprints = Fingerprints()
        self._recent: dict[int, int] = {}
        """The sequence number of each of the latest few fingerprints, which are not in `_fingerprints` yet."""
        self.erased = Erased()
        """Digests of erased messages. They are here, and not in the memory of removal, because each publish asks for them."""
        self.fresh_runs = limits.FILING_HANDFUL
        """How many runs were added since filing last looked. A large run counts for several. A partition that was just
        opened begins with enough for filing to look at it."""
        self.damaged_runs: set[int] = set()
        """Runs that a merge found damaged. Filing leaves them alone."""
        self.damage_told: set[str] = set()
        """Chores prevented by damage that have been logged, so that each is logged once."""
        self.next_blob = 1
        self.filing_lock = threading.Lock()
        """Held by the thread that rewrites the runs."""
        self._lock = threading.Lock()

    def take_blob(self) -> BlobKey:
        """Take a new blob number. It is not reused if the commit fails."""
        with self._lock:
            self.next_blob += 1
            return BlobKey(self.number, self.next_blob - 1)

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of all messages. Reading this property moves `_recent` into the arrays."""
        if self._recent:
            with self._lock:
                self._gather()
        return self._fingerprints

    @fingerprints.setter
    def fingerprints(self, known: Fingerprints) -> None:
        self._fingerprints = known

    @property
    def sorted_fingerprints(self) -> Fingerprints:
        """The fingerprints without those in `_recent`. Reading this property moves nothing."""
        return self._fingerprints

    def knows_any(self, fingerprints: Sequence[int]) -> bool:
        """Whether a message with one of these fingerprints may be stored already, or may have been erased."""
        # Look in `_recent` before the arrays: entries only move from `_recent` into the arrays, so none is missed.
        if not self._recent.keys().isdisjoint(fingerprints) or self._fingerprints.has_any(fingerprints):
            return True
        return len(self.erased) > 0 and bool(self.erased.may_contain(np.array(fingerprints, np.uint64)).any())

    def remember(self, fingerprints: Hashes, numbers: NDArray[np.int64]) -> None:
        """Add the fingerprints of new messages."""
        with self._lock:
            self._gather()
            self._fingerprints = self._fingerprints.with_more(fingerprints, numbers)

    def remember_sorted(self, level: Known) -> None:
        """Add a level of new messages, which is sorted already."""
        with self._lock:
            self._gather()
            self._fingerprints = self._fingerprints.with_level(level)

    def remember_few(self, fingerprints: Sequence[int], first: int) -> None:
        """Add the fingerprints of a few new messages, numbered from `first` on; none of them may be known already."""
        with self._lock:
            self._recent.update(zip(fingerprints, range(first, first + len(fingerprints)), strict=True))
            if len(self._recent) >= _RECENT_MAX:
                self._gather()

    def _gather(self) -> None:
        """Move `_recent` into the arrays. The caller holds `_lock`."""
        if self._recent:
            count = len(self._recent)
            fingerprints = np.fromiter(self._recent, np.uint64, count)
            numbers = np.fromiter(self._recent.values(), np.int64, count)
            self._fingerprints = self._fingerprints.with_more(fingerprints, numbers)
            self._recent = {}

    def enter_stored(self, level: StoredLevel) -> None:
        """Put a stored level in the place of the levels that it covers."""
        with self._lock:
            self._gather()
            self._fingerprints = self._fingerprints.with_stored(level)

    def leave_stored(self, level: StoredLevel, instead: Known | None) -> None:
        """Replace a stored level that cannot be read or is no longer needed."""
        with self._lock:
            self._fingerprints = self._fingerprints.without_stored(level, instead)

    def compact_fingerprints(self) -> None:
        """Merge arrays of fingerprints, in the background, because few arrays are searched faster than many."""
        while (pair := self._fingerprints.mergeable()) is not None:
            merged = merge(*pair)
            with self._lock:
                self._fingerprints = self._fingerprints.with_merged(pair, merged)

    @property
    def unfiled(self) -> int:
        return sum([run.row.mailbag and is_small(run.row) for run in self.runs])


class OwnedPartitions(Sequence[Partition]):
    """A shard's partitions, indexed by partition number. Other numbers raise `NotOwner`."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._partitions = tuple(partitions)
        self._first = partitions[0].number

    @overload
    def __getitem__(self, number: int) -> Partition: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Partition]: ...
    def __getitem__(self, number: int | slice) -> Partition | Sequence[Partition]:
        if isinstance(number, slice):
            return self._partitions[max(0, (number.start or 0) - self._first) :]
        place = number - self._first
        if not 0 <= place < len(self._partitions):
            raise not_owner(number)
        return self._partitions[place]

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


def not_owner(partition: int) -> NotOwner:
    """The error for a call about a partition that another shard has."""
    return NotOwner(
        f"Another shard has partition {partition}. Ask its owner: GET /v1/nodes names it.", partition=partition
    )


def load_deed(store: StoreReader) -> Deed | None:
    """The deed of a store, in this format or an older one; None if the store is new."""
    value = store.get(0, Space.META, DEED_KEY)
    if value is None:
        return None
    version = packed_decoder(tuple[int, ...]).decode(value)[0]
    if not 1 <= version <= FORMAT_VERSION:
        raise FormatUnsupported(
            f"The data has format version {version}; this program knows formats up to {FORMAT_VERSION}. Use the version "
            "of Restante that wrote it, or a newer one.",
            found=version,
            known=FORMAT_VERSION,
        )
    return packed_decoder(Deed).decode(value)


def create_deed(store: Store, partition_count: int, key: int, fence: int) -> Deed:
    deed = Deed(FORMAT_VERSION, partition_count, key)
    changes = Changes(fences={0: fence})
    put_deed(changes, deed)
    store.commit(changes)
    return deed


def put_deed(changes: Changes, deed: Deed) -> None:
    changes.put(0, Space.META, DEED_KEY, msgspec.msgpack.encode(deed))


def load_partition(store: StoreReader, rows: StoreReader, number: int, fronts: Fronts) -> Partition:
    """Load a partition from `rows`, without its fingerprints. The fronts of its runs are read from `store` when needed."""
    partition = Partition(number, fronts)
    value = rows.get(number, Space.PARTITION, PARTITION_KEY)
    if value is not None:
        partition.counters = packed_decoder(PartitionRow).decode(value)
        partition.next_blob = partition.counters.next_blob
    runs = sorted((decode_run(value) for _, value in rows.scan(number, Space.RUN)), key=lambda row: row.first)
    visible = [row for row in runs if row.state is RunState.VISIBLE]
    partition.runs = tuple(fronts.run(store, number, row) for row in visible)
    partition.feed_runs = tuple(row for row in runs if row.state is RunState.FEED)
    _check_order(number, visible)
    partition.erased = Erased.of([decode_erased(value) for _, value in rows.scan(number, Space.ERASED)])
    return partition


def load_run(store: Store, partition: int, row: RunRow) -> Run:
    return Run.of(row, partition, [read_front(store, BlobKey(partition, place.blob), place) for place in row.segments])


def _check_order(number: int, rows: Sequence[RunRow]) -> None:
    for earlier, later in itertools.pairwise(rows):
        if earlier.last >= later.first:
            raise DataDamaged(
                f"Runs {earlier.identity} and {later.identity} of partition {number} overlap. Run `restante doctor`.",
                partition=number,
            )


def run_bounds(runs: Sequence[Run]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last sequence numbers of runs, for bisection."""
    firsts = np.array([run.row.first for run in runs], np.int64)
    return firsts, np.array([run.row.last for run in runs], np.int64)


_encoder = msgspec.msgpack.Encoder()


def encode_counters(row: PartitionRow) -> bytes:
    return _encoder.encode(row)


def run_key(row: RunRow) -> bytes:
    return number_key(row.identity)
