"""How those who read along leave room for those who publish.

Both share an interpreter, and what the one takes the other has not. So the processor time of each read is put down, and
reads that follow it wait for some times as long. There are two ways of it:

- Those who follow read in rounds. Whoever asks when nothing is left to pay reads at once, and so do all others who ask in
  the same moment: the first change after a quiet time is told at once, in all partitions that a commit touched.
- Those who catch up while others publish take turns: one reads, then nobody for some times as long, then the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from restante import limits

Clock = Callable[[], float]


class Rounds:
    """The pace of those who follow."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_at = 0.0

    def pause(self) -> float:
        """How many seconds to let pass before a read."""
        return max(0.0, self._paid_at - self._clock())

    def note(self, seconds: float) -> None:
        """A read took so much of a processor; to ask and to answer takes about the same for all."""
        rest = (seconds + limits.FEED_CALL_SECONDS) * limits.FEED_FOLLOWING_TIMES
        with self._lock:
            now = self._clock()
            self._paid_at = min(max(now, self._paid_at) + rest, now + limits.FEED_PAUSE_SECONDS_MAX)


class FeedPace:
    """The pace of those who catch up while others publish."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._last = 0.0

    def pause(self) -> float:
        """How many seconds to let pass before a read. It is expected to take as long as the last one did."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._next_at)
            stay = (self._last + limits.FEED_CALL_SECONDS) * (1 + limits.FEED_CATCHING_UP_TIMES)
            self._next_at = min(begin + stay, now + limits.FEED_PAUSE_SECONDS_MAX)
            return begin - now

    def note(self, seconds: float) -> None:
        """A read took so much of a processor."""
        self._last = seconds


class Paces:
    """Both, of a hub."""

    def __init__(self, clock: Clock) -> None:
        self.following = Rounds(clock)
        self.catching_up = FeedPace(clock)
        self.one_at_a_time = threading.Lock()
        """Held by whoever follows while he reads."""
