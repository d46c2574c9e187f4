"""`producer.pipeline()` for asynchronous programs: sends that return at once, carried by a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.publishing.carriers_async import AsyncCarrier
from restante.client.publishing.pipeline_core import Outcome, Pipelining
from restante.client.transport.exchange import Dialogue, LinkFrame, Step
from restante.errors import RestanteError, Unavailable
from restante.model.mailboxes.answers import Receipt


class Pipeline:
    """Sends without waiting for each. Use it in an `async with` statement, or close it."""

    def __init__(self, carrier: AsyncCarrier) -> None:
        self._carrier = carrier
        self._loop = asyncio.get_running_loop()
        self._state: Pipelining[asyncio.Future[Receipt]] = Pipelining(self._keep, carrier.identify)
        self._kept: list[tuple[asyncio.Future[Receipt], Outcome]] = []
        self._wanted = asyncio.Event()
        self._progress = asyncio.Event()
        self._task = asyncio.create_task(self._carry(), name="restante-pipeline")

    def __repr__(self) -> str:
        return f"<Pipeline: {self._state.sent} sends, {self._state.answered} of them answered>"

    def send(self, messages: object, *, batch: BatchName | None = None) -> asyncio.Future[Receipt]:
        """Send a message, or a list of them that is stored together. Too much under way is an error: see `room`.

        ```python
        future = pipeline.send({"recipient": "alice", "text": "hello"})
        ```
        """
        batch_id = batch_id_of(batch)
        promise: asyncio.Future[Receipt] = self._loop.create_future()
        self._state.add(messages, promise, batch_id)
        self._wanted.set()
        return promise

    async def room(self) -> None:
        """Wait until there is room for more.

        ```python
        await pipeline.room()
        ```
        """
        while self._state.full and not self._state.closed:
            await self._progress.wait()

    async def flush(self) -> None:
        """Wait until all that was sent so far has been answered. What came of it is in the futures.

        ```python
        await pipeline.flush()
        ```
        """
        upto = self._state.sent
        while self._state.answered < upto:
            await self._progress.wait()

    async def close(self) -> None:
        """Wait for all answers, and let go of the connection.

        ```python
        await pipeline.close()
        ```
        """
        self._state.closed = True
        self._wanted.set()
        # Who is cancelled here has only stopped waiting: the answers still come.
        await asyncio.shield(self._task)

    async def abort(self) -> None:
        """Let go at once: what has not been answered fails. It may have been stored.

        ```python
        await pipeline.abort()
        ```
        """
        self._state.closed = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception):
            await self.close()
        else:
            await self.abort()

    async def _carry(self) -> None:
        """The task: one frame after another, until the pipeline is closed and everything answered."""
        try:
            while not (self._state.closed and self._state.idle):
                await self._wanted.wait()
                self._wanted.clear()
                await self._run(self._state.carrying(self._carrier.deliver))
        finally:
            self._state.closed = True
            self._state.abandon(Unavailable("The pipeline was closed before the hub had answered."))
            self._tell()
            await self._carrier.close()

    async def _run(self, dialogue: Dialogue[None]) -> None:
        proceed: Callable[[], Step] = partial(next, dialogue)
        while True:
            try:
                step = proceed()
            except StopIteration:
                self._tell()
                return
            if not isinstance(step, LinkFrame):
                self._tell()
            try:
                proceed = partial(dialogue.send, await self._carrier.perform(step, self._meanwhile))
            except RestanteError as error:
                proceed = partial(dialogue.throw, error)

    def _meanwhile(self) -> None:
        """While a frame is under way: tell the senders of the last one, and prepare the next."""
        self._tell()
        self._state.prepare(self._carrier.encode)

    def _tell(self) -> None:
        """Keep promises, and wake whoever waits for progress; who waits again waits for the next."""
        kept, self._kept = self._kept, []
        for promise, outcome in kept:
            if promise.done():
                continue
            if isinstance(outcome, RestanteError):
                promise.set_exception(outcome)
            else:
                promise.set_result(outcome)
        told, self._progress = self._progress, asyncio.Event()
        told.set()

    def _keep(self, promise: asyncio.Future[Receipt], outcome: Outcome) -> None:
        self._kept.append((promise, outcome))
