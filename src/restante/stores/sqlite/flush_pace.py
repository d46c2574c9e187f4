"""`FlushPace`: how long the latest flushes took, to decide whether an event loop may wait for the next one."""

from __future__ import annotations

import time
from collections import deque

_LATELY = 8
_QUICK_SECONDS = 0.000_5
_STALL_SECONDS = 0.02
_WARY_SECONDS = 1.0


class FlushPace:
    """The times of the latest flushes. A time may include waiting for the interpreter lock, so the shortest one counts."""

    __slots__ = ("_lately", "_wary_until")

    def __init__(self) -> None:
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self._wary_until = 0.0

    def add(self, seconds: float) -> None:
        self._lately.append(seconds)
        if seconds > _STALL_SECONDS:
            self._wary_until = time.monotonic() + _WARY_SECONDS

    def is_quick(self) -> bool:
        """Whether the disk is known to be fast, and has not stalled within the last second."""
        return bool(self._lately) and min(self._lately) <= _QUICK_SECONDS and time.monotonic() >= self._wary_until
