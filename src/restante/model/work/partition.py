"""The actions of one partition in the hands of a worker: what is open, what is parked, what is to be reported.

Actions are read in the order of their numbers. `order` has them all, from the first that the hub has no outcome of. So its
first open action gives the position, and its length says how far the worker has read ahead.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from restante.model.back_off import back_off
from restante.model.work.actions import EntryState, ThingState, WorkAction, WorkEntry, WorkThing
from restante.model.work.results import OutcomeReport, WorkOutcome
from restante.model.work.rules import BRAKE_THINGS, DOUBTFUL_ATTEMPTS_MAX, REPORT_OUTCOMES_MAX, Brake, WorkPolicy

_STANDING = (ThingState.HELD, ThingState.LACKING)
"""The states of things that this worker cannot go on with by itself."""
_REPEAT_SECONDS = 0.1
_REPEAT_SECONDS_MAX = 5.0


class PartitionWork:
    """One partition that a worker has, under one generation."""

    def __init__(self, number: int, generation: int, position: int, policy: WorkPolicy, now: float) -> None:
        self.number = number
        self.generation = generation
        self.position = position
        """The position as the hub has it."""
        self.read = position
        """Up to where it was read."""
        self._doubtful_upto: int | None = None
        """Up to here another worker may have begun what has no outcome, and died of it; None: nothing was read yet."""
        self._doubtful_left = DOUBTFUL_ATTEMPTS_MAX
        self.giving_up = False
        self.lost = False
        self.running = 0
        self.hung: list[int] = []
        """Numbers of actions whose attempts do not end: with one of them it is never released."""
        self.brake = Brake()
        self.things: dict[str, WorkThing] = {}
        """The things that have open actions."""
        self.ready: deque[WorkThing] = deque()
        self.hub_ahead = -math.inf
        """The hub's time less the worker's monotonic one."""
        self._policy = policy
        self._order: deque[WorkEntry] = deque()
        self._parked: list[tuple[float, int, WorkThing]] = []
        self._decided: deque[tuple[WorkEntry, WorkOutcome]] = deque()
        self._decided_at = 0.0
        """When the first of them was decided."""
        self._report: OutcomeReport | None = None
        self._reported: list[WorkEntry] = []
        self._report_failures = 0
        self._report_at = 0.0
        """Before this time the report under way is not made again."""
        self._positioned_at = now

    # Reading

    @property
    def room(self) -> int:
        """How many actions more may be read."""
        return max(0, self._policy.read_ahead - len(self._order))

    def enter(self, action: WorkAction) -> None:
        """An action that is to be done, after those of its thing."""
        thing = self._thing(action.concerns)
        entry = WorkEntry(action, thing)
        self._order.append(entry)
        thing.queue.append(entry)
        if thing.state is ThingState.EMPTY:
            self.make_ready(thing)

    def read_upto(self, number: int) -> None:
        """A page was read. The actions on the first page were there when the worker got the partition."""
        if self._doubtful_upto is None:
            self._doubtful_upto = number
        self.read = max(self.read, number)

    def is_doubtful(self, entry: WorkEntry) -> bool:
        """Whether the hub has to know of an attempt before it begins. Asked once for each attempt."""
        if entry.action.deaths:
            return True
        doubtful = self._doubtful_left > 0 and entry.action.number <= (self._doubtful_upto or 0)
        self._doubtful_left -= doubtful
        return doubtful

    def _thing(self, concerns: str) -> WorkThing:
        key = self._policy.key(concerns)
        thing = self.things.get(key)
        if thing is None:
            thing = self.things[key] = WorkThing(key)
        return thing

    # Things

    def make_ready(self, thing: WorkThing) -> None:
        thing.state = ThingState.READY
        self.ready.append(thing)

    def park(self, thing: WorkThing, due_at: float) -> None:
        thing.state, thing.due_at = ThingState.PARKED, due_at
        heappush(self._parked, (due_at, thing.first.action.number, thing))

    def unpark(self, now: float) -> None:
        """Make the parked things ready whose time has come."""
        while self._parked and self._parked[0][0] <= now:
            due_at, _, thing = heappop(self._parked)
            if thing.state is ThingState.PARKED and thing.due_at == due_at:
                self.make_ready(thing)

    def parked_until(self) -> float | None:
        return self._parked[0][0] if self._parked else None

    def ready_thing(self) -> WorkThing | None:
        """The next thing whose first action may be tried."""
        while self.ready:
            thing = self.ready.popleft()
            if thing.state is ThingState.READY:
                return thing
        return None

    def braked_thing(self) -> WorkThing | None:
        """While the brake is on: the thing of the oldest action, if it may be tried now."""
        oldest = self.oldest()
        return oldest.thing if oldest is not None and oldest.thing.state is ThingState.READY else None

    def oldest(self) -> WorkEntry | None:
        """The open action with the lowest number that this worker can try at all."""
        open_ones = self.open_entries()
        return next((entry for entry in open_ones if entry.thing.state not in _STANDING), None)

    @property
    def braked(self) -> bool:
        if not self.brake.any_failed:
            return False
        waiting = (key for key, thing in self.things.items() if thing.queue and thing.state not in _STANDING)
        return self.brake.is_on(tuple(islice(waiting, BRAKE_THINGS)))

    def leave(self, thing: WorkThing, *, hold: bool) -> None:
        """The first action of a thing has its outcome: the next one may begin, unless an operator is to decide first."""
        left = thing.queue.popleft()
        if hold:
            thing.state, thing.poison = ThingState.HELD, left
        elif thing.queue:
            self.make_ready(thing)
        else:
            self._empty(thing)

    def hold(self, concerns: str) -> None:
        """Unless it runs, or waits for a retry: then it is not the one."""
        thing = self._thing(concerns)
        if thing.state in (ThingState.EMPTY, ThingState.READY):
            thing.state = ThingState.HELD

    def held(self) -> list[str]:
        """The keys of things about which an operator can have decided: the hub has their poison."""
        held = (thing for thing in self.things.values() if thing.state is ThingState.HELD)
        return [one.key for one in held if one.poison is None or one.poison.state is EntryState.SETTLED]

    def let_go(self, concerns: str) -> None:
        """A thing that was held goes on."""
        thing = self.things.get(self._policy.key(concerns))
        if thing is None or thing.state is not ThingState.HELD:
            return
        thing.poison = None
        if thing.queue:
            self.make_ready(thing)
        else:
            self._empty(thing)

    def _empty(self, thing: WorkThing) -> None:
        thing.state = ThingState.EMPTY
        del self.things[thing.key]

    # Reporting

    def decide(self, entry: WorkEntry, outcome: WorkOutcome, now: float) -> None:
        """An outcome to be reported; one that is not final leaves the action open."""
        if outcome.is_final:
            entry.state = EntryState.DECIDED
        if not self._decided:
            self._decided_at = now
        self._decided.append((entry, outcome))

    def report_due_at(self, now: float) -> float | None:
        """When the next report is to be made; None: there is nothing to report."""
        if self._report is not None:
            return self._report_at
        if self._may_release():
            return now
        if self._decided:
            return self._decided_at + self._policy.gather_seconds
        return self._positioned_at + self._policy.position_seconds if self._reached() > self.position else None

    def _may_release(self) -> bool:
        return self.giving_up and not self.running and not self.hung

    @property
    def is_reported(self) -> bool:
        """Whether the hub has every outcome that there is."""
        return self._report is None and not self._decided

    def is_due(self, now: float) -> bool:
        """Whether a report is to be made now."""
        due_at = self.report_due_at(now)
        return due_at is not None and due_at <= now

    @property
    def may_join(self) -> bool:
        """Whether there are outcomes that may go with a report of another partition before their time."""
        return self._report is None and bool(self._decided)

    def report(self, now: float) -> OutcomeReport:
        """The report that is to be made, which is the same again until it is taken."""
        if self._report is None:
            self._report = self._made(now)
        self._report_at = float("inf")  # until it is answered, or not
        return self._report

    def _made(self, now: float) -> OutcomeReport:
        taken = [self._decided.popleft() for _ in range(min(len(self._decided), REPORT_OUTCOMES_MAX))]
        self._decided_at = now
        for entry, outcome in taken:
            if outcome.is_final:
                entry.state = EntryState.REPORTING
                self._reported.append(entry)
        release = self._may_release() and not self._decided
        due = release or now >= self._positioned_at + self._policy.position_seconds
        reached = self._reached() if due else self.position
        return OutcomeReport(
            partition=self.number,
            generation=self.generation,
            outcomes=tuple(outcome for _, outcome in taken),
            position=reached if release or reached > self.position else None,
            release=release,
        )

    def _reached(self) -> int:
        """Up to where everything has an outcome that the hub has, or gets with the report under way."""
        reported = (EntryState.REPORTING, EntryState.SETTLED)
        first = next((entry for entry in self._order if entry.state not in reported), None)
        return self.read if first is None else first.action.number - 1

    def report_taken(self, now: float) -> bool:
        """Gives whether it was the last one."""
        report, self._report = self._report, None
        assert report is not None, "only a report that was made is answered"
        for entry in self._reported:
            entry.state = EntryState.SETTLED
        self._reported.clear()
        self._report_failures = 0
        if report.position is not None:
            self.position, self._positioned_at = report.position, now
        self._forget_settled()
        return report.release

    def report_failed(self, now: float) -> None:
        """Note that nothing has moved: the report is made again."""
        assert self._report is not None, "only a report that was made can fail"
        self._report_failures += 1
        pause = back_off(self._report_failures, first=_REPEAT_SECONDS, longest=_REPEAT_SECONDS_MAX)
        self._report_at = now + pause

    def _forget_settled(self) -> None:
        while self._order and self._order[0].state is EntryState.SETTLED:
            self._order.popleft()

    def open_entries(self) -> Iterator[WorkEntry]:
        return (entry for entry in self._order if entry.state is EntryState.OPEN)
