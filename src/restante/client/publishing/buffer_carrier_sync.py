"""Gathering single messages into parcels, for programs that wait: parcels are carried by threads.

Of the threads that have nothing to send, one watches: it sleeps until something is due. When it goes to send, another
takes its place, one that rests, or a new one as long as there may be more sends. So each parcel wakes one thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from restante.client.producers.producer_sync import ProducerClient
from restante.client.publishing.buffer import Buffering, Stack, Told, is_rebuilt, is_settled, parcel_of
from restante.client.publishing.buffer_bounds import BufferBounds
from restante.client.publishing.buffer_errors import broken, from_callback, log_failure, no_room, still_sending
from restante.client.publishing.buffer_intake import Admitted, BufferAdmission
from restante.client.surface.sync import Hub
from restante.errors import InvalidOperation, RestanteError
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], object]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], object]

_log = logging.getLogger(__name__)


class BufferCarrier:
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
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self._due = threading.Condition(self._lock)
        """The thread that watches waits for it."""
        self._relief = threading.Condition(self._lock)
        """The threads that rest wait for it."""
        self._progress = threading.Condition(self._lock)
        """Whoever enqueues, flushes or closes waits for it."""
        self._watched = self._alarmed = False
        """A thread watches; and it will wake up by itself."""
        self._resting = 0
        self._queue: deque[Admitted] = deque()
        """What waits for room, in the order of the calls."""
        self._threads: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"<BufferedProducer: {self.buffered_count()} messages not told of yet>"

    def enqueue(self, messages: object, *, timeout: float | None = None) -> None:
        """Take a message, or a list of them, as a whole; waits until there is room, `timeout` seconds at most.

        When it returns, the messages are taken, and a callback will tell what became of them. When it raises, none of
        them is. The first call asks the hub how many partitions it has, however long that takes.

        ```python
        producer.enqueue({"recipient": "alice", "text": "hello"})
        ```
        """
        admitted = (self._admission or self._learn()).admit(messages)
        state = self._state
        with self._lock:
            if self._queue or not state.takes(admitted):
                self._wait_for_room(admitted, timeout)
            if state.due or not self._alarmed:
                self._stir()

    def flush(self, timeout: float | None = None) -> None:
        """Send all without waiting for more, and wait until what was enqueued before has been told to the callbacks.

        ```python
        producer.flush(timeout=10)
        ```
        """
        self._check_outside("flush")
        with self._lock:
            self._state.check_open()
            places = self._state.flushing()
            self._stir()
            if not self._progress.wait_for(lambda: is_settled(places), timeout):
                raise still_sending(self._state.unsettled, timeout)

    def close(self, *, flush: bool = True) -> None:
        """Send what is left, or with `flush=False` give it to `on_error`; then let go of everything.

        What is under way is waited for in any case.

        ```python
        producer.close()
        ```
        """
        self._check_outside("close")
        with self._lock:
            self._state.close(flush=flush)
            self._progress.notify_all()
            self._stir()
        if not flush:
            # Ends the pauses between attempts.
            self._producer.close()
        with self._lock:
            self._progress.wait_for(lambda: self._state.finished)
            self._due.notify_all()
            self._relief.notify_all()
        for thread in self._threads:
            thread.join()
        self._producer.close()
        if self._owns_hub:
            self._hub.close()

    def buffered_count(self, partition: int | None = None) -> int:
        """How many messages were taken whose outcome has not been told yet, in all or for one partition.

        ```python
        print(producer.buffered_count())
        ```
        """
        with self._lock:
            return self._state.count(partition)

    def _learn(self) -> BufferAdmission:
        """Ask the hub how many partitions it has, once."""
        self._state.check_open()
        with self._asking:
            if self._admission is None:
                self._admission = BufferAdmission(len(self._hub.partitions()), self._bounds)
        return self._admission

    def _wait_for_room(self, admitted: Admitted, timeout: float | None) -> None:
        if threading.current_thread() in self._threads:
            # A callback would wait for itself.
            self._state.take_in(admitted)
            return
        self._queue.append(admitted)
        try:
            if not self._progress.wait_for(lambda: self._lets_in(admitted), timeout):
                raise no_room(self._state.messages, timeout)
        finally:
            self._queue.remove(admitted)
            self._progress.notify_all()

    def _lets_in(self, admitted: Admitted) -> bool:
        """Whether it was the turn of these, and there was room. If there is none, nothing waits for more."""
        if self._queue[0] is not admitted:
            return False
        if self._state.takes(admitted):
            return True
        self._state.hurry()
        self._stir()
        return False

    def _stir(self) -> None:
        """Wake the thread that watches, or begin one, if there may be more."""
        if self._watched:
            self._due.notify()
        elif self._resting:
            self._relief.notify()
        elif self._state.unsettled and len(self._threads) < self._bounds.max_concurrent_sends:
            thread = threading.Thread(target=self._carry, name="restante-buffered", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _carry(self) -> None:
        """The thread: one stack after another, until the producer is closed and everything told."""
        while (stack := self._next()) is not None:
            error = self._send(stack)
            with self._lock:
                told = self._state.conclude(stack, error)
                self._progress.notify_all()
            self._tell(told)
            with self._lock:
                self._state.settle(stack)
                self._progress.notify_all()

    def _next(self) -> Stack | None:
        """The next stack, as soon as one is due; None when nothing will be any more."""
        with self._lock:
            while True:
                self._state.tick()
                stack = self._state.take()
                if stack is not None or self._state.finished:
                    break
                if self._watched:
                    self._rest()
                else:
                    self._watch()
            if not self._watched and (self._state.due or self._state.next_deadline() is not None):
                self._stir()
            return stack

    def _rest(self) -> None:
        self._resting += 1
        self._relief.wait()
        self._resting -= 1

    def _watch(self) -> None:
        deadline = self._state.next_deadline()
        self._watched, self._alarmed = True, deadline is not None
        self._due.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        self._watched = self._alarmed = False

    def _send(self, stack: Stack) -> RestanteError | None:
        """Why it failed, or None. The producer has repeated it while patience lasted."""
        while stack.failing is None:
            try:
                self._producer.send_parcel(parcel_of(stack, self._batch))
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

    def _tell(self, told: Told) -> None:
        """Call a callback. What it raises is its own affair."""
        try:
            if told.error is None:
                if self._on_success is not None:
                    self._on_success(told.messages, told.partition)
            elif self._on_error is not None:
                self._on_error(told.messages, told.partition, told.error)
            else:
                log_failure(len(told.messages), told.partition, told.error)
        except BaseException:  # noqa: BLE001 - not even an exit may end this thread: others depend on it
            _log.exception("A callback of the buffered producer failed.")

    def _check_outside(self, what: str) -> None:
        if threading.current_thread() in self._threads:
            raise from_callback(what)
