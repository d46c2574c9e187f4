"""The pace of feed readers, which leaves processor time to publishers.

Readers and publishers share an interpreter. So the processor time of each read is noted, and later reads wait for a
multiple of it. Followers and readers that catch up have separate paces:

- Followers read in rounds. If no wait is left, a follower reads at once, and so do all that ask at the same moment. So the
  first change after a quiet time is delivered at once, in all partitions that a commit touched.
- Readers that catch up while others publish take turns: one reads, then all wait for a multiple of its time, then the next
  reads. The multiple grows with the other work of the process; on a nearly idle hub it is small.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from restante import limits

SecondsClock = Callable[[], float]


class Rounds:
    """The pace of followers: readers that have reached the end of the log."""

    def __init__(self, clock: SecondsClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_at = 0.0

    def pause(self) -> float:
        """How many seconds to wait before a read."""
        return max(0.0, self._paid_at - self._clock())

    def note(self, seconds: float) -> None:
        """Note the processor time of a read. The cost of the call around it is taken as constant."""
        rest = (seconds + limits.FEED_CALL_SECONDS) * limits.FEED_FOLLOWING_TIMES
        with self._lock:
            now = self._clock()
            self._paid_at = min(max(now, self._paid_at) + rest, now + limits.FEED_PAUSE_SECONDS_MAX)


def read_cost(seconds: float, byte_count: int) -> float:
    """The processor time of a page: that of reading it, and an estimate for the request and the answer."""
    return seconds + limits.FEED_PAGE_SECONDS + byte_count * limits.FEED_BYTE_SECONDS


class OtherWork:
    """The share of one core that this process has lately spent on work other than reading the feed."""

    def __init__(
        self, clock: SecondsClock, processor: SecondsClock, crowding: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._processor = processor
        self._crowding = crowding or _crowding
        self._lock = threading.Lock()
        self._share = 1.0
        self._begin(clock())

    def note(self, seconds: float) -> None:
        """Note processor time that was spent on reading the feed."""
        with self._lock:
            self._reading += seconds

    def share(self) -> float:
        """The share of one core; 1.0 if it is unknown because nobody asked lately."""
        with self._lock:
            now = self._clock()
            passed = now - self._since
            if passed >= limits.FEED_SHARE_SECONDS:
                spent = self._processor() - self._spent - self._reading
                known = passed <= 2 * limits.FEED_TURN_SECONDS_MAX
                self._share = max(0.0, spent / passed) * self._crowding() if known else 1.0
                self._begin(now)
            return self._share

    def _begin(self, now: float) -> None:
        self._since, self._spent, self._reading = now, self._processor(), 0.0


def _crowding() -> float:
    """The number of programs that want each core, at least 1.0: a process that shares its core is busier than its time shows."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) if hasattr(os, "getloadavg") else 1.0


class FeedPace:
    """The pace of readers that catch up while others publish."""

    def __init__(self, clock: SecondsClock, others: Callable[[], float]) -> None:
        self._clock = clock
        self._others = others
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._last = read_cost(0.0, 0)

    def pause(self) -> float:
        """Take the next turn, and return how many seconds to wait for it. A read is expected to cost as much as the last."""
        stay = self._last * (1 + self._times())
        with self._lock:
            now = self._clock()
            begin = max(now, self._next_at)
            self._next_at = min(begin + stay, now + limits.FEED_TURN_SECONDS_MAX)
            return begin - now

    def note(self, cost: float) -> None:
        """Note the cost of a page."""
        self._last = cost

    def _times(self) -> float:
        busy = min(1.0, self._others() / limits.FEED_BUSY_SHARE)
        return max(limits.FEED_CATCHING_UP_TIMES_MIN, limits.FEED_CATCHING_UP_TIMES * busy)


class Paces:
    """Both paces of one hub."""

    def __init__(self, clock: SecondsClock, processor: SecondsClock = time.process_time) -> None:
        self.following = Rounds(clock)
        self.others = OtherWork(clock, processor)
        self.catching_up = FeedPace(clock, self.others.share)
        self.one_at_a_time = threading.Lock()
        """Held by a follower while it reads."""
        self._elsewhere = 0.0

    def elsewhere(self, seconds: float) -> None:
        """Note processor time that another process spent on the page that is being read."""
        self._elsewhere += seconds

    def caught_up(self, seconds: float, byte_count: int) -> None:
        """Note the processor time and the size of a page that was read by a reader that catches up."""
        cost, elsewhere, self._elsewhere = read_cost(seconds, byte_count), self._elsewhere, 0.0
        self.catching_up.note(cost + elsewhere * limits.FEED_ELSEWHERE_SHARE)
        self.others.note(cost)
