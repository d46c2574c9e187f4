"""Rows that an owner has read and written lately: it is the only one who writes, so it need not ask the server again.

Small rows only, single ones and those of one short prefix (the heads of a recipient), in two generations: when the younger
one is full, the older one is forgotten. A row that a commit is about to change is unknown from before the commit is sent
until it is done, so a reader that has seen a part of a commit sees the rest of it too. What was read before a commit never takes
the place of what the commit wrote: a reader says when it began.
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
"""The bytes that a row takes in memory beside its key and value, about."""

_FLYING = sys.maxsize
"""Stands in the place of a row that a commit is about to change: no read has begun after that."""

Rows = dict[bytes, bytes]
Prefix = tuple[int, Space, bytes]


class RecentRow(NamedTuple):
    """A row that is known: its value, or None if there is none."""

    value: bytes | None


class ReadMark(NamedTuple):
    """When a read began."""

    commits: int
    forgotten: int


class _Generation:
    def __init__(self) -> None:
        self.rows: dict[EntryKey, RecentRow | int] = {}
        """The known rows; or how many commits there were when one changed and was not kept."""
        self.prefixes: dict[Prefix, Rows | int] = {}
        self.size_bytes = 0


def prefix_of(partition: int, space: Space, start: bytes, end: bytes | None) -> Prefix | None:
    """The prefix whose rows a scan wants, if it is one of those that are remembered."""
    if len(start) == PREFIX_BYTES and end == after_prefix(start):
        return partition, space, start
    return None


class RecentRows:
    """May be used from any thread. One commit at a time is begun, and then done or undone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._young, self._old = _Generation(), _Generation()
        self._asked: set[Space] = set()
        """Spaces of which rows are asked for: the others need not be remembered."""
        self._flying: frozenset[Space] | None = None
        """The spaces whose changed rows are marked while a commit is under way."""
        self._flying_rows: dict[Prefix, Rows] = {}
        """The rows that were known of the prefixes that it changes."""
        self._commits = self._forgotten = 0

    def row(self, entry: EntryKey) -> RecentRow | ReadMark:
        """The known row; or the mark of a read that begins now."""
        with self._lock:
            self._asked.add(entry.space)
            known = self._young.rows.get(entry) or self._old.rows.get(entry)
            return known if isinstance(known, RecentRow) else ReadMark(self._commits, self._forgotten)

    def prefix(self, prefix: Prefix) -> Rows | ReadMark:
        """All rows of a prefix, if they are known."""
        with self._lock:
            self._asked.add(prefix[1])
            known = self._known(prefix)
            return known if isinstance(known, dict) else ReadMark(self._commits, self._forgotten)

    def learn(self, mark: ReadMark, rows: Iterable[tuple[EntryKey, bytes | None]]) -> None:
        """Remember what was read, unless it may have changed since the read began."""
        with self._lock:
            for entry, value in rows:
                known = self._young.rows.get(entry) or self._old.rows.get(entry)
                if self._may_learn(mark, entry.space, known):
                    self._keep(entry, value)

    def learn_prefix(self, mark: ReadMark, prefix: Prefix, rows: Rows) -> None:
        with self._lock:
            if self._may_learn(mark, prefix[1], self._known(prefix)):
                self._keep_prefix(prefix, rows)

    def begin(self, changes: Changes) -> None:
        """A commit is about to be sent: what it changes is unknown."""
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
        """Note that the commit is stored."""
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
        """All that is known may be wrong: a commit was not stored. Or nobody knows, and then nothing is learnt."""
        with self._lock:
            self._forgotten += 1
            self._flying, self._flying_rows = None if learning else frozenset(), {}
            self._young, self._old = _Generation(), _Generation()

    def _known(self, prefix: Prefix) -> Rows | int | None:
        found = self._young.prefixes.get(prefix)
        return self._old.prefixes.get(prefix) if found is None else found

    def _may_learn(self, mark: ReadMark, space: Space, known: object) -> bool:
        if mark.forgotten != self._forgotten or (self._flying is not None and space not in self._flying):
            return False
        return known is None or (isinstance(known, int) and known <= mark.commits)

    def _keep(self, entry: EntryKey, value: bytes | None) -> None:
        """A value that is too large leaves the number of the commit that wrote it."""
        size = len(value or b"")
        self._young.rows[entry] = RecentRow(value) if size <= VALUE_BYTES_MAX else self._commits
        self._grow(len(entry.key) + size)

    def _keep_prefix(self, prefix: Prefix, rows: Rows | None) -> None:
        size = sum(len(key) + len(value) for key, value in rows.items()) if rows else 0
        few = rows is not None and len(rows) <= PREFIX_ROWS_MAX and size <= VALUE_BYTES_MAX
        self._young.prefixes[prefix] = rows if rows is not None and few else self._commits
        self._grow(size)

    def _grow(self, size: int) -> None:
        """Two generations: a row that changed after a read began is in one of them, or something was forgotten since."""
        self._young.size_bytes += size + _ROW_BYTES
        if self._young.size_bytes > GENERATION_BYTES_MAX and self._flying is None:
            self._old, self._young = self._young, _Generation()
            self._forgotten += 1


def _changed(rows: Rows, key: bytes, value: bytes | None) -> Rows:
    """A copy: somebody may be reading the other."""
    kept = {each: other for each, other in rows.items() if each != key}
    if value is not None:
        kept[key] = value
    return kept
