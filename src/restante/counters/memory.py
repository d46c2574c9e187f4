"""Counters in the memory of this process: the cheapest, and gone when it ends."""

from __future__ import annotations

import threading


class MemoryCounters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[bytes, int] = {}

    def add(self, batch_id: bytes, count: int) -> int:
        with self._lock:
            total = self._totals[batch_id] = self._totals.get(batch_id, 0) + count
            return total

    def total(self, batch_id: bytes) -> int:
        return self._totals.get(batch_id, 0)

    def forget(self, batch_id: bytes) -> None:
        with self._lock:
            self._totals.pop(batch_id, None)

    def close(self) -> None:
        pass
