"""`batch.acknowledging()` for asynchronous programs: items added one by one, acknowledged by a task."""

from __future__ import annotations

# sync: import threading
# async only
import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from restante.calls.batches import AcknowledgeItems
from restante.client.batches.acknowledger import Outbox
from restante.client.batches.batch_items import Items
from restante.client.concurrency.condition_async import AsyncCondition
from restante.client.transport.link import AsyncLink
from restante.errors import Internal, RestanteError
from restante.model.batches.batch_answers import CompleteBatch, ItemRange


class Acknowledger:
    """For workers that finish items one by one. Use it in an `async with` statement, or close it.

    Calls may come from any task of one event loop. What is added goes out within about 10 ms, together with what came
    meanwhile. An error is raised by the next call, or on leaving; nothing is lost by it: what it concerns is sent again
    after it was raised. Leaving the statement sends what is left, also by an exception, for what is done is done; by
    a cancellation it is dropped, and so stays pending.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
        self._state = Outbox()
        self._changed = AsyncCondition()
        # sync: self._thread = threading.Thread(target=self._carry, name="restante-acknowledger", daemon=True)
        # sync: self._thread.start()
        # async only
        self._task = asyncio.create_task(self._carry(), name="restante-acknowledger")

    @property
    def acknowledged(self) -> int:
        """How many items were pending until they were acknowledged here."""
        return self._state.acknowledged

    @property
    def complete(self) -> tuple[CompleteBatch, ...]:
        """The batches that were found complete, each once."""
        with self._changed:
            return self._state.complete

    @property
    def unknown(self) -> tuple[str | ItemRange, ...]:
        """The last 10,000 that the hub did not know."""
        with self._changed:
            return self._state.unknown

    def __repr__(self) -> str:
        return f"<Acknowledger: {self.acknowledged} items acknowledged>"

    async def add(self, item: str | ItemRange | Items) -> None:
        """Acknowledge an item soon. Waits only while too much is under way. When it raises, the item is not taken.

        ```python
        async with batch.acknowledging() as done:
            await done.add(item_id)
        ```
        """
        with self._changed:
            if not self._state.ready:
                await self._changed.wait_for(lambda: not self._state.full or self._state.error or self._state.closed)
                self._check()
            if self._state.put(item, time.monotonic()):
                self._changed.notify_all()

    async def flush(self) -> None:
        """Wait until all that was added so far is acknowledged.

        ```python
        await done.flush()
        ```
        """
        with self._changed:
            self._check()
            upto = self._state.hurry()
            self._changed.notify_all()
            while self._state.settled < upto:
                await self._changed.wait()
                self._check()

    async def close(self) -> None:
        """Acknowledge what is left, and let go.

        ```python
        await done.close()
        ```
        """
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
            self._changed.notify_all()
            raise

    async def _stop(self) -> None:
        with self._changed:
            self._state.close()
            self._changed.notify_all()
        # sync: self._thread.join()
        # async only
        self._task.cancel()
        # async only
        await asyncio.wait((self._task,))

    async def _carry(self) -> None:
        """The task: one call after another, until the acknowledger is closed."""
        while (call := await self._next()) is not None:
            try:
                answer = await self._link.call(call)
            except RestanteError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - whoever adds is told
                self._fail(Internal(f"The acknowledger failed: {error!r}."))
            else:
                with self._changed:
                    self._state.settle(answer)
                    self._changed.notify_all()

    def _fail(self, error: RestanteError) -> None:
        with self._changed:
            self._state.fail(error)
            self._changed.notify_all()

    async def _next(self) -> AcknowledgeItems | None:
        """The next call, as soon as it is due; None when nothing will be any more."""
        with self._changed:
            while not self._state.closed:
                seconds = self._state.wait(time.monotonic())
                if seconds == 0:
                    return self._state.take()
                await self._changed.wait(seconds)
            return None
