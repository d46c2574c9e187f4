"""Sending gathered loads, for asynchronous programs: a task runs while loads are due, and a timer waits for the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from restante.client.concurrency.waits_async import AsyncCondition
from restante.client.sending.send_queue import Gathering

Load = TypeVar("Load")


class AsyncSender(Generic[Load]):
    """Sends the loads of a gathering, up to `at_once` at a time. `send` sends a load and settles its outcome."""

    def __init__(
        self, gathering: Gathering[Load], send: Callable[[Load], Awaitable[None]], *, name: str, at_once: int = 1
    ) -> None:
        self._gathering = gathering
        self._send = send
        self._name = name
        self._at_once = at_once
        self._sending = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.changed = AsyncCondition()
        """Callers wait on this for room, for outcomes, and for the end."""

    @property
    def alarmed(self) -> bool:
        """Whether a timer is set for the next load."""
        return self._timer is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs inside one of the sender's tasks, and so would wait for itself."""
        return asyncio.current_task() in self._tasks

    def stir(self) -> None:
        """Start sending due loads, up to `at_once`, or set the timer for the next one."""
        while self._sending < self._at_once:
            seconds = self._gathering.wait(time.monotonic())
            if seconds != 0:
                self._set_alarm(seconds)
                return
            self._sending += 1
            self._tasks.add(asyncio.create_task(self._carry(self._gathering.take()), name=self._name))

    async def finish(self) -> None:
        """Wait until everything is settled. Cancelling this call only stops the waiting."""
        self.stir()
        while not self._gathering.finished:
            await self.changed.wait()
        await self._end()

    async def cancel(self) -> None:
        """Cancel the loads under way, and send nothing more."""
        for task in self._tasks:
            task.cancel()
        await self._end()

    async def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _set_alarm(self, seconds: float | None) -> None:
        if seconds is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.stir()

    async def _carry(self, load: Load) -> None:
        """The task: send one load after another while any is due."""
        try:
            await self._send(load)
            while (seconds := self._gathering.wait(time.monotonic())) == 0:
                await self._send(self._gathering.take())
        finally:
            self._sending -= 1
            task = asyncio.current_task()
            assert task is not None, "this is a task"
            self._tasks.discard(task)
        self._set_alarm(seconds)
