# Generated from `buffer_carrier_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""Sending the gathered messages of a buffered producer, for programs that wait: threads carry the parcels."""

from __future__ import annotations

import time
from functools import partial

from restante.client.producers.producer_sync import ProducerClient
from restante.client.publishing.buffer import Buffering, Stack, Told, is_rebuilt, is_settled, parcel_of
from restante.client.publishing.buffer_bounds import (
    BufferBounds,
    broken,
    from_callback,
    log_failure,
    still_sending,
)
from restante.client.publishing.buffer_doors_sync import BufferEntrance, OnError, OnSuccess, call_back
from restante.client.publishing.parcel import Parcel
from restante.client.sending.sender_sync import Sender
from restante.client.surface.sync import Hub
from restante.errors import InvalidOperation, RestanteError


class BufferCarrier(BufferEntrance):
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
        sender = Sender(state, self._deliver, name="restante-buffered", at_once=bounds.max_concurrent_sends)
        super().__init__(hub, bounds, state, sender)
        self._producer = producer
        self._owns_hub = owns_hub
        self._batch = batch
        self._on_success = on_success
        self._on_error = on_error

    def __repr__(self) -> str:
        return f"<BufferedProducer: {self.buffered_count()} messages not told of yet>"

    def flush(self, timeout: float | None = None) -> None:
        """Send everything without waiting for more, and wait until callbacks were told about all messages enqueued before.

        ```python
        producer.flush(timeout=10)
        ```
        """
        self._check_outside("flush")
        with self._changed:
            self._state.check_open()
            places = self._state.flushing()
            self._sender.stir()
            if not self._changed.wait_for(lambda: is_settled(places), timeout):
                raise still_sending(self._state.unsettled, timeout)

    def close(self, *, flush: bool = True) -> None:
        """Send the remaining messages, or with `flush=False` give them to `on_error`; then close all connections.

        Sends under way are always waited for.

        ```python
        producer.close()
        ```
        """
        self._check_outside("close")
        with self._changed:
            self._state.close(flush=flush)
            self._changed.notify_all()
            self._sender.stir()
        if not flush:
            # This ends the pauses between attempts.
            self._producer.close()
        self._sender.finish()
        self._producer.close()
        if self._owns_hub:
            self._hub.close()

    def buffered_count(self, partition: int | None = None) -> int:
        """How many messages were taken and have no reported outcome yet, in total or for one partition.

        ```python
        print(producer.buffered_count())
        ```
        """
        with self._changed:
            return self._state.count(partition)

    def _deliver(self, stack: Stack) -> None:
        self._conclude(stack, self._send(stack))

    def _conclude(self, stack: Stack, error: RestanteError | None) -> None:
        with self._changed:
            told = self._state.conclude(stack, error)
            self._changed.notify_all()
        try:
            self._tell(told)
        finally:
            with self._changed:
                self._state.settle(stack)
                self._changed.notify_all()

    def _send(self, stack: Stack) -> RestanteError | None:
        """Send a stack; return why it was not stored, or None. The producer has retried as long as it may."""
        while stack.failing is None:
            try:
                self._producer.send_parcel(self._parcel(stack))
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

    def _parcel(self, stack: Stack) -> Parcel:
        return parcel_of(stack, self._batch)

    def _tell(self, told: Told) -> None:
        messages, partition, error = told
        if error is None:
            if self._on_success is not None:
                call_back(partial(self._on_success, messages, partition))
        elif self._on_error is not None:
            call_back(partial(self._on_error, messages, partition, error))
        else:
            log_failure(len(messages), partition, error)

    def _check_outside(self, what: str) -> None:
        if self._sender.is_current:
            raise from_callback(what)
