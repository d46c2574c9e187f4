"""Group commit: requests that arrive while a commit is under way go into the next commit.

The committer's thread plans the waiting requests, commits them together, updates memory, and only then answers them. A
refused request gets its own error. If the commit fails, all its requests fail and nothing has changed.

Light requests from an event loop are planned in that loop, as one group: the committer's thread would take the interpreter
away from the loop while it still reads other requests. The committer's thread then writes and flushes the planned commit,
updates memory, and answers as usual. The event loop does that itself if `write_in` allowed it and the store says that a
flush is quick.

What must stay true: a commit is planned on the state that the commit before it left. So there is one *pen*. The thread
that plans a commit takes the pen, and it is laid down only when that commit has been applied to memory.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

from restante import limits
from restante.errors import NotOwner, OutcomeUnknown, RestanteError, StorageFull, StoreConflict, Unavailable
from restante.hub.engine.commit_outcomes import CommitTotals, Outcomes
from restante.hub.engine.commit_request import (
    CommitRequest,
    JointListener,
    Listener,
    LoopWaiter,
    ParkedRequests,
    closed,
    held_too_long,
    loop_of,
    next_batch,
)
from restante.hub.engine.plan import CommitPlan
from restante.model.storage.changes import Changes

T = TypeVar("T")

_log = logging.getLogger(__name__)


JointPlan = Callable[[CommitPlan, Sequence[CommitRequest[object]]], Sequence[CommitRequest[object]]]
"""Plans the publishes of a commit together, and returns the requests that must be planned one by one."""
LightPlan = Callable[[CommitPlan, Sequence[CommitRequest[Any]]], bool]
"""Plans light and brief requests together. False means that they need a closer look, and nothing was done."""


class _Pen(Enum):
    """The holder of the pen: the thread that planned, or is planning, the current commit."""

    FREE = auto()
    THREAD = auto()
    LOOP = auto()


class _Planned(NamedTuple):
    """A commit that an event loop has planned, ready to be written."""

    plan: CommitPlan
    changes: Changes
    batch: list[CommitRequest[Any]]


class Committer:
    """The queue of requests, and the thread that commits them."""

    def __init__(
        self,
        new_plan: Callable[[], CommitPlan],
        plan_jointly: JointPlan,
        plan_lightly: Callable[[Sequence[CommitRequest[Any]]], CommitPlan | None],
        committed: Callable[[CommitPlan], None],
        is_quick: Callable[[int], bool],
    ) -> None:
        self._new_plan = new_plan
        self._plan_jointly = plan_jointly
        self._plan_lightly = plan_lightly
        self._committed = committed
        self._is_quick = is_quick
        self._pen = _Pen.FREE
        self._planned: _Planned | None = None
        self._writing: set[asyncio.AbstractEventLoop] = set()
        """Event loops that may write the commits they plan."""
        self._waiting: set[asyncio.AbstractEventLoop] = set()
        """Event loops that have gathered requests and wait for the pen."""
        self._queue: deque[CommitRequest[object]] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._gathered: dict[asyncio.AbstractEventLoop, list[CommitRequest[Any]]] = {}
        """The requests of the last turns of each event loop. Only that loop's thread touches its list."""
        self._gathered_count = 0
        """Roughly how many requests event loops have gathered; threads update it without a lock."""
        self.parked = ParkedRequests[CommitRequest[Any]]()
        self._closing = False
        self._broken = False
        self._no_room_at = -math.inf
        self.totals = CommitTotals()
        self._outcomes = Outcomes(self._bring_up, self.totals)
        self._thread = threading.Thread(target=self._run, name="restante-commit", daemon=True)
        self._begin()

    def _begin(self) -> None:
        self._thread.start()

    def submit(self, request: CommitRequest[T]) -> T:
        """Commit a request, and wait for its answer."""
        lock = threading.Lock()
        lock.acquire()
        request.waiter = lock
        self._enqueue(request, wait=True)
        lock.acquire()
        return request.answer()

    def submit_soon(self, request: CommitRequest[T], waiter: LoopWaiter[T]) -> None:
        """Commit a request. The waiter gets the answered request in its own loop."""
        request.waiter = waiter
        self._gather_for(loop_of(waiter)).append(request)
        self._gathered_count += 1

    def submit_each(self, requests: Sequence[CommitRequest[T]]) -> None:
        """Commit several requests, in their order, and wait until all are answered."""
        locks = [threading.Lock() for _ in requests]
        for request, lock in zip(requests, locks, strict=True):
            lock.acquire()
            request.waiter = lock
        self._enqueue_all(requests, wait=True)
        for lock in locks:
            lock.acquire()

    def submit_each_soon(self, requests: Sequence[CommitRequest[T]], waiters: Sequence[LoopWaiter[T]]) -> None:
        """Commit several requests, in their order. Each waiter gets its own answered request."""
        for request, waiter in zip(requests, waiters, strict=True):
            request.waiter = waiter
        if requests:
            self._gather_for(loop_of(waiters[0])).extend(requests)
            self._gathered_count += len(requests)

    def write_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let an event loop write light commits itself when that is quick. No signal handler may raise in its thread."""
        self._writing.add(loop)

    @property
    def full(self) -> bool:
        return len(self._queue) + self._gathered_count >= limits.QUEUE_REQUESTS_MAX

    @property
    def alive(self) -> bool:
        """Whether the committer can still commit."""
        return self._thread.is_alive() and not self._broken

    def seconds_without_room(self) -> float:
        """How long ago a commit failed because the storage was full; infinite if a commit has been stored since."""
        return time.monotonic() - self._no_room_at

    def close(self) -> None:
        """Commit the waiting requests, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.refuse_parked(0)

    def unpark(self) -> None:
        """Queue the parked requests again, ahead of all waiting requests."""
        self._put_first(self.parked.taken())

    def refuse_parked(self, seconds: float) -> None:
        """Refuse the requests that have been parked for at least `seconds`."""
        late = self.parked.taken(time.monotonic() - seconds)
        _fail(late, held_too_long())
        answer_all(late)

    def _gather_for(self, loop: asyncio.AbstractEventLoop) -> list[CommitRequest[Any]]:
        """The list in which an event loop gathers requests until a turn brings no more, to commit them together."""
        if self._closing:
            raise closed()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._end_turn, loop, 0, False)
        return gathered

    def _end_turn(self, loop: asyncio.AbstractEventLoop, before: int, waited: bool) -> None:  # noqa: FBT001  # a callback
        """Plan the requests that this event loop has gathered, unless the last turn added some: then wait one more turn.

        If the pen is taken, wait until it is laid down. If the committer's thread has already taken it again by then, it is
        busy: hand the gathered requests over to its queue, so that no request waits for more than two commits.
        """
        gathered = self._gathered.get(loop)
        if gathered is None:
            return
        if before < len(gathered) < limits.FEW_MESSAGES_MAX:
            loop.call_soon(self._end_turn, loop, len(gathered), waited)
            return
        size = sum([request.size for request in gathered])
        writes = loop in self._writing and size <= limits.LIGHT_BYTES_MAX and self._is_quick(size)
        light = size <= limits.LIGHT_BYTES_MAX and _are_light(gathered, brief=writes)
        with self._lock:
            if light and (self._pen is _Pen.LOOP or (self._pen is _Pen.THREAD and not waited)):
                self._waiting.add(loop)
                return
            here = light and self._pen is _Pen.FREE and not self._queue and not self._closing
            if here:
                self._pen = _Pen.LOOP
        planned = self._plan_here(gathered) if here else None
        if planned is None:
            self.hand_over(loop)
            return
        self._gathered_count -= len(self._gathered.pop(loop))
        if writes:
            self._write_here(planned, loop)
        else:
            with self._changed:
                self._planned = planned
                self._changed.notify_all()

    def _plan_here(self, batch: list[CommitRequest[Any]]) -> _Planned | None:
        """Plan light requests in this thread, which holds the pen. None: the pen is free again; the committer's thread must plan."""
        planned: _Planned | None = None
        try:
            plan = None if self._broken or self._outcomes.in_doubt else self._plan_lightly(batch)
            if plan is not None:
                planned = _Planned(plan, plan.finish(), batch)
        except Exception:  # noqa: BLE001  # the committer's thread will meet the same error and report it to the callers
            _log.exception("Requests could not be planned in their event loop.")
        finally:
            if planned is None:
                with self._changed:
                    self._pen = _Pen.FREE
                    self._changed.notify_all()
        return planned

    def _write_here(self, planned: _Planned, loop: asyncio.AbstractEventLoop) -> None:
        """Write a planned commit in this event loop's thread, and answer its requests.

        The answers go through `call_soon`: answers of the commit before, scheduled by the committer's thread, may still be
        waiting in the loop, and frames of one connection must be answered in order.
        """
        try:
            self._write(*planned)
            loop.call_soon(_resolve, planned.batch)
        finally:
            self._lay_pen_down()

    def hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queue the requests that this event loop has gathered. Called in the loop's thread."""
        requests = self._gathered.pop(loop, [])
        self._gathered_count -= len(requests)
        try:
            self._enqueue_all(requests, wait=False)
        except Unavailable as error:
            _fail(requests, error)
            _resolve(requests)

    def _enqueue(self, request: CommitRequest[T], *, wait: bool) -> None:
        self._enqueue_all((request,), wait=wait)

    def _enqueue_all(self, requests: Sequence[CommitRequest[T]], *, wait: bool) -> None:
        with self._lock:
            while wait and len(self._queue) >= limits.QUEUE_REQUESTS_MAX and not self._closing:
                self._changed.wait()
            if self._closing:
                raise closed()
            # Notify before queueing: the lock keeps the committer waiting until the request is queued, and an interrupt
            # between the two cannot leave a queued request with the committer asleep.
            if not self._queue:
                self._changed.notify_all()
            self._queue.extend(requests)  # type: ignore[arg-type]  # each is answered with what its own plan gives

    def _run(self) -> None:
        while (work := self._take()) is not None:
            if isinstance(work, _Planned):
                self._write(work.plan, work.changes, work.batch)
                batch = work.batch
            else:
                self._commit(work)
                batch = self._without_those_put_off(work)
            answer_all(batch)
            self._lay_pen_down()
            del work, batch  # These references would keep the requests in memory until the next commit.

    def _lay_pen_down(self) -> None:
        """Free the pen: the committer's thread plans next if anything is queued, else an event loop that waits."""
        with self._lock:
            self._pen = _Pen.FREE
            waiting, self._waiting = self._waiting, set()
            if self._queue or self._closing:
                self._changed.notify_all()
        for loop in waiting:
            try:
                loop.call_soon_threadsafe(self._end_turn, loop, 0, True)
            except RuntimeError:
                # The loop is closed, so nobody is left to read the answers.
                self._gathered_count -= len(self._gathered.pop(loop, ()))

    def _without_those_put_off(self, batch: list[CommitRequest[object]]) -> list[CommitRequest[object]]:
        """Queue requests that were put off first for the next commit, unless this whole commit failed; return the others."""
        batch = self.parked.parted(batch, time.monotonic())
        again = [request for request in batch if request.put_off and request.error is None]
        if not again:
            return batch
        answered = [request for request in batch if not request.put_off or request.error is not None]
        for request in again:
            request.put_off = False
        self._put_first(again)
        return answered

    def _put_first(self, requests: Sequence[CommitRequest[object]]) -> None:
        with self._changed:
            self._queue.extendleft(reversed(requests))
            self._changed.notify_all()

    def _take(self) -> _Planned | list[CommitRequest[object]] | None:
        """Wait for work: a commit that an event loop planned, or queued requests. None when the hub is closed."""
        with self._lock:
            while True:
                if self._planned is not None:
                    planned, self._planned = self._planned, None
                    return planned
                if self._pen is _Pen.FREE and self._queue:
                    self._pen = _Pen.THREAD
                    batch = next_batch(self._queue)
                    self._changed.notify_all()
                    return batch
                if self._pen is _Pen.FREE and self._closing:
                    return None
                self._changed.wait()

    def _commit(self, batch: Sequence[CommitRequest[object]]) -> None:
        """Plan the queued requests, and write the commit."""
        try:
            self._outcomes.settle()
            plan = self._new_plan()
            if self._broken:
                raise Unavailable("The hub has failed and no longer knows what is stored. Open it again.")
            plan.fetch([entry for request in batch for entry in request.reads])
            for request in self._plan_jointly(plan, batch):
                plan_one(plan, request)
            changes = plan.finish()
        except BaseException as error:  # noqa: BLE001  # the callers must get every error
            _fail(batch, error)
            return
        self._write(plan, changes, batch)

    def _write(self, plan: CommitPlan, changes: Changes, batch: Sequence[CommitRequest[Any]]) -> None:
        """Make a planned commit durable, and apply it to memory."""
        try:
            self._outcomes.store(plan, changes)
        except BaseException as error:  # noqa: BLE001  # the callers must get every error
            if isinstance(error, StorageFull):
                self._no_room_at = time.monotonic()
            self.totals.failures += 1
            _fail(batch, error)

    def _bring_up(self, plan: CommitPlan) -> None:
        """Apply a stored commit to memory, and announce it."""
        self._no_room_at = -math.inf
        try:
            plan.apply()
        except BaseException as error:
            # Memory now lacks what the store has, so further commits would assign numbers twice. Reopening reads the store.
            if not self._broken:
                self._broken = True
                _log.critical("The hub has failed after a commit and no longer commits. Restart it.", exc_info=error)
            raise
        try:
            self._committed(plan)
        except Exception:  # noqa: BLE001  # the thread must go on
            # The commit is stored. If this thread ended here, its callers would wait for ever.
            _log.exception("What was committed could not be announced.")


