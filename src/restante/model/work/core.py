"""The decisions of a worker as a state machine: events go in, and it says what to begin, to report and to read.

It has no clock, no threads and no network. A runner tells it what happened (a page came, an attempt ended, a report was
taken, a partition was lost) with the time by its monotonic clock, and then asks: `begin` for attempts to make, `reports`
for calls to make, `reads` for partitions to read on, `wake_at` for when to ask again. What must stay true:

- Of one thing at most one action is under way, and always the first that has no outcome.
- An action has one final outcome, and `done` only if an attempt under the generation in force said so.
- The position never passes an action that has no outcome.
- Of actions that the next death poisons, one is under way at a time: the others are not to share the death of the cause.
- At most `concurrency` attempts are under way, those of lost partitions included: their handlers still run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import msgspec

from restante.limits import ACTION_DEATHS_MAX
from restante.model.work.actions import ActionPage, EntryState, NameOwner, ThingState, WorkAction, WorkEntry, WorkThing
from restante.model.work.counts import OTHERS, ActionCounts, WorkCounts
from restante.model.work.partition import PartitionWork
from restante.model.work.results import (
    AttemptDone,
    AttemptFailed,
    AttemptNoData,
    AttemptPassing,
    AttemptRefused,
    AttemptResult,
    OutcomeReport,
    OutcomeState,
    WorkOutcome,
    problem_of,
)
from restante.model.work.rules import RESULT_BYTES_MAX, ActionRule, WorkPolicy


class WorkAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A handler to be called."""

    attempt_id: int
    partition: int
    generation: int
    action: WorkAction
    number: int
    """1 for the first attempt."""
    timeout_seconds: float
    doubtful: bool = False
    """A worker before this one may have died of it: a heartbeat has to name it before it begins."""


class ReadOn(msgspec.Struct, frozen=True, kw_only=True):
    """A partition to be read on."""

    partition: int
    generation: int
    position: int
    limit: int
    """How many actions may be read."""


class _Running:
    """An attempt under way."""

    __slots__ = ("began_at", "entry", "work")

    def __init__(self, work: PartitionWork, entry: WorkEntry, began_at: float) -> None:
        self.work = work
        self.entry = entry
        self.began_at = began_at


def _is_near_poison(entry: WorkEntry) -> bool:
    return entry.action.deaths >= ACTION_DEATHS_MAX - 1


