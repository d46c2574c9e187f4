"""The clock: microseconds since 1970 UTC, given to everything that asks what time it is."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], int]
