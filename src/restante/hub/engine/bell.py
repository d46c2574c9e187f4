"""`Bell` wakes long polls: a commit that stores or frees mail of a recipient wakes the peeks waiting for that recipient.

A feed reader waits for a partition instead, and every commit that takes a number there wakes it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from restante.hub.engine.plan import CommitPlan

Ring = Callable[[], None]

_log = logging.getLogger(__name__)


class Bell:
    """The callbacks of waiters, by recipient hash. Colliding hashes only wake a waiter needlessly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[int, list[Ring]] = {}
        self._readers: dict[int, list[Ring]] = {}
        """The callbacks of feed readers that have reached the end of a partition, by partition."""
        self.rung_at = -math.inf
        """The monotonic time of the last commit."""

    @contextmanager
    def listening(self, recipient_hash: int, ring: Ring) -> Iterator[None]:
        """Within this context, call `ring` after each commit that concerns the recipient."""
        with self._listed(self._waiters, recipient_hash, ring):
            yield

    @contextmanager
    def listening_to_partition(self, partition: int, ring: Ring) -> Iterator[None]:
        """Within this context, call `ring` after each commit that takes a number in the partition."""
        with self._listed(self._readers, partition, ring):
            yield

    @contextmanager
    def _listed(self, waiters: dict[int, list[Ring]], key: int, ring: Ring) -> Iterator[None]:
        with self._lock:
            waiters.setdefault(key, []).append(ring)
        try:
            yield
        finally:
            with self._lock:
                rings = waiters[key]
                rings.remove(ring)
                if not rings:
                    del waiters[key]

    def ring(self, plan: CommitPlan) -> None:
        """Wake the waiters that a commit concerns. The committer calls this after each commit."""
        self.rung_at = time.monotonic()
        if self._readers:
            with self._lock:
                rings = [ring for partition in plan.counters for ring in self._readers.get(partition, ())]
            for ring in rings:
                _ring(ring)
        if not self._waiters:
            return
        with self._lock:
            waiting = np.fromiter(self._waiters, np.uint64, len(self._waiters))
            concerned = {
                recipient for hashes in plan.concerns for recipient in waiting[np.isin(waiting, hashes)].tolist()
            }
            rings = [ring for recipient in concerned for ring in self._waiters[recipient]]
        for ring in rings:
            _ring(ring)

    def ring_all(self) -> None:
        """Wake every waiter; called when the hub closes."""
        with self._lock:
            groups = (*self._waiters.values(), *self._readers.values())
            rings = [ring for group in groups for ring in group]
        for ring in rings:
            _ring(ring)


def _ring(ring: Ring) -> None:
    """Call one callback. A failure is logged, so that the other callbacks still run."""
    try:
        ring()
    except Exception:  # noqa: BLE001  # whatever a listener raises
        _log.exception("A listener failed.")
