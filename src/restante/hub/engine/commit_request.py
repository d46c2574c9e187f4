"""`CommitRequest`: a request to be committed, with its waiter; and `next_batch`, the requests of the next commit.

`ParkedRequests` wait beside the queue of the committer until `Committer.unpark`, or are refused after some time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from restante import limits
from restante.errors import Unavailable
from restante.hub.engine.plan import RequestDraft
from restante.model.storage.changes import EntryKey

T = TypeVar("T")

Line = tuple[int, bytes]
"""A partition, and the key of a producer group there."""
_PASSED_MAX = 1_024
_TOGETHER_MAX = limits.FEW_MESSAGES_MAX // 2


class Listener(Generic[T]):
    """An object whose `take` an event loop calls when a request is answered, without a task that waits there."""

    __slots__ = ()

    loop: asyncio.AbstractEventLoop
    together: JointListener | None = None
    """The `JointListener` that takes all requests of a commit that succeeded, in place of `tell`; None: there is none."""

    def tell(self, request: CommitRequest[T]) -> None:
        """Take the request, answered; called in the loop."""
        raise NotImplementedError


class JointListener(Protocol):
    """A listener that takes several requests that succeeded at once, and does once what is alike in all of them."""

    def tell_all(self, requests: Sequence[CommitRequest[Any]]) -> bool:
        """Take the requests, answered; called in the loop. False: nothing was done, call `tell` of each listener."""


class LastListener(Listener[Any]):
    """Hears of several requests, and tells one waiter of the answer to them all, once the last is answered."""

    __slots__ = ("_answer", "_left", "_waiter", "loop")

    def __init__(self, count: int, answer: Callable[[], T], waiter: LoopWaiter[T]) -> None:
        self.loop = loop_of(waiter)
        self._left = count
        self._answer = answer
        self._waiter = waiter

    def tell(self, request: CommitRequest[Any]) -> None:  # noqa: ARG002  # `answer` knows them
        self._left -= 1
        if self._left:
            return
        whole: CommitRequest[Any] = CommitRequest()
        try:
            whole.result = self._answer()
        except Exception as error:  # noqa: BLE001  # whatever it is, the waiter is to hear of it
            whole.error = error
        if isinstance(self._waiter, Listener):
            self._waiter.tell(whole)
        elif not self._waiter.done():
            self._waiter.set_result(whole)


class CommitRequest(Generic[T]):
    """A request to be planned and committed; afterwards it has a result or an error."""

    __slots__ = ("alone", "brief", "error", "light", "line", "parked", "put_off", "reads", "result", "size", "waiter")

    def __init__(self, size: int = 0, line: Line | None = None) -> None:
        self.result: T | None = None
        self.error: BaseException | None = None
        self.size = size
        """How many bytes of a commit the request takes."""
        self.line = line
        """Requests of one line keep their order: each is judged by the outcome of those before it."""
        self.alone = False
        """Whether the request must have a commit of its own."""
        self.put_off = False
        """Whether the request cannot be judged in this commit, and goes into the next."""
        self.parked = False
        """Whether the request waits beside the queue until `Committer.unpark`."""
        self.light = False
        """Whether planning takes little time, and reads only memory."""
        self.brief = False
        """Whether planning takes little time, and reads a few rows of the store."""
        self.reads: Sequence[EntryKey] = ()
        """Rows that planning is known to read: those of a whole commit are fetched at once."""
        self.waiter: threading.Lock | asyncio.Future[CommitRequest[T]] | Listener[T] | None = None

    def plan(self, draft: RequestDraft) -> T:
        raise NotImplementedError

    def answer(self) -> T:
        """The result, or the error raised, which is asked for once.

        An error holds the frames that it went through, and they hold this request with all its messages. So neither the
        request nor this frame goes on holding the error: they would keep each other until the next search for garbage.
        """
        error, self.error = self.error, None
        if error is None:
            return self.result  # type: ignore[return-value]  # set by the committer before anybody is woken
        try:
            raise error
        finally:
            del error


LoopWaiter = asyncio.Future[CommitRequest[T]] | Listener[T]
"""A function that gets a request, answered, in an event loop."""


def loop_of(waiter: LoopWaiter[T]) -> asyncio.AbstractEventLoop:
    return waiter.loop if isinstance(waiter, Listener) else waiter.get_loop()


class Planned(CommitRequest[T]):
    """A request that is planned by a function."""

    __slots__ = ("_plan",)

    def __init__(
        self,
        plan: Callable[[RequestDraft], T],
        *,
        alone: bool = False,
        brief: bool = False,
        reads: Sequence[EntryKey] = (),
    ) -> None:
        super().__init__()
        self.brief = brief
        self._plan = plan
        self.alone = alone
        self.reads = reads

    def plan(self, draft: RequestDraft) -> T:
        return self._plan(draft)


def next_batch(queue: deque[CommitRequest[Any]]) -> list[CommitRequest[Any]]:
    """Take from the front, up to the size of a commit.

    A few requests of one line go together, because they may be planned as one. Further requests of that line wait for the
    next commit, and keep their places.
    """
    batch: list[CommitRequest[Any]] = []
    passed: list[CommitRequest[Any]] = []
    taken: set[Line] = set()
    room = limits.COMMIT_BYTES_MAX
    while queue and len(batch) < limits.COMMIT_REQUESTS_MAX and len(passed) < _PASSED_MAX:
        if batch and (queue[0].size > room or queue[0].alone or batch[-1].alone):
            break
        request = queue.popleft()
        if request.line is not None:
            if request.line in taken and (passed or len(batch) >= _TOGETHER_MAX):
                passed.append(request)
                continue
            taken.add(request.line)
        room -= request.size
        batch.append(request)
    queue.extendleft(reversed(passed))
    return batch


class Parkable(Protocol):
    """A request that may be parked. Its caller is answered only after it was unparked, or refused."""

    parked: bool
    error: BaseException | None
    line: Any


R = TypeVar("R", bound=Parkable)


class ParkedRequests(Generic[R]):
    """The requests that are parked, and since when, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: list[tuple[float, R]] = []

    @property
    def lines(self) -> set[object]:
        """The lines that have parked requests: later requests of such a line wait, too."""
        return {request.line for _, request in tuple(self.requests) if request.line is not None}

    def parted(self, batch: list[R], now: float) -> list[R]:
        """Park the requests of a commit that ask for it and were not refused; gives the others."""
        kept = [request for request in batch if request.parked and request.error is None]
        if not kept:
            return batch
        answered = [request for request in batch if not request.parked or request.error is not None]
        for request in kept:
            request.parked = False
        with self._lock:
            self.requests += [(now, request) for request in kept]
        return answered

    def taken(self, until: float | None = None) -> list[R]:
        """Take out the requests that were parked up to some time, or all of them; the caller answers them."""
        with self._lock:
            found = [request for since, request in self.requests if until is None or since <= until]
            self.requests = [own for own in self.requests if until is not None and own[0] > until]
        return found


def held_too_long() -> Unavailable:
    """The error for a caller whose request was parked until the time was up."""
    return Unavailable("What was sent is held by a commit of others that takes long. Try again.")


def closed() -> Unavailable:
    """The error of a call to a hub that was closed."""
    error = Unavailable("The hub is closed. Open it again.")
    error.retriable = False
    return error
