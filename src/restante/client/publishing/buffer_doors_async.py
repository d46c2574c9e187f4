"""The entrance of a buffered producer, for asynchronous programs, and the calling of its callbacks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from restante.client.publishing.buffer import Buffering, Stack
from restante.client.publishing.buffer_bounds import BufferBounds, no_room, not_told
from restante.client.publishing.buffer_intake import BufferAdmission
from restante.client.sending.sender_async import AsyncSender
from restante.client.surface.asynchronous import Hub
from restante.errors import RestanteError
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], Awaitable[None] | None]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], Awaitable[None] | None]

_log = logging.getLogger(__name__)

_CALLS_AT_ONCE = 256
"""After this many calls that did not wait, a call yields to the event loop, or a busy caller would starve the senders."""


class AsyncBufferEntrance:
    """The half of a buffered producer that takes messages in, in the order of the calls."""

    def __init__(self, hub: Hub, bounds: BufferBounds, state: Buffering, sender: AsyncSender[Stack]) -> None:
        self._hub = hub
        self._bounds = bounds
        self._state = state
        self._sender = sender
        self._changed = sender.changed
        self._admission: BufferAdmission | None = None
        self._calls = 0
        self._entrance = asyncio.Lock()
        """Lets waiting callers in, in the order of their calls."""
        self._queued = 0
        """How many callers wait."""

    async def enqueue(self, messages: object, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - has its own error
        """Take a message or a list of them, as a whole, as `send` does. Waits for room, up to `timeout` seconds.

        When it returns, the messages are taken, and a callback will report their outcome. When it raises or is cancelled,
        none of them is taken. The first call asks the hub how many partitions it has.

        ```python
        await producer.enqueue({"recipient": "alice", "text": "hello"})
        ```
        """
        self._calls += 1
        admission = self._admission
        waits = self._queued or not self._calls % _CALLS_AT_ONCE
        if waits or admission is None or not self._state.takes(admission.admit(messages)):
            await self._enter(messages, timeout)
        if self._state.due or not self._sender.alarmed:
            self._sender.stir()

    async def _enter(self, messages: object, seconds: float | None) -> None:
        """Take messages in when it is their turn and there is room. A callback does not wait, as it would wait for itself."""
        if self._admission is not None and self._sender.is_current:
            self._state.take_in(self._admission.admit(messages))
            return
        self._queued += 1
        try:
            async with asyncio.timeout(seconds), self._entrance:
                admitted = (self._admission or await self._learn()).admit(messages)
                await asyncio.sleep(0)
                while not self._state.takes(admitted):
                    self._state.hurry()
                    self._sender.stir()
                    await self._changed.wait()
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


async def call_back(callback: Callable[[], object]) -> None:
    """Call a callback, and wait for it if it is asynchronous. Its errors are logged, and have no other effect."""
    try:
        answer = callback()
        if inspect.isawaitable(answer):
            await answer
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        _log.exception("A callback of the buffered producer was cancelled.")
    except Exception:  # noqa: BLE001 - the producer must not suffer from it
        _log.exception("A callback of the buffered producer failed.")
