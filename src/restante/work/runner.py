"""A worker that runs: the core decides, and this carries it out, in one event loop beside the lease's thread.

The runner passes each event (a page, the end of an attempt, an answer to a report, a heartbeat) to the core. One step follows
for all events since the last step: begin, report, read on, and set the timer for the next thing that is due.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from restante.calls.groups import DefineGroup
from restante.client.transport.link import AsyncLink
from restante.errors import RestanteError
from restante.limits import GROUP_RUNNING_MAX
from restante.model.groups.group_answers import Assigned, GroupStatus, Running
from restante.model.groups.membership import lease_seconds
from restante.model.work.core import WorkAttempt, WorkCore
from restante.model.work.counts import WorkCounts
from restante.model.work.results import AttemptPassing, OutcomeReport, sent_together
from restante.work.app import App, Hook
from restante.work.attempt_log import log_attempt, log_fenced, log_stuck, log_unknown
from restante.work.attempts import ThreadStuck, attempted
from restante.work.holds import WorkHolds
from restante.work.job import current_job, job_of
from restante.work.lease import WorkLease, WorkSaid
from restante.work.once.dialogue import Fenced
from restante.work.reader import WorkReader
from restante.work.reports import ReportAnswer, report_answers

LOOK_SECONDS = 0.5
"""While it stops, a worker looks so often whether it has to wait any longer."""
_log = logging.getLogger("restante.work")


class WorkRunner:
    """One worker process of an app, from joining its group to leaving."""

    def __init__(
        self,
        app: App,
        link: AsyncLink,
        *,
        member: str,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.app = app
        self.member = member
        self.has_joined = False
        self.on_join: Callable[[], None] = lambda: None
        """Called once, when the worker is a member of its group for the first time."""
        self.stuck = False
        """Whether a handler in a thread did not end: the process has to."""
        self.core = WorkCore(app.rules, app.policy)
        self._link = link
        self._monotonic = monotonic
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._error: BaseException | None = None
        self._stopping = False
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        """Set, and replaced, when something is heard of the lease, and when the worker stops."""
        self._latest: dict[int, int] = {}
        """The latest generation of each partition: one that is over does not begin again."""
        self._unknown_told: list[str] = []
        self._saying = threading.Lock()
        self._revision = 0
        """The number of what was said last of the running actions."""
        self._odd: frozenset[tuple[int, int]] = frozenset()
        """The partitions that the hub says are this worker's, and the core has dropped."""
        definition = DefineGroup(app.name, actions=tuple(sorted(app.handlers)))
        self.lease = WorkLease(
            definition, member, link=link.apart(), events=_InLoop(self), said=self._said, monotonic=monotonic
        )
        self._holds = WorkHolds(app, self.core, link, self.wake)
        self._reader = WorkReader(
            app.name,
            self.core,
            link,
            lease=self.lease,
            may_read=self._holds.may_read,
            said=self._said,
            wake=self.wake,
            monotonic=monotonic,
        )

    @property
    def counts(self) -> WorkCounts:
        return self.core.counts

    @property
    def is_ready(self) -> bool:
        """Whether the worker is a member of its group, and the hub answers."""
        return self.lease.member_id is not None and not self.lease.is_silent()

    async def run(self) -> None:
        """Work until `stop` is called, or the worker cannot go on; then report what is done, and leave the group."""
        await call_hooks(self.app.starting)
        self.lease.start()
        beside = [asyncio.create_task(work) for work in (self._reader.run(), self._holds.run())]
        for task in beside:
            task.add_done_callback(self._broke)
        try:
            await self._ended.wait()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await asyncio.to_thread(self.lease.die if self.stuck else self.lease.leave)
            if self._timer is not None:
                self._timer.cancel()
            await call_hooks(self.app.stopping)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Begin nothing more. Running attempts may end, and are reported; then the worker leaves."""
        self._stopping = True
        self.core.stop()
        self._tell_news()
        self.wake()

    def fail(self, error: BaseException) -> None:
        """Stop because of an error. Finished attempts are still reported."""
        self._error = self._error or error
        self.stop()

    # --- Events

    def joined(self, status: GroupStatus, assigned: Sequence[Assigned]) -> None:
        if not self.has_joined:
            self.has_joined = True
            self.on_join()
        self.core.names(declared=status.actions, elsewhere=())
        self._odd = frozenset()
        self._assign(assigned)

    def heard(self, assigned: Sequence[Assigned], hub_now: float, at: float) -> None:
        self.core.heard(hub_now, at)
        self._assign(assigned)
        self._tell_news()

    def lost(self) -> None:
        """The lease has ended: nothing is this worker's."""
        for partition in tuple(self.core.partitions):
            self.core.lost(partition)
        self._tell_news()
        self.wake()

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _assign(self, assigned: Sequence[Assigned]) -> None:
        own = self.core.partitions
        given = {each.partition for each in assigned}
        for partition in own:
            if partition not in given:
                self.core.given_up(partition)
        odd: set[tuple[int, int]] = set()
        for each in assigned:
            if each.generation > self._latest.get(each.partition, -1):
                self._latest[each.partition] = each.generation
                self.core.assigned(
                    each.partition, generation=each.generation, position=each.position, now=self._monotonic()
                )
            elif each.partition not in own:
                odd.add((each.partition, each.generation))
        self._settle(frozenset(odd))
        self.wake()

    def _settle(self, odd: frozenset[tuple[int, int]]) -> None:
        """Join again if the hub has named the same unknown partition twice: a single such answer may just be out of date."""
        if odd & self._odd and not self._stopping:
            self.lost()
            self.lease.join_again()
        self._odd = odd

    def _broke(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            self.fail(error)

    # Steps

    def wake(self) -> None:
        """Have a step follow."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        now = self._monotonic()
        self.core.suspended = self.lease.is_silent()
        for attempt in self.core.begin(now):
            self._spawn(self._attempt(attempt))
        for reports in sent_together(self.core.reports(now)):
            self._spawn(self._report(reports))
        log_unknown(self.core.counts, self._unknown_told)
        self._reader.look()
        if self._stopping:
            self._look_whether_ended()
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        times = [self.core.wake_at(now), now + LOOK_SECONDS if self._stopping else None]
        due = min((time for time in times if time is not None), default=None)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if due is None or due == float("inf") else self._loop.call_later(max(0.0, due - now), self.wake)
        )

    def _look_whether_ended(self) -> None:
        """A worker that stops waits for handlers, and for the hub as long as the lease may last."""
        if not self.core.attempts_running and self.lease.silent_seconds() > 2 * lease_seconds(self.lease.interval):
            if self.core.partitions:
                _log.error(
                    "The hub did not accept the last report of %s: the actions in it will be done again.", self.member
                )
            for partition in tuple(self.core.partitions):
                self.core.lost(partition)
        if self.core.idle:
            self._ended.set()

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]  # a coroutine of this class
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, attempt: WorkAttempt) -> None:
        handler, job = self.app.handlers[attempt.action.name or ""], job_of(self.app.name, attempt)
        current_job.set(job)
        try:
            if attempt.doubtful:
                await self._announce(attempt)
            result = await attempted(handler, job, attempt)
        except ThreadStuck as error:
            log_stuck(job, error)
            self.stuck = True
            self.core.abandoned(attempt.attempt_id)
            self.stop()
        except Fenced as error:
            log_fenced(job, error)
            self._fenced(attempt)
        else:
            log_attempt(job, result)
            self.core.ended(attempt.attempt_id, result, now=self._monotonic(), chance=self._chance())
        self.wake()

    async def _announce(self, attempt: WorkAttempt) -> None:
        """Wait until the hub knows of an attempt: if this worker dies of it, the action has one death more."""
        beat = self.lease.beat_next()
        while self.lease.answered < beat and not self._stopping:
            if self.core.partitions.get(attempt.partition) != attempt.generation:
                raise Fenced("The partition was lost before the attempt began.")
            await self._news.wait()

    def _fenced(self, attempt: WorkAttempt) -> None:
        """Another worker has the partition: nothing of it is reported, and a heartbeat says what is this one's."""
        if self.core.partitions.get(attempt.partition) == attempt.generation:
            self.core.lost(attempt.partition)
        self.core.ended(attempt.attempt_id, AttemptPassing(detail="fenced"), now=self._monotonic())
        self.lease.beat_now()

    async def _report(self, reports: Sequence[OutcomeReport]) -> None:
        answers = await report_answers(self._link, self.app.name, reports)
        now = self._monotonic()
        for report, answer in zip(reports, answers, strict=True):
            if answer is ReportAnswer.TAKEN:
                self.core.report_taken(report, now)
            elif answer is ReportAnswer.STALE:
                self.core.report_stale(report)
                self.lease.beat_now()
            else:
                self.core.report_failed(report, now)
        self.wake()

    def _said(self) -> WorkSaid:
        """The running actions, for heartbeats, in their thread, and for questions: in the order in which they are looked at."""
        with self._saying:
            self._revision += 1
            running = self.core.running[:GROUP_RUNNING_MAX]
            names = tuple([Running(partition=partition, sequence_number=number) for partition, number in running])
            return WorkSaid(names, self._revision)


class _InLoop:
    """The events of the lease's thread, said in the event loop."""

    def __init__(self, runner: WorkRunner) -> None:
        self._runner = runner
        self._loop = asyncio.get_running_loop()

    def _say(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def joined(self, _: str, status: GroupStatus, assigned: Sequence[Assigned]) -> None:
        self._say(self._runner.joined, status, assigned)

    def heard(self, assigned: Sequence[Assigned], hub_now: float, at: float) -> None:
        self._say(self._runner.heard, assigned, hub_now, at)

    def lost(self) -> None:
        self._say(self._runner.lost)

    def refused(self, error: RestanteError) -> None:
        self._say(self._runner.fail, error)


async def call_hooks(hooks: Iterable[Hook]) -> None:
    for hook in hooks:
        called = hook()
        if inspect.isawaitable(called):
            await called