class WorkCore:
    """A worker's decisions."""

    def __init__(self, rules: Mapping[str, ActionRule], policy: WorkPolicy | None = None) -> None:
        self.counts = WorkCounts()
        self.suspended = False
        """No heartbeat was answered for too long: nothing is begun until one is."""
        self._rules = dict(rules)
        self._policy = policy or WorkPolicy()
        self._declared: frozenset[str] = frozenset(rules)
        self._elsewhere: frozenset[str] = frozenset()
        self._partitions: dict[int, PartitionWork] = {}
        self._running: dict[int, _Running] = {}
        self._attempts = 0
        self._orphans: dict[tuple[int, str], int] = {}
        """Attempts of lost partitions that still run, by partition and thing: the thing waits for them."""
        self._free_at: dict[str, float] = {}
        """When an action that may not be begun so often may be begun next."""
        self._stopping = False
        self._turn = 0

    # Partitions

    def names(self, *, declared: Collection[str], elsewhere: Collection[str]) -> None:
        """Which names this group has declared, and which are those of other groups."""
        self._declared = frozenset(declared) | frozenset(self._rules)
        self._elsewhere = frozenset(elsewhere) - self._declared

    def assigned(self, partition: int, *, generation: int, position: int, now: float) -> None:
        """The worker has a partition from now on. The same generation again changes nothing."""
        known = self._partitions.get(partition)
        if known is not None and known.generation >= generation:
            return
        if known is not None:
            self.lost(partition)
        work = self._partitions[partition] = PartitionWork(partition, generation, position, self._policy, now)
        work.giving_up = self._stopping

    def lost(self, partition: int) -> None:
        """The lease has ended, or another generation is in force: nothing of it is begun or reported any more."""
        work = self._partitions.pop(partition, None)
        if work is None:
            return
        work.lost = True
        for running in self._running.values():
            if running.work is work:
                key = (partition, running.entry.thing.key)
                self._orphans[key] = self._orphans.get(key, 0) + 1

    def given_up(self, partition: int) -> None:
        """Begin to hand the partition over: nothing more is begun; when all that runs has ended, the last report releases it."""
        work = self._partitions.get(partition)
        if work is not None:
            work.giving_up = True

    def stop(self) -> None:
        """Give up everything, and what is assigned from now on too."""
        self._stopping = True
        for partition in tuple(self._partitions):
            self.given_up(partition)

    @property
    def partitions(self) -> Mapping[int, int]:
        """The generation of each partition that the worker has."""
        return {number: work.generation for number, work in self._partitions.items()}

    @property
    def running(self) -> list[tuple[int, int]]:
        """Partition and number of what is under way, for the heartbeat."""
        running = tuple(self._running.values())  # At once: a heartbeat looks from its own thread.
        hung = [(work.number, number) for work in tuple(self._partitions.values()) for number in work.hung]
        return [*hung, *((one.work.number, one.entry.action.number) for one in running if not one.work.lost)]

    @property
    def read_ahead(self) -> int:
        """How many actions of a partition are read beyond its position at most."""
        return self._policy.read_ahead

    @property
    def attempts_running(self) -> int:
        return len(self._running)

    def heard(self, hub_now: float, now: float) -> None:
        """The hub's time, from a heartbeat: by it actions expire."""
        for work in self._partitions.values():
            work.hub_ahead = hub_now - now

    # Reading

    def reads(self) -> list[ReadOn]:
        """The partitions that may be read on, and from where."""
        return [
            ReadOn(partition=work.number, generation=work.generation, position=work.read, limit=work.room)
            for work in self._partitions.values()
            if work.room and not work.giving_up
        ]

    def page(self, page: ActionPage, now: float) -> None:
        """Take the page of a read. One of another generation, and what was read before, is passed by."""
        work = self._partitions.get(page.partition)
        if work is None or work.generation != page.generation:
            return
        # The time of a page that was long on its way is in the past, so only a page that puts the hub's clock further ahead counts.
        work.hub_ahead = max(work.hub_ahead, page.now - now)
        for action in page.actions:
            if action.number > work.read:
                self._take(work, action)
        work.read_upto(max(work.read, page.next))

    def _take(self, work: PartitionWork, action: WorkAction) -> None:
        work.read = action.number
        if self._owner(action) == "elsewhere":
            self.counts.passed_over += 1
            return
        work.enter(action)

    def _owner(self, action: WorkAction) -> NameOwner:
        """The owner of an action: by the app's own rules, else as the page says, else by the names from joining."""
        if action.name in self._rules:
            return "group"
        if action.owner is not None:
            return action.owner
        if action.name in self._declared:
            return "group"
        return "elsewhere" if action.name in self._elsewhere else "nobody"

    # Beginning

    def begin(self, now: float) -> list[WorkAttempt]:
        """The attempts to be made now. Actions that need no attempt get their outcome."""
        begun: list[WorkAttempt] = []
        works = [work for work in self._partitions.values() if not work.giving_up]
        if not works or self.suspended:
            return begun
        self._turn = (self._turn + 1) % len(works)
        for work in (*works[self._turn :], *works[: self._turn]):
            work.unpark(now)
            begun.extend(self._begin_in(work, now))
        return begun

    def _begin_in(self, work: PartitionWork, now: float) -> Iterator[WorkAttempt]:
        """Begin actions of the partition. Each thing is looked at once: one that waits for another attempt stays ready."""
        left: list[WorkThing] = []
        while len(self._running) < self._policy.concurrency:
            thing = work.braked_thing() if work.braked else work.ready_thing()
            if thing is None:
                break
            if (work.number, thing.key) in self._orphans or self._stands_back(thing):
                left.append(thing)
                if work.braked:
                    break
            elif (attempt := self._next(work, thing, now)) is not None:
                yield attempt
        work.ready.extend(left)

    def _stands_back(self, thing: WorkThing) -> bool:
        """Whether a thing waits because another action is under way that the next death poisons, as it does its own."""
        return _is_near_poison(thing.first) and any(_is_near_poison(one.entry) for one in self._running.values())

    def _next(self, work: PartitionWork, thing: WorkThing, now: float) -> WorkAttempt | None:
        """An attempt at the first action of a thing; None: it needs none, or not now."""
        entry = thing.first
        action, name = entry.action, entry.action.name or ""
        hub_now = now + work.hub_ahead
        if action.is_health_check and self._owner(action) == "group":
            self._drop_check(work, entry, hub_now, now)
        elif action.expires_at is not None and action.expires_at <= hub_now:
            self._count(name).expired += 1
            self._end(work, entry, now, OutcomeState.EXPIRED)
        elif name not in self._rules:
            if self._owner(action) == "group":
                thing.state = ThingState.LACKING
            else:
                self._undeclared(work, entry, now)
        elif self._free_at.get(name, now) > now:
            work.park(thing, self._free_at[name])
        else:
            return self._attempt(work, entry, self._rules[name], now)
        return None

    def _attempt(self, work: PartitionWork, entry: WorkEntry, rule: ActionRule, now: float) -> WorkAttempt:
        name, counts = entry.action.name or "", self._count(entry.action.name or "")
        if rule.max_per_second is not None:
            self._free_at[name] = now + 1 / rule.max_per_second
        if entry.begun_at is None and not entry.attempts:
            counts.queue_seconds += max(0.0, now + work.hub_ahead - entry.action.accepted_at)
            counts.queued += 1
        counts.begun += 1
        entry.thing.state, entry.begun_at = ThingState.RUNNING, now + work.hub_ahead
        self._attempts += 1
        work.running += 1
        self._running[self._attempts] = _Running(work, entry, now)
        return WorkAttempt(
            attempt_id=self._attempts,
            partition=work.number,
            generation=work.generation,
            action=entry.action,
            number=entry.attempts + 1,
            timeout_seconds=rule.timeout_seconds,
            doubtful=work.is_doubtful(entry),
        )

    def _drop_check(self, work: PartitionWork, entry: WorkEntry, hub_now: float, now: float) -> None:
        self.counts.health_checks += 1
        self.counts.health_check_seconds = max(0.0, hub_now - entry.action.accepted_at)
        self._end(work, entry, now, OutcomeState.DONE)

    def _undeclared(self, work: PartitionWork, entry: WorkEntry, now: float) -> None:
        self._count(OTHERS).unknown += 1
        self.counts.meet(entry.action.name or "")
        state = OutcomeState.POISONED if self._policy.undeclared == "poison" else OutcomeState.FAILED
        self._end(work, entry, now, state, "action_unknown", "No group has declared an action of this name.")

    # Ending

    def ended(self, attempt_id: int, result: AttemptResult, *, now: float, chance: float = 0.0) -> None:
        """An attempt has ended; `chance`, from 0 to 1, spreads the retries."""
        running = self._running.pop(attempt_id, None)
        if running is None:
            return
        work, entry = running.work, running.entry
        if work.lost:
            self._orphan_ended(work, entry)
            return
        work.running -= 1
        name = entry.action.name or ""
        self._count(name).do_seconds += max(0.0, now - running.began_at)
        match result:
            case AttemptPassing():
                self._passing(work, entry, result, now, chance)
            case AttemptDone():
                self._done(work, entry, result, now)
            case AttemptRefused():
                self._ended_otherwise(work, entry, now, ("refused", OutcomeState.FAILED, result.detail))
            case AttemptNoData():
                self._ended_otherwise(work, entry, now, ("no_data", OutcomeState.FAILED, "The body is null."))
            case AttemptFailed():
                self._poison(work, entry, now, result.code, result.detail)

    def abandoned(self, attempt_id: int) -> None:
        """An attempt that cannot be ended, in a thread that hangs: its action stays without an outcome.

        The worker is to stop. Other attempts that are under way may end, and are reported. The partition is not released: its
        lease ends with the worker, which counts as a death of the action that hung.
        """
        running = self._running.pop(attempt_id, None)
        if running is not None and not running.work.lost:
            running.work.running -= 1
            running.work.hung.append(running.entry.action.number)
        self.stop()

    def _orphan_ended(self, work: PartitionWork, entry: WorkEntry) -> None:
        self.counts.orphaned += 1
        key = (work.number, entry.thing.key)
        left = self._orphans[key] - 1
        if left:
            self._orphans[key] = left
        else:
            del self._orphans[key]

    def _passing(
        self, work: PartitionWork, entry: WorkEntry, result: AttemptPassing, now: float, chance: float
    ) -> None:
        rule = self._rules[entry.action.name or ""]
        counts = not work.braked or work.oldest() is entry
        work.brake.failed(entry.thing.key)
        if counts:
            entry.attempts += 1
        if entry.attempts > rule.retries:
            self._poison(work, entry, now, "retries_exhausted", result.detail, counted=True)
            return
        self._count(entry.action.name or "").retried += 1
        pause = rule.pause(max(1, entry.attempts), chance) if result.seconds is None else max(0.0, result.seconds)
        work.park(entry.thing, now + pause)
        outcome = WorkOutcome(
            sequence_number=entry.action.number,
            state=OutcomeState.UNDER_WAY,
            attempts=entry.attempts,
            problem=problem_of("passing", result.detail),
            next_attempt_at=now + pause + work.hub_ahead,
            begun_at=entry.begun_at,
        )
        work.decide(entry, outcome, now)

    def _done(self, work: PartitionWork, entry: WorkEntry, result: AttemptDone, now: float) -> None:
        if result.result is not None and len(result.result) > RESULT_BYTES_MAX:
            detail = (
                f"The result has {len(result.result)} bytes; at most {RESULT_BYTES_MAX} are kept. Return a location."
            )
            self._poison(work, entry, now, "result_too_large", detail)
            return
        work.brake.succeeded()
        entry.attempts += 1
        self._count(entry.action.name or "").done += 1
        self._finish(
            work,
            entry,
            now,
            partial(WorkOutcome, state=OutcomeState.DONE, result=result.result, location=result.location),
        )

    def _ended_otherwise(
        self, work: PartitionWork, entry: WorkEntry, now: float, ending: tuple[str, OutcomeState, str]
    ) -> None:
        """A plain no, or nothing to do: the handler works, so the brake is lifted."""
        code, state, detail = ending
        work.brake.succeeded()
        entry.attempts += 1
        counts = self._count(entry.action.name or "")
        if code == "refused":
            counts.refused += 1
        else:
            counts.no_data += 1
        self._end(work, entry, now, state, code, detail)

    def _poison(
        self, work: PartitionWork, entry: WorkEntry, now: float, code: str, detail: str, *, counted: bool = False
    ) -> None:
        if not counted:
            entry.attempts += 1
        self._count(entry.action.name or "").poisoned += 1
        held = self._rules[entry.action.name or ""].after_poison == "hold"
        self._end(work, entry, now, OutcomeState.POISONED, code, detail, hold=held)

    def _end(
        self,
        work: PartitionWork,
        entry: WorkEntry,
        now: float,
        state: OutcomeState,
        code: str | None = None,
        detail: str = "",
        *,
        hold: bool = False,
    ) -> None:
        problem = None if code is None else problem_of(code, detail)
        self._finish(work, entry, now, partial(WorkOutcome, state=state, problem=problem), hold=hold)

    def _finish(
        self,
        work: PartitionWork,
        entry: WorkEntry,
        now: float,
        outcome: partial[WorkOutcome],
        *,
        hold: bool = False,
    ) -> None:
        """The one place where an action gets its final outcome."""
        assert entry.state is EntryState.OPEN, "an action has one final outcome"
        assert entry.thing.first is entry, "only the first of a thing ends"
        number = entry.action.number
        work.decide(entry, outcome(sequence_number=number, attempts=entry.attempts, begun_at=entry.begun_at), now)
        work.leave(entry.thing, hold=hold)

    def hold(self, partition: int, concerns: str) -> None:
        """A thing whose poison is not decided about, as the hub knows from a member before."""
        work = self._partitions.get(partition)
        if work is not None:
            work.hold(concerns)

    def held(self) -> frozenset[tuple[int, str]]:
        """Partition and key of the things that wait for an operator, and whose poison the hub has."""
        return frozenset((work.number, key) for work in self._partitions.values() for key in work.held())

    def decided(self, partition: int, concerns: str) -> None:
        """An operator has decided about the poison of a thing that was held: it goes on."""
        work = self._partitions.get(partition)
        if work is not None:
            work.let_go(concerns)

    # Reporting

    def reports(self, now: float) -> list[OutcomeReport]:
        """The reports to be made now, of each partition one at a time.

        If one is due, the reports of other partitions go with it. If nothing runs, all are made, because nothing will end soon.
        """
        works = self._partitions.values()
        due = {work.number for work in works if work.is_due(now)}
        together = bool(due) or not self._running
        return [work.report(now) for work in works if work.number in due or (together and work.may_join)]

    def report_taken(self, report: OutcomeReport, now: float) -> None:
        work = self._work_of(report)
        if work is not None and work.report_taken(now):
            del self._partitions[work.number]

    def report_failed(self, report: OutcomeReport, now: float) -> None:
        """Note that a report was refused, or that nobody knows whether it was taken: it is made again, the same."""
        work = self._work_of(report)
        if work is not None:
            work.report_failed(now)

    def report_stale(self, report: OutcomeReport) -> None:
        """Another generation is in force."""
        if self._work_of(report) is not None:
            self.lost(report.partition)

    def _work_of(self, report: OutcomeReport) -> PartitionWork | None:
        work = self._partitions.get(report.partition)
        return work if work is not None and work.generation == report.generation else None

    # The clock

    def wake_at(self, now: float) -> float | None:
        """When to ask again though nothing happens; None: only when something does."""
        times = [work.report_due_at(now) for work in self._partitions.values()]
        if not self.suspended:
            times += [work.parked_until() for work in self._partitions.values() if not work.giving_up]
        return min((one for one in times if one is not None), default=None)

    @property
    def idle(self) -> bool:
        """Whether a worker that stops has nothing left to do."""
        return not self._running and all(work.hung and work.is_reported for work in self._partitions.values())

    def _count(self, name: str) -> ActionCounts:
        return self.counts.of(name if name in self._rules else OTHERS)
