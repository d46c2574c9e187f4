"""How those who read along leave room for those who publish.

Both share an interpreter, and what the one takes the other has not. So each read is put down with the processor time that
it took, and after it there is a pause of some times as long. Nobody is asked to pause before a read of which there is
nothing to pay: the first change after a quiet time is told at once, and so are all partitions that a commit touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from restante import limits

Clock = Callable[[], float]


class Pace:
    """What was read, as a time from which on there may be read again."""

    def __init__(self, clock: Clock, times: float) -> None:
        self._clock = clock
        self._times = times
        self._lock = threading.Lock()
        self._free_at = 0.0

    def note(self, seconds: float) -> None:
        """A read took so much of a processor. What it takes beside to ask and to answer is about the same for all."""
        rest = (seconds + limits.FEED_CALL_SECONDS) * self._times
        with self._lock:
            now = self._clock()
            self._free_at = min(max(now, self._free_at) + rest, now + limits.FEED_PAUSE_SECONDS_MAX)

    def pause(self) -> float:
        """How many seconds to let pass before the next read."""
        return max(0.0, self._free_at - self._clock())


class Paces:
    """One for those who follow, and one for those who catch up while others publish."""

    def __init__(self, clock: Clock) -> None:
        self.following = Pace(clock, limits.FEED_FOLLOWING_TIMES)
        self.catching_up = Pace(clock, limits.FEED_CATCHING_UP_TIMES)
