"""Group commit: requests that arrive while a commit is under way go into the next commit.

One thread, the committer's, plans the waiting requests, commits them together, updates memory, and only then answers them.
A request that is refused gets its own error. If the commit fails, all its requests fail and nothing has changed.

Light requests that come in the turns of an event loop are planned there, as one group: if the committer's thread planned
them, it would take the interpreter away from the loop, which still reads other requests. The committer's thread then
writes and flushes the planned commit, updates memory, and answers as usual; or the event loop does so itself, if it was
asked to and the store says that a flush takes little time. There is one *pen*: its holder plans on the state of the last
commit, and the pen is laid down when that commit has been applied.
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
"""Plans the publishes of a commit together, and gives back the requests that are to be planned one by one."""
LightPlan = Callable[[CommitPlan, Sequence[CommitRequest[Any]]], bool]
"""Plans light and brief requests together; False: they need a closer look, and nothing was done."""


class _Pen(Enum):
    """The pen: which thread plans, or has planned, the commit that is under way."""

    FREE = auto()
    THREAD = auto()
    LOOP = auto()


class _Planned(NamedTuple):
    """A commit that was planned in an event loop, and is to be written."""

    plan: CommitPlan
    changes: Changes
    batch: list[CommitRequest[Any]]


class Committer:
    """The queue before the commit, and the thread that empties it."""

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
        """Event loops that may write what they have planned."""
        self._waiting: set[asyncio.AbstractEventLoop] = set()
        """Event loops that have gathered requests and wait for the pen."""
        self._queue: deque[CommitRequest[object]] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._gathered: dict[asyncio.AbstractEventLoop, list[CommitRequest[Any]]] = {}
        """The requests that came in the last turns of each event loop; only its own thread looks there."""
        self._gathered_count = 0
        """About how many requests event loops have gathered."""
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
        """Have a request committed, and wait for its answer."""
        lock = threading.Lock()
        lock.acquire()
        request.waiter = lock
        self._enqueue(request, wait=True)
        lock.acquire()
        return request.answer()

    def submit_soon(self, request: CommitRequest[T], waiter: LoopWaiter[T]) -> None:
        """Have a request committed; the waiter gets it, answered, in its own loop."""
        request.waiter = waiter
        self._gather_for(loop_of(waiter)).append(request)
        self._gathered_count += 1

    def submit_each(self, requests: Sequence[CommitRequest[T]]) -> None:
        """Have several requests committed, one after the other, and wait until all are answered."""
        locks = [threading.Lock() for _ in requests]
        for request, lock in zip(requests, locks, strict=True):
            lock.acquire()
            request.waiter = lock
        self._enqueue_all(requests, wait=True)
        for lock in locks:
            lock.acquire()

    def submit_each_soon(self, requests: Sequence[CommitRequest[T]], waiters: Sequence[LoopWaiter[T]]) -> None:
        """Have several requests committed, one after the other; each waiter gets its own, answered."""
        for request, waiter in zip(requests, waiters, strict=True):
            request.waiter = waiter
        if requests:
            self._gather_for(loop_of(waiters[0])).extend(requests)
            self._gathered_count += len(requests)

    def write_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let an event loop write light commits itself, where that takes little time. No interrupt may strike in it."""
        self._writing.add(loop)

    @property
    def full(self) -> bool:
        return len(self._queue) + self._gathered_count >= limits.QUEUE_REQUESTS_MAX

    @property
    def alive(self) -> bool:
        """Whether the committer can still commit."""
        return self._thread.is_alive() and not self._broken

    def seconds_without_room(self) -> float:
        """How long ago the storage was full for a commit; without end, if one was stored since."""
        return time.monotonic() - self._no_room_at

    def close(self) -> None:
        """Commit what is waiting, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.refuse_parked(0)

    def unpark(self) -> None:
        """Queue the parked requests again, before everything that waits."""
        self._put_first(self.parked.taken())

    def refuse_parked(self, seconds: float) -> None:
        """Refuse the requests that have been parked for so long."""
        late = self.parked.taken(time.monotonic() - seconds)
        _fail(late, held_too_long())
        answer_all(late)

    def _gather_for(self, loop: asyncio.AbstractEventLoop) -> list[CommitRequest[Any]]:
        """Where the requests of an event loop are gathered until a turn brings no more, so that they are committed together."""
        if self._closing:
            raise closed()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._end_turn, loop, 0, False)
        return gathered

    def _end_turn(self, loop: asyncio.AbstractEventLoop, before: int, waited: bool) -> None:  # noqa: FBT001  # a callback
        """Plan what this event loop has gathered, unless the last turn brought more than there was before.

        If another holds the pen, wait until it is laid down. If the committer's thread has taken it again by then, there is
        more for it to do: what was gathered goes into its queue, so that nobody waits for more than two commits.
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
        """Plan light requests in this thread, which holds the pen; None if the committer's thread has to, and has the pen."""
        planned: _Planned | None = None
        try:
            plan = None if self._broken or self._outcomes.in_doubt else self._plan_lightly(batch)
            if plan is not None:
                planned = _Planned(plan, plan.finish(), batch)
        except Exception:  # noqa: BLE001  # whatever it is, the committer's thread meets it too, and tells the callers
            _log.exception("Requests could not be planned in their event loop.")
        finally:
            if planned is None:
                with self._changed:
                    self._pen = _Pen.FREE
                    self._changed.notify_all()
        return planned

    def _write_here(self, planned: _Planned, loop: asyncio.AbstractEventLoop) -> None:
        """Write what was planned in this event loop, whose thread this is, and answer all of it.

        The answers wait for their turn in the loop: those of the commit before may be waiting there, told by the committer's
        thread, and the frames of one connection are answered in order.
        """
        try:
            self._write(*planned)
            loop.call_soon(_resolve, planned.batch)
        finally:
            self._lay_pen_down()

    def hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queue what this event loop has gathered; from its thread."""
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
            # The lock is held, so the committer looks only after the request is queued; an interrupt leaves no thread asleep.
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
        """The next commit may be planned: by this thread, if anything is queued, or by an event loop that waits."""
        with self._lock:
            self._pen = _Pen.FREE
            waiting, self._waiting = self._waiting, set()
            if self._queue or self._closing:
                self._changed.notify_all()
        for loop in waiting:
            try:
                loop.call_soon_threadsafe(self._end_turn, loop, 0, True)
            except RuntimeError:
                # The loop has gone, and with it everybody who could have read the answers.
                self._gathered_count -= len(self._gathered.pop(loop, ()))

    def _without_those_put_off(self, batch: list[CommitRequest[object]]) -> list[CommitRequest[object]]:
        """Requests that were put off come first in the next commit, unless this whole commit has failed."""
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
        """A commit that was planned, or everything that waits, up to the size of a commit; None when the hub is closed."""
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
        """Plan what was queued, and write it."""
        try:
            self._outcomes.settle()
            plan = self._new_plan()
            if self._broken:
                raise Unavailable("The hub has failed and no longer knows what is stored. Open it again.")
            plan.fetch([entry for request in batch for entry in request.reads])
            for request in self._plan_jointly(plan, batch):
                plan_one(plan, request)
            changes = plan.finish()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the callers must hear of it
            _fail(batch, error)
            return
        self._write(plan, changes, batch)

    def _write(self, plan: CommitPlan, changes: Changes, batch: Sequence[CommitRequest[Any]]) -> None:
        """Make what was planned durable, and bring memory up to it."""
        try:
            self._outcomes.store(plan, changes)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the callers must hear of it
            if isinstance(error, StorageFull):
                self._no_room_at = time.monotonic()
            self.totals.failures += 1
            _fail(batch, error)

    def _bring_up(self, plan: CommitPlan) -> None:
        """Bring memory up to what is stored, and announce it."""
        self._no_room_at = -math.inf
        try:
            plan.apply()
        except BaseException as error:
            # Memory lacks what the store has: going on would give numbers twice. Opening the hub again reads the store.
            if not self._broken:
                self._broken = True
                _log.critical("The hub has failed after a commit and no longer commits. Restart it.", exc_info=error)
            raise
        try:
            self._committed(plan)
        except Exception:  # noqa: BLE001  # whatever it is, the thread must go on
            # The commit is stored, so its callers must be answered: if this thread ended here, they would wait for ever.
            _log.exception("What was committed could not be announced.")


def plan_one(plan: CommitPlan, request: CommitRequest[object]) -> None:
    """Plan a request by itself; if it is refused, nothing of it is left in the plan."""
    draft = plan.draft()
    try:
        request.result = request.plan(draft)
    except Exception as error:  # noqa: BLE001  # refused, or broken: its own caller hears of it, the others go on
        request.error = error
    else:
        plan.accept(draft)


def _are_light(requests: Sequence[CommitRequest[Any]], *, brief: bool) -> bool:
    """Whether all of these requests are planned in an event loop; brief ones, if it may read the store."""
    lights = [request.light or (brief and request.brief) for request in requests]
    return False not in lights


def _fail(batch: Sequence[CommitRequest[object]], error: BaseException) -> None:
    known = isinstance(error, RestanteError)
    if not known:
        _log.error("A commit failed.", exc_info=error)
    failure = error if known else OutcomeUnknown(f"The commit failed ({type(error).__name__}). Open the hub again.")
    # A hub that no longer owns the store must not answer: a refusal may be as wrong as a result.
    knew_nothing = isinstance(failure, NotOwner | StoreConflict)
    for request in batch:
        request.error = failure if knew_nothing else request.error or failure


def answer_all(batch: Iterable[CommitRequest[Any]]) -> None:
    """Wake everybody; those of one event loop with one call."""
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
            # The loop has gone, and with it everybody who could have read the answers.
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


def _tell(waiter: object, request: CommitRequest[object]) -> None:
    assert isinstance(waiter, Listener), "only listeners are told"
    try:
        waiter.tell(request)
    except Exception:  # noqa: BLE001  # the others of the commit must hear of it all the same
        _log.exception("An answer could not be given.")
