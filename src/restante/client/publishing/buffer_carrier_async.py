"""Gathering single messages into parcels, for asynchronous programs: parcels are carried by tasks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from restante.client.producers.producer_async import ProducerClient
from restante.client.publishing.buffer import Buffering, Stack, Told, is_rebuilt, is_settled, parcel_of
from restante.client.publishing.buffer_bounds import BufferBounds
from restante.client.publishing.buffer_errors import (
    broken,
    cut_off,
    from_callback,
    log_failure,
    no_room,
    not_told,
    still_sending,
)
from restante.client.publishing.buffer_intake import BufferAdmission
from restante.client.publishing.parcel import Parcel
from restante.client.surface.asynchronous import Hub
from restante.errors import InvalidOperation, RestanteError
from restante.model.publishing.few_or_many import Few, few_or_many
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], Awaitable[None] | None]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], Awaitable[None] | None]

_log = logging.getLogger(__name__)

_CALLS_AT_ONCE = 256
"""After so many calls that need not wait, the event loop has its turn: a caller in a hurry would starve the senders."""


class AsyncBufferCarrier:
    """What a buffered producer does: takes messages in, and carries them to the hub."""

    def __init__(
        self,
        hub: Hub,
        producer: ProducerClient,
        bounds: BufferBounds,
        *,
        owns_hub: bool,
        batch: str | None,
        on_success: OnSuccess | None,
        on_error: OnError | None,
    ) -> None:
        self._hub = hub
        self._producer = producer
        self._bounds = bounds
        self._owns_hub = owns_hub
        self._batch = batch
        self._on_success = on_success
        self._on_error = on_error
        self._state = Buffering(self._bounds, time.monotonic)
        self._admission: BufferAdmission | None = None
        self._calls = 0
        self._entrance = asyncio.Lock()
        """Those who wait are let in in the order of their calls."""
        self._queued = 0
        """How many wait."""
        self._progress = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._sending = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, messages: Message | Sequence[Message], *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - has its own error
        """Take a message, or a list of them, as a whole; waits until there is room, `timeout` seconds at most.

        When it returns, the messages are taken, and a callback will tell what became of them. When it raises, or is
        cancelled, none of them is. The first call asks the hub how many partitions it has.
        """
        self._calls += 1
        admission = self._admission
        waits = self._queued or not self._calls % _CALLS_AT_ONCE
        if waits or admission is None or not self._state.takes(admission.admit(messages)):
            await self._enter(messages, timeout)
        if self._state.due or self._timer is None:
            self._stir()

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - has its own error
        """Send all without waiting for more, and wait until what was enqueued before has been told to the callbacks."""
        self._check_outside("flush")
        self._state.check_open()
        places = self._state.flushing()
        self._stir()
        try:
            async with asyncio.timeout(timeout):
                while not is_settled(places):
                    await self._progress.wait()
        except TimeoutError as error:
            raise still_sending(self._state.unsettled, timeout) from error

    async def close(self, *, flush: bool = True) -> None:
        """Send what is left, or with `flush=False` give it to `on_error`; then let go of everything.

        What is under way is waited for in any case. Who is cancelled here has only stopped waiting: close it again.
        """
        self._check_outside("close")
        self._state.close(flush=flush)
        self._advance()
        self._stir()
        if not flush:
            # Ends the pauses between attempts.
            await self._producer.close()
        while not self._state.finished:
            await self._progress.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._producer.close()
        if self._owns_hub:
            await self._hub.close()

    def buffered_count(self, partition: int | None = None) -> int:
        """How many messages were taken whose outcome has not been told yet, in all or for one partition."""
        return self._state.count(partition)

    async def _enter(self, messages: object, seconds: float | None) -> None:
        """Take messages in when their turn has come and there is room. A callback would wait for itself."""
        if self._admission is not None and asyncio.current_task() in self._tasks:
            self._state.take_in(self._admission.admit(messages))
            return
        self._queued += 1
        try:
            async with asyncio.timeout(seconds), self._entrance:
                admitted = (self._admission or await self._learn()).admit(messages)
                await asyncio.sleep(0)
                while not self._state.takes(admitted):
                    self._state.hurry()
                    self._stir()
                    await self._progress.wait()
        except TimeoutError as error:
            known = self._admission is not None
            raise (no_room(self._state.messages, seconds) if known else not_told(seconds)) from error
        finally:
            self._queued -= 1

    async def _learn(self) -> BufferAdmission:
        """Ask the hub how many partitions it has, once."""
        self._state.check_open()
        self._admission = BufferAdmission(len(await self._hub.partitions()), self._bounds)
        return self._admission

    def _stir(self) -> None:
        """Send what is due, as far as there may be more sends, and wake up when the next tray will be due."""
        while self._sending < self._bounds.max_concurrent_sends and (stack := self._state.take()) is not None:
            self._sending += 1
            task = asyncio.create_task(self._carry(stack), name="restante-buffered")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._timer is None and (deadline := self._state.next_deadline()) is not None:
            self._timer = asyncio.get_running_loop().call_later(max(deadline - time.monotonic(), 0), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._state.tick()
        self._stir()

    async def _carry(self, stack: Stack) -> None:
        """The task: one stack after another, as long as any is due."""
        try:
            following: Stack | None = stack
            while following is not None:
                await self._deliver(following)
                following = self._state.take()
        finally:
            self._sending -= 1

    async def _deliver(self, stack: Stack) -> None:
        try:
            error = await self._send(stack)
        except asyncio.CancelledError:
            await self._conclude(stack, cut_off())
            raise
        await self._conclude(stack, error)

    async def _conclude(self, stack: Stack, error: RestanteError | None) -> None:
        told = self._state.conclude(stack, error)
        self._advance()
        try:
            await self._tell(told)
        finally:
            self._state.settle(stack)
            self._advance()

    async def _send(self, stack: Stack) -> RestanteError | None:
        """Why it failed, or None. The producer has repeated it while patience lasted."""
        while stack.failing is None:
            try:
                await self._producer.send_parcel(await self._parcel(stack))
            except InvalidOperation as error:
                if not is_rebuilt(stack):
                    return self._state.dropping or error
            except RestanteError as error:
                return error
            except Exception as error:  # noqa: BLE001 - the others are not to suffer from it
                return broken(error)
            else:
                return None
        return stack.failing

    async def _parcel(self, stack: Stack) -> Parcel:
        """Many messages are given their ids in a thread, while the event loop goes on."""
        few = isinstance(few_or_many(stack.messages), Few)
        return parcel_of(stack, self._batch) if few else await asyncio.to_thread(parcel_of, stack, self._batch)

    async def _tell(self, told: Told) -> None:
        """Call a callback. What it raises is its own affair."""
        try:
            answer = self._call_back(told)
            if inspect.isawaitable(answer):
                await answer
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            _log.exception("A callback of the buffered producer was cancelled.")
        except Exception:  # noqa: BLE001 - the producer is not to suffer from it
            _log.exception("A callback of the buffered producer failed.")

    def _call_back(self, told: Told) -> object:
        if told.error is None:
            return self._on_success and self._on_success(told.messages, told.partition)
        if self._on_error is not None:
            return self._on_error(told.messages, told.partition, told.error)
        log_failure(len(told.messages), told.partition, told.error)
        return None

    def _advance(self) -> None:
        """Wake whoever waits for progress; who waits again waits for the next."""
        told, self._progress = self._progress, asyncio.Event()
        told.set()

    def _check_outside(self, what: str) -> None:
        if asyncio.current_task() in self._tasks:
            raise from_callback(what)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