def plan_one(plan: CommitPlan, request: CommitRequest[object]) -> None:
    """Plan a request by itself. A refused request leaves no trace in the plan."""
    draft = plan.draft()
    try:
        request.result = request.plan(draft)
    except Exception as error:  # noqa: BLE001  # a refusal or a defect: only this caller gets it
        request.error = error
    else:
        plan.accept(draft)


def _are_light(requests: Sequence[CommitRequest[Any]], *, brief: bool) -> bool:
    """Whether an event loop may plan all of these requests: the light ones, and with `brief` those that read the store."""
    lights = [request.light or (brief and request.brief) for request in requests]
    return False not in lights


def _fail(batch: Sequence[CommitRequest[object]], error: BaseException) -> None:
    known = isinstance(error, RestanteError)
    if not known:
        _log.error("A commit failed.", exc_info=error)
    failure = error if known else OutcomeUnknown(f"The commit failed ({type(error).__name__}). Open the hub again.")
    # A hub that no longer owns the store must not answer, because its refusals may be as wrong as its results.
    knew_nothing = isinstance(failure, NotOwner | StoreConflict)
    for request in batch:
        request.error = failure if knew_nothing else request.error or failure


def answer_all(batch: Iterable[CommitRequest[Any]]) -> None:
    """Wake the waiters; all those of one event loop with one call."""
    loops: dict[asyncio.AbstractEventLoop, list[CommitRequest[object]]] = {}
    for request in batch:
        waiter = request.waiter
        if isinstance(waiter, Listener):
            loops.setdefault(waiter.loop, []).append(request)
        elif isinstance(waiter, asyncio.Future):
            loops.setdefault(waiter.get_loop(), []).append(request)
        elif waiter is not None:
            waiter.release()
    for loop, requests in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, requests)
        except RuntimeError:
            # The loop is closed, so nobody is left to read the answers.
            continue


def _resolve(requests: Sequence[CommitRequest[object]]) -> None:
    jointly: dict[JointListener, list[CommitRequest[object]]] = {}
    for request in requests:
        waiter = request.waiter
        if isinstance(waiter, Listener):
            together = waiter.together
            if together is None or request.error is not None:
                _tell(waiter, request)
            elif together in jointly:
                jointly[together].append(request)
            else:
                jointly[together] = [request]
        elif isinstance(waiter, asyncio.Future) and not waiter.done():
            waiter.set_result(request)
    for together, own in jointly.items():
        if not together.tell_all(own):
            for request in own:
                _tell(request.waiter, request)
    for request in requests:
        # A waiter holds what it waited for: with a request that held its waiter, both would live, with all that was sent, until
        # the next garbage collection.
        request.waiter = None


def _tell(waiter: object, request: CommitRequest[object]) -> None:
    assert isinstance(waiter, Listener), "only listeners are told"
    try:
        waiter.tell(request)
    except Exception:  # noqa: BLE001  # the commit's other waiters must still be told
        _log.exception("An answer could not be given.")
