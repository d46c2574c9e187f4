"""The schedule of notices: each receiver has a line of waiting notices, and one notice of a line is under way at a time.

So a receiver that answers slowly or not at all holds up only its own line, and keeps one thread busy. A receiver that could
not be reached is left alone for a while, twice as long after each failure.
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
"""Threads look at the clock again after this time, because it may have been set."""


class NoticePlace(NamedTuple):
    """The place of a stored notice."""

    partition: int
    key: bytes


class Turn(NamedTuple):
    receiver: str
    place: NoticePlace


@dataclass(slots=True)
class _Line:
    """The notices waiting for one receiver, as a heap by the time of their next attempt."""

    waiting: list[tuple[int, NoticePlace]] = field(default_factory=list)
    busy: bool = False
    failures: int = 0
    not_before: int = 0

    def ready_at(self) -> int:
        return max(self.waiting[0][0], self.not_before)


class NoticeSchedule:
    """The notices of a hub that are still to be delivered. Times are in microseconds of the hub's clock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[str, _Line] = {}
        self._known: set[NoticePlace] = set()
        self._ready: list[tuple[int, str]] = []
        """A heap of the times when lines are ready. Every idle non-empty line has an entry; other entries are stale."""
        self.wanted: Callable[[], None] = lambda: None
        """Called when a notice was added."""

    def add(self, receiver: str, place: NoticePlace, at: int) -> None:
        """Add a notice to be tried at a time. Adding a known notice does nothing."""
        with self._changed:
            if place in self._known:
                return
            self._known.add(place)
            line = self._lines.setdefault(receiver, _Line())
            heappush(line.waiting, (at, place))
            self._line_up(receiver, line)
        self.wanted()

    def next_turn(self, clock: Clock, closing: threading.Event) -> Turn | None:
        """Wait for the next notice to be tried; None when the hub is closing. The caller must call `done` afterwards."""
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
        """Note that an attempt is over. The notice is tried again at `again_at`, or not at all."""
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
        """Wake the waiting threads, to check the clock and whether the hub is closing."""
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
