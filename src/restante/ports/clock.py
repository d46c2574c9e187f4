"""Clocks: the time of day, given to everything that asks what time it is, and one that only says how much time has passed."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Microseconds since 1970 UTC."""


def running_seconds() -> float:
    """Seconds of a clock that also runs while the machine is suspended, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
