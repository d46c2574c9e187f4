"""A cache of rows that an owner has lately read or written. Only the owner writes, so it need not ask the server again.

It has small rows, single ones and those of one short prefix (the heads of a recipient), in two generations: when the younger
is full, the older is forgotten. What must stay true: a row that a commit changes is unknown from before the commit is sent
until it is done, so that a reader that has seen a part of a commit sees the rest too. And a value read before a commit never
replaces the value that the commit wrote: so readers learn with a mark of when their read began.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import NamedTuple

from restante.limits import KIB, MIB
from restante.model.storage.changes import Changes, EntryKey, Space
from restante.model.storage.keys import after_prefix

GENERATION_BYTES_MAX = 16 * MIB
VALUE_BYTES_MAX = 4 * KIB
PREFIX_BYTES = 8
PREFIX_ROWS_MAX = 64
_ROW_BYTES = 200
"""Estimated bytes of a row in memory besides its key and value."""

_FLYING = sys.maxsize
"""Marks a row that a commit is about to change. It is greater than the mark of any read, so no read may replace it."""

PrefixRows = dict[bytes, bytes]
Prefix = tuple[int, Space, bytes]


class RecentRow(NamedTuple):
    """A known row: its value, or None if it does not exist."""

    value: bytes | None


class ReadMark(NamedTuple):
    """The counts of commits and of forgettings when a read began."""

    commits: int
    forgotten: int


class _Generation:
    def __init__(self) -> None:
        self.rows: dict[EntryKey, RecentRow | int] = {}
        """The known rows or, for a row that changed and was not kept, the number of commits at that time."""
        self.prefixes: dict[Prefix, PrefixRows | int] = {}
        self.size_bytes = 0


def prefix_of(partition: int, space: Space, start: bytes, end: bytes | None) -> Prefix | None:
    """The prefix whose rows a scan reads, if it is of the kind that is cached."""
    if len(start) == PREFIX_BYTES and end == after_prefix(start):
        return partition, space, start
    return None


class RecentRows:
    """The cache. It may be used from any thread. One commit at a time is begun, and then done or forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._young, self._old = _Generation(), _Generation()
        self._asked: set[Space] = set()
        """Spaces from which rows have been read. Others need not be cached."""
        self._flying: frozenset[Space] | None = None
        """The spaces whose changed rows are marked while a commit is under way."""
        self._flying_rows: dict[Prefix, PrefixRows] = {}
        """The known rows of the prefixes that the commit under way changes."""
        self._commits = self._forgotten = 0

    def row(self, entry: EntryKey) -> RecentRow | ReadMark:
        """The known row, or the mark of a read that begins now."""
        with self._lock:
            self._asked.add(entry.space)
            known = self._young.rows.get(entry) or self._old.rows.get(entry)
            return known if isinstance(known, RecentRow) else ReadMark(self._commits, self._forgotten)

    def prefix(self, prefix: Prefix) -> PrefixRows | ReadMark:
        """All rows of a prefix if they are known, or the mark of a read that begins now."""
        with self._lock:
            self._asked.add(prefix[1])
            known = self._known(prefix)
            return known if isinstance(known, dict) else ReadMark(self._commits, self._forgotten)

    def learn(self, mark: ReadMark, rows: Iterable[tuple[EntryKey, bytes | None]]) -> None:
        """Cache rows that were read, unless they may have changed since the read began."""
        with self._lock:
            for entry, value in rows:
                known = self._young.rows.get(entry) or self._old.rows.get(entry)
                if self._may_learn(mark, entry.space, known):
                    self._keep(entry, value)

    def learn_prefix(self, mark: ReadMark, prefix: Prefix, rows: PrefixRows) -> None:
        with self._lock:
            if self._may_learn(mark, prefix[1], self._known(prefix)):
                self._keep_prefix(prefix, rows)

    def begin(self, changes: Changes) -> None:
        """Mark the rows that a commit is about to change as unknown. Call it before the commit is sent."""
        with self._lock:
            self._flying = frozenset(self._asked)
            for entry in changes.entries:
                if entry.space not in self._flying:
                    continue
                self._young.rows[entry] = _FLYING
                prefix = (entry.partition, entry.space, entry.key[:PREFIX_BYTES])
                known = self._known(prefix)
                if isinstance(known, dict):
                    self._flying_rows[prefix] = known
                self._young.prefixes[prefix] = _FLYING

    def done(self, changes: Changes) -> None:
        """Cache the rows of the commit, which is stored."""
        with self._lock:
            self._commits += 1
            rows, self._flying_rows = self._flying_rows, {}
            self._flying = None
            for entry, value in changes.entries.items():
                if entry.space in self._asked:
                    self._keep(entry, value)
                    prefix = (entry.partition, entry.space, entry.key[:PREFIX_BYTES])
                    if prefix in rows:
                        rows[prefix] = _changed(rows[prefix], entry.key, value)
                    self._keep_prefix(prefix, rows.get(prefix))

    def forget(self, *, learning: bool = True) -> None:
        """Forget everything, because a commit was not stored. With `learning` False its outcome is unknown: learn nothing."""
        with self._lock:
            self._forgotten += 1
            self._flying, self._flying_rows = None if learning else frozenset(), {}
            self._young, self._old = _Generation(), _Generation()

    def _known(self, prefix: Prefix) -> PrefixRows | int | None:
        found = self._young.prefixes.get(prefix)
        return self._old.prefixes.get(prefix) if found is None else found

    def _may_learn(self, mark: ReadMark, space: Space, known: object) -> bool:
        if mark.forgotten != self._forgotten or (self._flying is not None and space not in self._flying):
            return False
        return known is None or (isinstance(known, int) and known <= mark.commits)

    def _keep(self, entry: EntryKey, value: bytes | None) -> None:
        """Cache a row. For a value that is too large, only the number of commits is kept."""
        size = len(value or b"")
        self._young.rows[entry] = RecentRow(value) if size <= VALUE_BYTES_MAX else self._commits
        self._grow(len(entry.key) + size)

    def _keep_prefix(self, prefix: Prefix, rows: PrefixRows | None) -> None:
        size = sum(len(key) + len(value) for key, value in rows.items()) if rows else 0
        few = rows is not None and len(rows) <= PREFIX_ROWS_MAX and size <= VALUE_BYTES_MAX
        self._young.prefixes[prefix] = rows if rows is not None and few else self._commits
        self._grow(size)

    def _grow(self, size: int) -> None:
        """Count the size, and drop the older generation when the younger is full.

        So a row that changed after a read began is in one of the two generations, or `_forgotten` has risen since.
        """
        self._young.size_bytes += size + _ROW_BYTES
        if self._young.size_bytes > GENERATION_BYTES_MAX and self._flying is None:
            self._old, self._young = self._young, _Generation()
            self._forgotten += 1


def _changed(rows: PrefixRows, key: bytes, value: bytes | None) -> PrefixRows:
    """A changed copy, because a thread may be reading the other."""
    kept = {each: other for each, other in rows.items() if each != key}
    if value is not None:
        kept[key] = value
    return kept
