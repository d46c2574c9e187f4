"""The work for batches beside their commits: remembered here, done by a thread of the background."""

from __future__ import annotations

import threading


class BatchWork:
    """Batches to be looked at, tidied or folded. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._lock = threading.Lock()
        self._to_look_at: set[bytes] = set()
        self._to_tidy: set[bytes] = set()
        self._to_fold: set[bytes] = set()
        self.folding = threading.Lock()
        """The lock of a fold: two folds of one batch would store the older bits last."""

    def look_at(self, batch_id: bytes) -> None:
        """An estimated batch may be complete."""
        with self._lock:
            self._to_look_at.add(batch_id)
        self.wanted.set()

    def tidy(self, batch_id: bytes) -> None:
        """A batch is complete or deleted: what only counting needed can go."""
        with self._lock:
            self._to_tidy.add(batch_id)
        self.wanted.set()

    def fold(self, batch_id: bytes) -> None:
        """Enough was written ahead."""
        with self._lock:
            self._to_fold.add(batch_id)
        self.wanted.set()

    def take(self) -> tuple[set[bytes], set[bytes], set[bytes]]:
        """Take the batches that are to be looked at, to be tidied and to be folded; they are the caller's now."""
        with self._lock:
            taken = (self._to_look_at, self._to_tidy, self._to_fold)
            self._to_look_at, self._to_tidy, self._to_fold = set(), set(), set()
        return taken
