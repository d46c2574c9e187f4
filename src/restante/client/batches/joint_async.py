"""Small calls of an asynchronous program, sent together: those of one turn of the event loop, and those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from restante.client.batches.joint_calls import (
    JointBounds,
    JointCall,
    JointOutcome,
    JointQueue,
    concerns_one_call,
    given,
    is_to_be_repeated,
    own_error,
)

T = TypeVar("T")
SendTogether = Callable[[Sequence[bytes]], Awaitable[Sequence[JointOutcome[T]]]]


class _Caller(NamedTuple):
    call: JointCall
    outcome: asyncio.Future[Any]


class AsyncJointCalls(Generic[T]):
    """The calls of the tasks that use one link, in one event loop after another."""

    def __init__(self, send: SendTogether[T], bounds: JointBounds) -> None:
        self._send = send
        self._bounds = bounds
        self._calls: _CallsOfLoop[T] | None = None
        """Made when it is needed: then there is an event loop."""

    def carry_out(self, call: JointCall) -> Coroutine[Any, Any, T]:
        loop = asyncio.get_running_loop()
        if self._calls is None or self._calls.loop is not loop:
            self._calls = _CallsOfLoop(loop, self._send, self._bounds)
        return self._calls.carry_out(call)


class _CallsOfLoop(Generic[T]):
    """The calls of one event loop. Each request is carried by a task of its own, so no caller can take it along when it goes.

    Where the first goes alone, a call that finds nothing under way goes at once, in the task of its caller.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: SendTogether[T], bounds: JointBounds) -> None:
        self.loop = loop
        self._send = send
        self._bounds = bounds
        self._queue: JointQueue[_Caller] = JointQueue(bounds)
        self._under_way: dict[asyncio.Task[None], list[_Caller]] = {}
        self._alone = 0
        """Requests of one call, which its own task carries."""
        self._flushing = False

    async def carry_out(self, call: JointCall) -> T:
        if self._bounds.first_alone and not (self._alone or self._under_way or self._queue.waiting):
            return await self._carry_alone(call)
        return given(await self._carry_jointly(call))

    async def _carry_alone(self, call: JointCall) -> T:
        self._alone += 1
        try:
            return given((await self._send((call.text,)))[0])
        finally:
            self._alone -= 1

    async def _carry_jointly(self, call: JointCall) -> JointOutcome[T]:
        caller = _Caller(call, self.loop.create_future())
        self._queue.waiting.append(caller)
        self._flush_soon()
        try:
            outcome: JointOutcome[T] = await caller.outcome
        except asyncio.CancelledError:
            self._forget_abandoned()
            raise
        return outcome

    def _flush_soon(self) -> None:
        """Send at the end of this turn of the event loop: what other tasks say in it goes along."""
        if self._queue.waiting and not self._flushing and len(self._under_way) < self._bounds.requests:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._queue.waiting and len(self._under_way) < self._bounds.requests:
            free = self._bounds.requests - len(self._under_way)
            callers = [each for each in self._queue.take_first_along(free) if not each.outcome.done()]
            if callers:
                task = self.loop.create_task(self._carry(callers), name="restante-joint-calls")
                self._under_way[task] = callers
                task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        """A task that was cancelled from outside, perhaps before it began, leaves nobody waiting."""
        for caller in self._under_way.pop(task):
            caller.outcome.cancel()
        self._flush_soon()

    def _forget_abandoned(self) -> None:
        """Requests that nobody waits for any more are given up."""
        for task, callers in self._under_way.items():
            if all(caller.outcome.cancelled() for caller in callers):
                task.cancel()

    async def _carry(self, callers: Sequence[_Caller]) -> None:
        try:
            answers = await self._send([caller.call.text for caller in callers])
        except Exception as error:  # noqa: BLE001 - any error belongs to the callers
            if len(callers) > 1 and concerns_one_call(error):
                for caller in callers:
                    await self._carry((caller,))
                return
            for caller in callers:
                _tell(caller, own_error(error))
        else:
            for caller, answer in zip(callers, answers, strict=True):
                if len(callers) > 1 and is_to_be_repeated(answer):
                    await self._carry((caller,))
                else:
                    _tell(caller, answer)


def _tell(caller: _Caller, outcome: object) -> None:
    if not caller.outcome.done():
        caller.outcome.set_result(outcome)
