"""A minute's window over counters that only grow: what came to them within the last minute."""

from __future__ import annotations

from collections import deque

ROUND_SECONDS = 10.0
"""How often health is evaluated."""
WINDOW_SECONDS = 60.0


class RateWindow:
    """Counters as they were at each round, for as long as the window is; and what was added since its beginning."""

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, tuple[float, ...]]] = deque()

    def added(self, now: float, counters: tuple[float, ...]) -> tuple[float, ...]:
        """Note the counters as they are now; gives what came to each within the window.

        The oldest sample that is kept is the last one from before the window began: a window is never shorter than it
        should be, once the hub has run so long. Before that, it begins with the first sample.
        """
        self._samples.append((now, counters))
        while len(self._samples) > 1 and self._samples[1][0] <= now - self._seconds:
            self._samples.popleft()
        first = self._samples[0][1]
        return tuple(max(0.0, last - before) for last, before in zip(counters, first, strict=True))


def mean(total: float, count: float) -> float | None:
    """The mean; None: nothing was there to measure."""
    return total / count if count else None
