"""`Overlay`: the rows that are in the log and not yet in the database, in memory, for reads.

Commits go into the current generation. For a transfer into the database it is frozen, and a new one begins. A frozen
generation stays visible until the database has it. So a read that reads the overlay first, then the database, and lays the
former over the latter is right before and after the transfer.

It would be wrong only if the database has got more in between than the overlay had shown, which takes another freezing.
`epoch` counts freezings, so that readers can notice.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import Counter
from typing import NamedTuple

from restante.stores.sqlite.log import LogFile
from restante.stores.sqlite.record import BlobRow, CommitDeeds
from restante.stores.sqlite.writer import Transaction

ROW_BYTES = 256
"""Estimated bytes of a row in memory besides its own."""


class OverlayValue(NamedTuple):
    """The value of a key that the overlay knows; None if the key is deleted."""

    value: bytes | None


class FoundBlob(NamedTuple):
    row: BlobRow | None


class Generation:
    """The combined changes of some consecutive commits."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, int], _Table] = {}
        self.blobs: dict[int, BlobRow] = {}
        self.dropped: dict[int, None] = {}
        self.files: list[LogFile] = []
        """The log files with its records."""
        self.last = 0
        self.weight_bytes = 0

    def apply(self, deeds: CommitDeeds, *, sequence: int, record_bytes: int) -> list[int]:
        """Apply a commit; return the files whose blobs came and went inside this generation, once for each blob."""
        tables = self._tables
        for (partition, space, key), value in deeds.entries:
            table = tables.get((partition, space))
            if table is None:
                table = tables[partition, int(space)] = _Table()
            if key not in table.values:
                table.add_key(key)
            table.values[key] = value
        for row in deeds.blobs:
            self.blobs[row[0]] = row
        freed = [file for file in map(self._drop, deeds.dropped) if file is not None]
        self.last = sequence
        self.weight_bytes += record_bytes + ROW_BYTES * sum(map(len, deeds))
        return freed

    def entry(self, partition: int, space: int, key: bytes) -> OverlayValue | None:
        table = self._tables.get((partition, space))
        return None if table is None or key not in table.values else OverlayValue(table.values[key])

    def entries(self, partition: int, space: int, start: bytes, end: bytes | None) -> dict[bytes, bytes | None]:
        table = self._tables.get((partition, space))
        return {} if table is None else table.between(start, end)

    def blob(self, row_id: int) -> FoundBlob | None:
        if row_id in self.dropped:
            return FoundBlob(None)
        row = self.blobs.get(row_id)
        return None if row is None else FoundBlob(row)

    def named_files(self) -> Counter[int]:
        return Counter(file for _, file, _, _, _ in self.blobs.values() if file is not None)

    def transaction(self) -> Transaction:
        puts: list[tuple[int, int, bytes, bytes]] = []
        deletes: list[tuple[int, int, bytes]] = []
        # Write in key order, which is the order of the database's pages.
        for (partition, space), table in sorted(self._tables.items(), key=lambda item: item[0]):
            for key in table.keys:
                value = table.values[key]
                if value is None:
                    deletes.append((partition, space, key))
                else:
                    puts.append((partition, space, key, value))
        return Transaction(
            puts=puts,
            deletes=deletes,
            blobs=sorted(self.blobs.values(), key=lambda row: row[0]),
            dropped=sorted(self.dropped),
            transferred=self.last or None,
        )

    def _drop(self, row_id: int) -> int | None:
        row = self.blobs.pop(row_id, None)
        if row is not None:
            return row[1]
        self.dropped[row_id] = None
        return None


class Overlay:
    """The current generation over the frozen one, if there is one.

    A reader that needs several answers of one moment must hold `lock` meanwhile.
    """

    def __init__(self, frozen: Generation | None = None) -> None:
        self.lock = threading.RLock()
        self.epoch = 0
        self._current = Generation()
        self._frozen = frozen

    @property
    def frozen(self) -> Generation | None:
        return self._frozen

    def weight_bytes(self) -> int:
        """The estimated bytes of the current generation."""
        return self._current.weight_bytes

    def apply(self, deeds: CommitDeeds, *, sequence: int, record_bytes: int) -> list[int]:
        with self.lock:
            return self._current.apply(deeds, sequence=sequence, record_bytes=record_bytes)

    def freeze(self, files: list[LogFile]) -> None:
        """Freeze the current generation. None may be frozen already."""
        assert self._frozen is None
        with self.lock:
            self.epoch += 1
            self._frozen, self._current = self._current, Generation()
            self._frozen.files = files

    def thaw(self) -> None:
        """Drop the frozen generation, which the database has now."""
        with self.lock:
            self._frozen = None

    def close(self) -> None:
        """Drop everything, and close the files of the frozen generation."""
        with self.lock:
            for file in () if self._frozen is None else self._frozen.files:
                file.close()
            self._current, self._frozen = Generation(), None

    def entry(self, partition: int, space: int, key: bytes) -> OverlayValue | None:
        with self.lock:
            found = self._current.entry(partition, space, key)
            return found if found is not None or self._frozen is None else self._frozen.entry(partition, space, key)

    def entries(self, partition: int, space: int, start: bytes, end: bytes | None) -> dict[bytes, bytes | None]:
        with self.lock:
            found = self._current.entries(partition, space, start, end)
            return found if self._frozen is None else self._frozen.entries(partition, space, start, end) | found

    def blob(self, row_id: int) -> FoundBlob | None:
        with self.lock:
            found = self._current.blob(row_id)
            return found if found is not None or self._frozen is None else self._frozen.blob(row_id)

    def blob_ids(self, start: int, end: int) -> tuple[set[int], set[int]]:
        """The ids of new blobs from `start` to `end` (exclusive), and of all dropped blobs."""
        with self.lock:
            came: set[int] = set()
            gone: set[int] = set()
            for generation in (self._frozen, self._current):
                if generation is not None:
                    came.update(row_id for row_id in generation.blobs if start <= row_id < end)
                    gone.update(generation.dropped)
            return came, gone


class _Table:
    """The keys of one partition and space, in order, with their values."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.keys: list[bytes] = []

    def add_key(self, key: bytes) -> None:
        """Add a key in order. Most new keys are the highest, because they are ascending numbers."""
        keys = self.keys
        if not keys or keys[-1] < key:
            keys.append(key)
        else:
            insort(keys, key)

    def between(self, start: bytes, end: bytes | None) -> dict[bytes, bytes | None]:
        last = len(self.keys) if end is None else bisect_left(self.keys, end)
        return {key: self.values[key] for key in self.keys[bisect_left(self.keys, start) : last]}
