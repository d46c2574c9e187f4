"""The entrance of a buffered producer, for programs that wait, and the calling of its callbacks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from restante.client.publishing.buffer import Buffering, Stack
from restante.client.publishing.buffer_bounds import BufferBounds, no_room
from restante.client.publishing.buffer_intake import Admitted, BufferAdmission
from restante.client.sending.sender_sync import Sender
from restante.client.surface.sync import Hub
from restante.errors import RestanteError
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], object]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], object]

_log = logging.getLogger(__name__)


class BufferEntrance:
    """The half of a buffered producer that takes messages in, in the order of the calls."""

    def __init__(self, hub: Hub, bounds: BufferBounds, state: Buffering, sender: Sender[Stack]) -> None:
        self._hub = hub
        self._bounds = bounds
        self._state = state
        self._sender = sender
        self._changed = sender.changed
        self._admission: BufferAdmission | None = None
        self._asking = threading.Lock()
        self._queue: deque[Admitted] = deque()
        """The messages that wait for room, in the order of the calls."""

    def enqueue(self, messages: object, *, timeout: float | None = None) -> None:
        """Take a message or a list of them, as a whole, as `send` does. Waits for room, up to `timeout` seconds.

        When it returns, the messages are taken, and a callback will report their outcome. When it raises, none of them is
        taken. The first call asks the hub how many partitions it has, however long that takes.

        ```python
        producer.enqueue({"recipient": "alice", "text": "hello"})
        ```
        """
        admitted = (self._admission or self._learn()).admit(messages)
        state, sender = self._state, self._sender
        with sender.lock:
            if self._queue or not state.takes(admitted):
                self._wait_for_room(admitted, timeout)
            if state.due or not sender.alarmed:
                sender.stir()

    def _learn(self) -> BufferAdmission:
        """Ask the hub how many partitions it has, once."""
        self._state.check_open()
        with self._asking:
            if self._admission is None:
                self._admission = BufferAdmission(len(self._hub.partitions()), self._bounds)
        return self._admission

    def _wait_for_room(self, admitted: Admitted, timeout: float | None) -> None:
        if self._sender.is_current:
            # A callback would wait for itself.
            self._state.take_in(admitted)
            return
        self._queue.append(admitted)
        try:
            if not self._changed.wait_for(lambda: self._lets_in(admitted), timeout):
                raise no_room(self._state.messages, timeout)
        finally:
            self._queue.remove(admitted)
            self._changed.notify_all()

    def _lets_in(self, admitted: Admitted) -> bool:
        """Take messages in if it is their turn and there is room; return whether they were. Without room, send everything now."""
        if self._queue[0] is not admitted:
            return False
        if self._state.takes(admitted):
            return True
        self._state.hurry()
        self._sender.stir()
        return False


def call_back(callback: Callable[[], object]) -> None:
    """Call a callback. Its errors are logged, and have no other effect."""
    try:
        callback()
    except BaseException:  # noqa: BLE001 - not even an exit may end this thread: others depend on it
        _log.exception("A callback of the buffered producer failed.")
