"""`CommitRequest` is a request to be committed, with its waiter; `next_batch` picks the requests of the next commit.

`ParkedRequests` holds requests beside the committer's queue until `Committer.unpark`; those parked too long are refused.
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

RequestLine = tuple[int, bytes]
"""A partition, and the key of a producer group there."""
_PASSED_MAX = 1_024
_TOGETHER_MAX = limits.FEW_MESSAGES_MAX // 2


class Listener(Generic[T]):
    """A waiter whose `tell` the event loop calls when a request is answered. It costs no future and no waiting task."""

    __slots__ = ()

    loop: asyncio.AbstractEventLoop
    together: JointListener | None = None
    """The `JointListener` that takes the successful requests of a commit at once, in place of `tell`; None if there is none."""

    def tell(self, request: CommitRequest[T]) -> None:
        """Take the answered request. Called in the loop."""
        raise NotImplementedError


class JointListener(Protocol):
    """A listener that takes several successful requests at once, and does the work that they share only once."""

    def tell_all(self, requests: Sequence[CommitRequest[Any]]) -> bool:
        """Take the answered requests. Called in the loop. False means nothing was done: call `tell` of each listener."""


class LastListener(Listener[Any]):
    """Listens to several requests, and gives one waiter the joint answer when the last of them is answered."""

    __slots__ = ("_answer", "_left", "_waiter", "loop")

    def __init__(self, count: int, answer: Callable[[], T], waiter: LoopWaiter[T]) -> None:
        self.loop = loop_of(waiter)
        self._left = count
        self._answer = answer
        self._waiter = waiter

    def tell(self, request: CommitRequest[Any]) -> None:  # noqa: ARG002  # `answer` reads the requests itself
        self._left -= 1
        if self._left:
            return
        whole: CommitRequest[Any] = CommitRequest()
        try:
            whole.result = self._answer()
        except Exception as error:  # noqa: BLE001  # the waiter must get every error
            whole.error = error
        if isinstance(self._waiter, Listener):
            self._waiter.tell(whole)
        elif not self._waiter.done():
            self._waiter.set_result(whole)


class CommitRequest(Generic[T]):
    """A request to be planned and committed. Once answered, it has a result or an error."""

    __slots__ = ("alone", "brief", "error", "light", "line", "parked", "put_off", "reads", "result", "size", "waiter")

    def __init__(self, size: int = 0, line: RequestLine | None = None) -> None:
        self.result: T | None = None
        self.error: BaseException | None = None
        self.size = size
        """How many bytes of a commit the request takes."""
        self.line = line
        """Requests of one line keep their order, because each is judged by the outcome of those before it."""
        self.alone = False
        """Whether the request must have a commit of its own."""
        self.put_off = False
        """Whether the request cannot be judged in this commit and must go into the next."""
        self.parked = False
        """Whether the request waits beside the queue until `Committer.unpark`."""
        self.light = False
        """Whether planning is quick and reads only memory."""
        self.brief = False
        """Whether planning is quick and reads a few rows of the store."""
        self.reads: Sequence[EntryKey] = ()
        """Rows that planning is known to read. `CommitPlan.fetch` reads those of a whole commit in one call."""
        self.waiter: threading.Lock | asyncio.Future[CommitRequest[T]] | Listener[T] | None = None

    def plan(self, draft: RequestDraft) -> T:
        raise NotImplementedError

    def answer(self) -> T:
        """Return the result, or raise the error. Call this once.

        An error's traceback holds frames, which hold this request with all its messages. So the request and this frame
        drop their reference to the error: otherwise the cycle would live until the next garbage collection.
        """
        error, self.error = self.error, None
        if error is None:
            return self.result  # type: ignore[return-value]  # set by the committer before it wakes the waiter
        try:
            raise error
        finally:
            del error


LoopWaiter = asyncio.Future[CommitRequest[T]] | Listener[T]
"""A waiter in an event loop: a future or a `Listener`."""


def loop_of(waiter: LoopWaiter[T]) -> asyncio.AbstractEventLoop:
    return waiter.loop if isinstance(waiter, Listener) else waiter.get_loop()


class Planned(CommitRequest[T]):
    """A request whose plan is a function."""

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
    """Take requests from the front of the queue, up to the size of a commit.

    Several requests of one line are taken while the batch is small, because `plan_few` may plan them together. Once the
    batch is larger, or a request was passed over, further requests of that line keep their places for the next commit.
    """
    batch: list[CommitRequest[Any]] = []
    passed: list[CommitRequest[Any]] = []
    taken: set[RequestLine] = set()
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
    """A request that may be parked. Its caller gets no answer until it has been unparked and committed, or refused."""

    parked: bool
    error: BaseException | None
    line: Any


R = TypeVar("R", bound=Parkable)


class ParkedRequests(Generic[R]):
    """The parked requests, each with the time it was parked, in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: list[tuple[float, R]] = []

    @property
    def lines(self) -> set[object]:
        """The lines that have parked requests. Later requests of these lines must wait too."""
        return {request.line for _, request in tuple(self.requests) if request.line is not None}

    def parted(self, batch: list[R], now: float) -> list[R]:
        """Park the requests of a commit that are marked `parked` and were not refused; return the others."""
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
        """Remove and return the requests parked up to the time `until`, or all. The caller answers them."""
        with self._lock:
            found = [request for since, request in self.requests if until is None or since <= until]
            self.requests = [own for own in self.requests if until is not None and own[0] > until]
        return found


def held_too_long() -> Unavailable:
    """The error for a caller whose request stayed parked too long."""
    return Unavailable("What was sent is held by a commit of others that takes long. Try again.")


def closed() -> Unavailable:
    """The error for a call to a closed hub."""
    error = Unavailable("The hub is closed. Open it again.")
    error.retriable = False
    return error
