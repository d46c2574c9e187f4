"""Small acknowledgements of an asynchronous program, sent together: those of one turn of the event loop, and those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from restante.client.batches.joint_calls import (
    REQUESTS_MAX,
    JointCall,
    JointQueue,
    Outcome,
    concerns_one_call,
    own_error,
)
from restante.model.batches.batch_answers import Acknowledged

Send = Callable[[Sequence[bytes]], Awaitable[tuple[Acknowledged, ...]]]


class _Caller(NamedTuple):
    call: JointCall
    outcome: asyncio.Future[Outcome]


class AsyncJointCalls:
    """The calls of the tasks that use one link, in one event loop after another."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._calls: _CallsOfLoop | None = None
        """Made when it is needed: then there is an event loop."""

    def acknowledge(self, call: JointCall) -> Coroutine[Any, Any, Acknowledged]:
        loop = asyncio.get_running_loop()
        if self._calls is None or self._calls.loop is not loop:
            self._calls = _CallsOfLoop(loop, self._send)
        return self._calls.acknowledge(call)


class _CallsOfLoop:
    """The calls of one event loop. Each request is carried by a task of its own, so no caller can take it along when it goes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        self.loop = loop
        self._send = send
        self._queue: JointQueue[_Caller] = JointQueue()
        self._under_way: dict[asyncio.Task[None], list[_Caller]] = {}
        self._flushing = False

    async def acknowledge(self, call: JointCall) -> Acknowledged:
        caller = _Caller(call, self.loop.create_future())
        self._queue.waiting.append(caller)
        self._flush_soon()
        try:
            outcome = await caller.outcome
        except asyncio.CancelledError:
            self._forget_abandoned()
            raise
        if isinstance(outcome, Acknowledged):
            return outcome
        raise outcome

    def _flush_soon(self) -> None:
        """Send at the end of this turn of the event loop: what other tasks say in it goes along."""
        if self._queue.waiting and not self._flushing and len(self._under_way) < REQUESTS_MAX:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._queue.waiting and len(self._under_way) < REQUESTS_MAX:
            callers = [each for each in self._queue.take_along() if not each.outcome.done()]
            if callers:
                task = self.loop.create_task(self._carry(callers), name="restante-acknowledge")
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
                _tell(caller, answer)


def _tell(caller: _Caller, outcome: Outcome) -> None:
    if not caller.outcome.done():
        caller.outcome.set_result(outcome)
