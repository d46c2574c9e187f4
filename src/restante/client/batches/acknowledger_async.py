"""`batch.acknowledging()` for asynchronous programs: items added one by one, acknowledged by a task."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from restante.calls.batches import AcknowledgeItems
from restante.client.batches.acknowledger import Outbox
from restante.client.batches.batch_items import Items
from restante.client.sending.sender_async import AsyncSender
from restante.client.transport.link import AsyncLink
from restante.errors import Internal, RestanteError
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemRange


class Acknowledger:
    """Acknowledges in the background what workers finish one by one. Use it in an `async with` statement, or close it.

    Calls may come from any task of one event loop. An added item is sent within about 10 ms, together with others that came
    meanwhile. An error is raised by the next call, or on leaving; then the items that it concerns are sent again, so none is
    lost. Leaving the statement sends the rest, also by an exception, for finished work stays finished. Leaving by
    a cancellation drops the rest, which stays pending.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
        self._state = Outbox()
        self._sender = AsyncSender(self._state, self._send, name="restante-acknowledger")
        self._changed = self._sender.changed

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
                self._sender.stir()

    async def flush(self) -> None:
        """Wait until all that was added so far is acknowledged.

        ```python
        await done.flush()
        ```
        """
        with self._changed:
            self._check()
            upto = self._state.hurry()
            self._sender.stir()
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
            # The exception that came first is the one that is raised.
            with suppress(RestanteError):
                await self.close()
        else:
            await self._stop()

    def _check(self) -> None:
        """Raise what went wrong, once; after that it is tried again."""
        try:
            self._state.check()
        except RestanteError:
            self._sender.stir()
            raise

    async def _stop(self) -> None:
        with self._changed:
            self._state.close()
            self._changed.notify_all()
        # sync: self._sender.finish()
        # async only
        await self._sender.cancel()

    async def _send(self, call: AcknowledgeItems) -> None:
        try:
            outcome: Acknowledged | RestanteError = await self._link.call(call)
        except RestanteError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - raised to the callers that add
            outcome = Internal(f"The acknowledger failed: {error!r}.")
        with self._changed:
            if isinstance(outcome, RestanteError):
                self._state.fail(outcome)
            else:
                self._state.settle(outcome)
            self._changed.notify_all()
