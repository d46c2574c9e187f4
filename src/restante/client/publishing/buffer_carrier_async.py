"""Sending the gathered messages of a buffered producer, for asynchronous programs: tasks carry the parcels."""

from __future__ import annotations

# async only
import asyncio
import time
from functools import partial

from restante.client.producers.producer_async import ProducerClient
from restante.client.publishing.buffer import Buffering, Stack, Told, is_rebuilt, is_settled, parcel_of
from restante.client.publishing.buffer_bounds import (
    BufferBounds,
    broken,
    cut_off,
    from_callback,
    log_failure,
    still_sending,
)
from restante.client.publishing.buffer_doors_async import AsyncBufferEntrance, OnError, OnSuccess, call_back
from restante.client.publishing.parcel import Parcel
from restante.client.sending.sender_async import AsyncSender
from restante.client.surface.asynchronous import Hub
from restante.errors import InvalidOperation, RestanteError
from restante.model.publishing.few_or_many import Many, few_or_many


class AsyncBufferCarrier(AsyncBufferEntrance):
    """Takes messages in, carries parcels to the hub, and calls the callbacks."""

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
        state = Buffering(bounds, time.monotonic)
        sender = AsyncSender(state, self._deliver, name="restante-buffered", at_once=bounds.max_concurrent_sends)
        super().__init__(hub, bounds, state, sender)
        self._producer = producer
        self._owns_hub = owns_hub
        self._batch = batch
        self._on_success = on_success
        self._on_error = on_error

    def __repr__(self) -> str:
        return f"<BufferedProducer: {self.buffered_count()} messages not told of yet>"

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - has its own error
        """Send everything without waiting for more, and wait until callbacks were told about all messages enqueued before.

        ```python
        await producer.flush(timeout=10)
        ```
        """
        self._check_outside("flush")
        with self._changed:
            self._state.check_open()
            places = self._state.flushing()
            self._sender.stir()
            if not await self._changed.wait_for(lambda: is_settled(places), timeout):
                raise still_sending(self._state.unsettled, timeout)

    async def close(self, *, flush: bool = True) -> None:
        """Send the remaining messages, or with `flush=False` give them to `on_error`; then close all connections.

        Sends under way are always waited for. A call that is cancelled has only stopped waiting: close it again.

        ```python
        await producer.close()
        ```
        """
        self._check_outside("close")
        with self._changed:
            self._state.close(flush=flush)
            self._changed.notify_all()
            self._sender.stir()
        if not flush:
            # This ends the pauses between attempts.
            await self._producer.close()
        await self._sender.finish()
        await self._producer.close()
        if self._owns_hub:
            await self._hub.close()

    def buffered_count(self, partition: int | None = None) -> int:
        """How many messages were taken and have no reported outcome yet, in total or for one partition.

        ```python
        print(producer.buffered_count())
        ```
        """
        with self._changed:
            return self._state.count(partition)

    async def _deliver(self, stack: Stack) -> None:
        # sync: self._conclude(stack, self._send(stack))
        # async only
        try:
            error = await self._send(stack)
        except asyncio.CancelledError:
            await self._conclude(stack, cut_off())
            raise
        # async only
        await self._conclude(stack, error)

    async def _conclude(self, stack: Stack, error: RestanteError | None) -> None:
        with self._changed:
            told = self._state.conclude(stack, error)
            self._changed.notify_all()
        try:
            await self._tell(told)
        finally:
            with self._changed:
                self._state.settle(stack)
                self._changed.notify_all()

    async def _send(self, stack: Stack) -> RestanteError | None:
        """Send a stack; return why it was not stored, or None. The producer has retried as long as it may."""
        while stack.failing is None:
            try:
                await self._producer.send_parcel(await self._parcel(stack))
            except InvalidOperation as error:
                if not is_rebuilt(stack):
                    return self._state.dropping or error
            except RestanteError as error:
                return error
            except Exception as error:  # noqa: BLE001 - other stacks must not suffer from it
                return broken(error)
            else:
                return None
        return stack.failing

    async def _parcel(self, stack: Stack) -> Parcel:
        # async only; many messages are given their ids in a thread, while the event loop goes on
        if isinstance(few_or_many(stack.messages), Many):
            return await asyncio.to_thread(parcel_of, stack, self._batch)
        return parcel_of(stack, self._batch)

    async def _tell(self, told: Told) -> None:
        messages, partition, error = told
        if error is None:
            if self._on_success is not None:
                await call_back(partial(self._on_success, messages, partition))
        elif self._on_error is not None:
            await call_back(partial(self._on_error, messages, partition, error))
        else:
            log_failure(len(messages), partition, error)

    def _check_outside(self, what: str) -> None:
        if self._sender.is_current:
            raise from_callback(what)
