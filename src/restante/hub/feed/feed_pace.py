"""The pace of feed readers: how reads of the feed leave processor time to publishers.

Readers and publishers share an interpreter. So the processor time of each read is noted, and the reads after it wait for
a multiple of that time. Followers and readers that catch up have a pace each:

- Followers read in rounds. A follower that asks when no wait is left reads at once, and so do all that ask at the same
  moment: the first change after a quiet time is delivered at once, in all partitions that a commit touched.
- Readers that catch up while others publish take turns: one reads, then all wait for a multiple of its time, then the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from restante import limits

Clock = Callable[[], float]


class Rounds:
    """The pace of followers: readers that have reached the end of the log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_at = 0.0

    def pause(self) -> float:
        """How many seconds to wait before a read."""
        return max(0.0, self._paid_at - self._clock())

    def note(self, seconds: float) -> None:
        """Note the processor time of a read; asking and answering take about the same time for all."""
        rest = (seconds + limits.FEED_CALL_SECONDS) * limits.FEED_FOLLOWING_TIMES
        with self._lock:
            now = self._clock()
            self._paid_at = min(max(now, self._paid_at) + rest, now + limits.FEED_PAUSE_SECONDS_MAX)


class FeedPace:
    """The pace of readers that catch up while others publish."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._last = 0.0

    def pause(self) -> float:
        """How many seconds to wait before a read, which is expected to take as long as the last one."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._next_at)
            stay = (self._last + limits.FEED_CALL_SECONDS) * (1 + limits.FEED_CATCHING_UP_TIMES)
            self._next_at = min(begin + stay, now + limits.FEED_PAUSE_SECONDS_MAX)
            return begin - now

    def note(self, seconds: float) -> None:
        """Note the processor time of a read."""
        self._last = seconds


class Paces:
    """Both paces of one hub."""

    def __init__(self, clock: Clock) -> None:
        self.following = Rounds(clock)
        self.catching_up = FeedPace(clock)
        self.one_at_a_time = threading.Lock()
        """Held by a follower while it reads."""
