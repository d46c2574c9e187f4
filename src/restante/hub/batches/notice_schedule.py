"""The schedule of notices: each receiver has a line of waiting notices, and one notice of a line is under way at a time.

So a receiver that answers slowly or not at all holds up only its own line, and keeps one thread busy. A receiver that could
not be reached is left alone for a while, twice as long after each failure. Webhooks take one road, messages to the mailboxes
of each shard another, and of each road only so much is under way at a time, so a shard that is away holds up only messages to
its mailboxes. On a road only so much of one owner is under way, and the owner with the least comes first, then the one whose
turn was longest ago: neither silent receivers nor many notices of one owner hold up anybody else.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from restante import limits
from restante.model.back_off import back_off
from restante.model.batches.notice import NoticeReceiver
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
    receiver: NoticeReceiver
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


_Road = int | None
"""The number of a shard, to which messages go one at a time; None for webhooks."""


@dataclass(slots=True)
class _Owner:
    """The lines of one owner on one road."""

    at_once: int
    served: int
    """The number of the owner's last turn; at first, that of the last turn before it came."""
    lines: dict[NoticeReceiver, _Line] = field(default_factory=dict)
    ready: list[tuple[int, NoticeReceiver]] = field(default_factory=list)
    """A heap of the times when lines are ready. Every idle non-empty line has an entry; other entries are stale."""
    busy: int = 0

    def ready_at(self) -> int | None:
        """When the first line is ready; None if there is none, or too much of the owner is under way."""
        while self.ready:
            at, receiver = self.ready[0]
            line = self.lines.get(receiver)
            if line is not None and not line.busy and line.ready_at() <= at:
                return at if self.busy < self.at_once else None
            heappop(self.ready)
        return None


class NoticeSchedule:
    """The notices of a hub that are still to be delivered. Times are in microseconds of the hub's clock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owners: dict[tuple[_Road, bytes], _Owner] = {}
        self._known: set[NoticePlace] = set()
        self._busy: Counter[_Road] = Counter()
        """How much is under way on each road."""
        self._turns = 0
        self.wanted: Callable[[], None] = lambda: None
        """Called when a notice was added."""

    def add(self, receiver: NoticeReceiver, place: NoticePlace, at: int) -> None:
        """Add a notice to be tried at a time. Adding a known notice does nothing."""
        with self._changed:
            if place in self._known:
                return
            self._known.add(place)
            road = _road_to(receiver)
            at_once = limits.WEBHOOKS_OF_OWNER_MAX if road is None else 1
            owner = self._owners.setdefault((road, receiver.owner), _Owner(at_once, self._turns))
            line = owner.lines.setdefault(receiver, _Line())
            heappush(line.waiting, (at, place))
            self._line_up(owner, receiver, line)
        self.wanted()

    def next_turn(self, clock: Clock, closing: threading.Event) -> Turn | None:
        """Wait for the next notice to be tried; None when the hub is closing. The caller must call `done` afterwards."""
        with self._changed:
            while not closing.is_set():
                now = clock()
                turn, ready_at = self._take(now)
                if turn is not None:
                    return turn
                until = _WAIT_SECONDS_MAX if ready_at is None else (ready_at - now) / _SECOND
                self._changed.wait(min(until, _WAIT_SECONDS_MAX))
        return None

    def done(self, turn: Turn, *, again_at: int | None, reached: bool, now: int) -> None:
        """Note that an attempt is over. The notice is tried again at `again_at`, or not at all."""
        with self._changed:
            road = _road_to(turn.receiver)
            owner = self._owners[road, turn.receiver.owner]
            line = owner.lines[turn.receiver]
            self._count(road, owner, -1)
            line.busy = False
            line.failures = 0 if reached else line.failures + 1
            line.not_before = 0 if reached else now + _pause(line.failures)
            if again_at is None:
                self._known.discard(turn.place)
            else:
                heappush(line.waiting, (again_at, turn.place))
            if line.waiting:
                self._line_up(owner, turn.receiver, line)
            else:
                del owner.lines[turn.receiver]
            if not owner.lines:
                del self._owners[road, turn.receiver.owner]
            self._changed.notify()

    def wake(self) -> None:
        """Wake the waiting threads, to check the clock and whether the hub is closing."""
        with self._changed:
            self._changed.notify_all()

    def _line_up(self, owner: _Owner, receiver: NoticeReceiver, line: _Line) -> None:
        if not line.busy:
            heappush(owner.ready, (line.ready_at(), receiver))
            self._changed.notify()

    def _take(self, now: int) -> tuple[Turn | None, int | None]:
        """The turn whose time has come; if there is none, the time of the next, unless it waits for another to end."""
        found = [
            (owner.busy, owner.served, at, road, owner)
            for (road, _), owner in self._owners.items()
            if self._busy[road] < _at_once(road) and (at := owner.ready_at()) is not None
        ]
        due = [one for one in found if one[2] <= now]
        if not due:
            return None, min((one[2] for one in found), default=None)
        *_, road, owner = min(due, key=lambda one: one[:3])
        receiver = heappop(owner.ready)[1]
        line = owner.lines[receiver]
        line.busy = True
        self._turns += 1
        owner.served = self._turns
        self._count(road, owner, 1)
        return Turn(receiver, heappop(line.waiting)[1]), None

    def _count(self, road: _Road, owner: _Owner, more: int) -> None:
        owner.busy += more
        self._busy[road] += more


def _road_to(receiver: NoticeReceiver) -> _Road:
    return None if receiver.server else receiver.shard


def _at_once(road: _Road) -> int:
    return limits.WEBHOOKS_AT_ONCE_MAX if road is None else 1


def _pause(failures: int) -> int:
    return round(back_off(failures, first=_PAUSE_SECONDS, longest=limits.NOTICE_PAUSE_SECONDS_MAX) * _SECOND)
