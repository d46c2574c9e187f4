"""The schedule of notices: they wait in a line for each receiver, and one notice of a line is under way at a time.

So a receiver that takes long to answer, or does not, keeps only its own line waiting and one of the threads busy. One
that was out of reach is left alone for a while, twice as long after each failure, whatever else is in its line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from restante import limits
from restante.model.back_off import back_off
from restante.ports.clock import Clock

_SECOND = 1_000_000
_PAUSE_SECONDS = 0.5
_WAIT_SECONDS_MAX = 60.0
"""After that a thread looks at the clock again, which may have been set."""


class NoticePlace(NamedTuple):
    """Where a notice is stored."""

    partition: int
    key: bytes


class Turn(NamedTuple):
    receiver: str
    place: NoticePlace


@dataclass(slots=True)
class _Line:
    """The notices that wait for one receiver, the first to be tried foremost."""

    waiting: list[tuple[int, NoticePlace]] = field(default_factory=list)
    busy: bool = False
    failures: int = 0
    not_before: int = 0

    def ready_at(self) -> int:
        return max(self.waiting[0][0], self.not_before)


class Schedule:
    """The notices of a hub that are still to be delivered. Times in microseconds, as the hub's clock tells them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[str, _Line] = {}
        self._known: set[NoticePlace] = set()
        self._ready: list[tuple[int, str]] = []
        """When lines are ready. Each idle line that is not empty is in it as it is now; what else is in it is stale."""
        self.wanted: Callable[[], None] = lambda: None
        """A function that is called when there is more to do."""

    def add(self, receiver: str, place: NoticePlace, at: int) -> None:
        """A notice to be tried at a time; again, if it is known already, does nothing."""
        with self._changed:
            if place in self._known:
                return
            self._known.add(place)
            line = self._lines.setdefault(receiver, _Line())
            heappush(line.waiting, (at, place))
            self._line_up(receiver, line)
        self.wanted()

    def next_turn(self, clock: Clock, closing: threading.Event) -> Turn | None:
        """The next notice to be tried, as soon as it is time; `done` must follow. None when the hub is closing."""
        with self._changed:
            while not closing.is_set():
                now = clock()
                turn = self._take(now)
                if turn is not None:
                    return turn
                until = (self._ready[0][0] - now) / _SECOND if self._ready else _WAIT_SECONDS_MAX
                self._changed.wait(min(until, _WAIT_SECONDS_MAX))
        return None

    def done(self, turn: Turn, *, again_at: int | None, reached: bool, now: int) -> None:
        """An attempt is over. The notice is to be tried again at a time, or not at all."""
        with self._changed:
            line = self._lines[turn.receiver]
            line.busy = False
            line.failures = 0 if reached else line.failures + 1
            line.not_before = 0 if reached else now + _pause(line.failures)
            if again_at is None:
                self._known.discard(turn.place)
            else:
                heappush(line.waiting, (again_at, turn.place))
            if line.waiting:
                self._line_up(turn.receiver, line)
            else:
                del self._lines[turn.receiver]

    def wake(self) -> None:
        """Wake the threads that wait: they look at the clock again, and whether the hub is closing."""
        with self._changed:
            self._changed.notify_all()

    def _line_up(self, receiver: str, line: _Line) -> None:
        if not line.busy:
            heappush(self._ready, (line.ready_at(), receiver))
            self._changed.notify()

    def _take(self, now: int) -> Turn | None:
        while self._ready and self._ready[0][0] <= now:
            _, receiver = heappop(self._ready)
            line = self._lines.get(receiver)
            if line is not None and not line.busy and line.waiting and line.ready_at() <= now:
                line.busy = True
                return Turn(receiver, heappop(line.waiting)[1])
        return None


def _pause(failures: int) -> int:
    return round(back_off(failures, first=_PAUSE_SECONDS, longest=limits.NOTICE_PAUSE_SECONDS_MAX) * _SECOND)
