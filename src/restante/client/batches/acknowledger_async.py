"""`batch.acknowledging()` for asynchronous programs: items added one by one, acknowledged by a task."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from restante.calls.batches import AcknowledgeItems
from restante.client.batches.acknowledger import Outbox
from restante.client.batches.batch_items import Items
from restante.client.transport.link import AsyncLink
from restante.errors import Internal, RestanteError
from restante.model.batches.batch_answers import CompleteBatch, ItemRange


class Acknowledger:
    """The same as that of `restante.client.batches.acknowledger_sync`, with `await`, for the tasks of one event loop."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
        self._state = Outbox()
        self._wanted = asyncio.Event()
        self._progress = asyncio.Event()
        self._task = asyncio.create_task(self._carry(), name="restante-acknowledger")

    @property
    def acknowledged(self) -> int:
        """How many items were pending until they were acknowledged here."""
        return self._state.acknowledged

    @property
    def complete(self) -> tuple[CompleteBatch, ...]:
        """The batches that were found complete, each once."""
        return self._state.complete

    @property
    def unknown(self) -> tuple[str | ItemRange, ...]:
        """The last 10,000 that the hub did not know."""
        return self._state.unknown

    async def add(self, item: str | ItemRange | Items) -> None:
        """Acknowledge an item soon. Waits only while too much is under way. When it raises, the item is not taken."""
        if not self._state.ready:
            while self._state.full and self._state.error is None and not self._state.closed:
                await self._progress.wait()
            self._check()
        if self._state.put(item, time.monotonic()):
            self._wanted.set()

    async def flush(self) -> None:
        """Wait until all that was added so far is acknowledged."""
        self._check()
        upto = self._state.hurry()
        self._wanted.set()
        while self._state.settled < upto:
            await self._progress.wait()
            self._check()

    async def close(self) -> None:
        """Acknowledge what is left, and let go."""
        try:
            if not self._state.closed:
                await self.flush()
        finally:
            await self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            # What went wrong first is what is told.
            with suppress(RestanteError):
                await self.close()
        else:
            await self._stop()

    def _check(self) -> None:
        """Tell what went wrong; after that it is tried again."""
        try:
            self._state.check()
        except RestanteError:
            self._wanted.set()
            raise

    async def _stop(self) -> None:
        self._state.close()
        self._task.cancel()
        self._advance()
        await asyncio.wait((self._task,))

    async def _carry(self) -> None:
        """The task: one call after another, until the acknowledger is closed."""
        while True:
            call = await self._next()
            try:
                self._state.settle(await self._link.call(call))
            except RestanteError as error:
                self._state.fail(error)
            except Exception as error:  # noqa: BLE001 - whoever adds is told
                self._state.fail(Internal(f"The acknowledger failed: {error!r}."))
            self._advance()

    async def _next(self) -> AcknowledgeItems:
        """The next call, as soon as it is due."""
        while True:
            self._wanted.clear()
            seconds = self._state.wait(time.monotonic())
            if seconds == 0:
                return self._state.take()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wanted.wait()

    def _advance(self) -> None:
        """Wake whoever waits for progress; who waits again waits for the next."""
        told, self._progress = self._progress, asyncio.Event()
        told.set()
