"""`CallLine`: the way to one shard, on which calls are carried as values."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import Any, Protocol

from restante.calls.call import Answer, Call
from restante.cluster.call_frames import FrameConnection, FrameKind
from restante.cluster.call_values import decode_answer, decode_error, encode_call
from restante.cluster.places import LinePlace
from restante.errors import OutcomeUnknown, Unavailable
from restante.model.access.access import EVERYTHING, Grant


class Hearer(Protocol):
    """Receives the answer to a call that it made, without a task that waits."""

    def heard(self, kind: FrameKind, content: bytes) -> None:
        """The answer, or the problem."""

    def lost(self) -> None:
        """The shard ended before it answered."""


class _Questions(FrameConnection):
    """One connection; those who asked wait for their answers."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, asyncio.Future[tuple[FrameKind, bytes]]] = {}
        self._hearing: dict[int, Hearer] = {}
        self._numbers = count(1)
        self.ended = False

    def ask(self, content: bytes) -> asyncio.Future[tuple[FrameKind, bytes]]:
        number = next(self._numbers)
        future: asyncio.Future[tuple[FrameKind, bytes]] = self._loop.create_future()
        self.waiting[number] = future
        future.add_done_callback(partial(self._done, number))
        self.put(number, FrameKind.CALL, content)
        return future

    def _done(self, number: int, future: asyncio.Future[tuple[FrameKind, bytes]]) -> None:
        self.waiting.pop(number, None)
        if future.cancelled() and not self.ended:
            self.put(number, FrameKind.CANCEL, b"")

    def ask_for(self, hearer: Hearer, content: bytes) -> None:
        number = next(self._numbers)
        self._hearing[number] = hearer
        self.put(number, FrameKind.CALL, content)

    def took(self, number: int, kind: FrameKind, content: bytes) -> None:
        hearer = self._hearing.pop(number, None)
        if hearer is not None:
            hearer.heard(kind, content)
            return
        future = self.waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result((kind, content))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        self.ended = True
        hearing, self._hearing = self._hearing, {}
        for hearer in hearing.values():
            hearer.lost()
        for future in list(self.waiting.values()):
            if not future.done():
                future.set_exception(ConnectionError())


class CallLine:
    """The way to one shard: a connection that is made when it is needed, and again after it was lost. Used in one event loop."""

    def __init__(self, place: LinePlace, name: str) -> None:
        self.place = place
        self.name = name
        """The name of the shard in errors."""
        self._connection: _Questions | None = None
        self._opening = asyncio.Lock()

    async def call(self, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        """Have a call answered; the error that it met, or `OutcomeUnknown` if the shard ended meanwhile."""
        connection = await self._open()
        try:
            kind, content = await connection.ask(encode_call(call, caller))
        except ConnectionError as error:
            raise OutcomeUnknown(f"{self.name} ended before it answered. It may have been carried out.") from error
        if kind is FrameKind.PROBLEM:
            raise decode_error(content)
        return decode_answer(call, content)

    def ask_for(self, hearer: Hearer, call: Call[Any], caller: Grant) -> bool:
        """Ask, and have the answer told; False, and nothing is done, if no connection is there at the moment."""
        connection = self._connection
        if connection is None or connection.ended:
            return False
        connection.ask_for(hearer, encode_call(call, caller))
        return True

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, so that the next call leaves at once, after those before it."""
        return self._connection is not None and not self._connection.ended

    async def _open(self) -> _Questions:
        found = self._connection
        if found is not None and not found.ended:
            return found
        async with self._opening:
            if self._connection is None or self._connection.ended:
                self._connection = await self._connected()
            return self._connection

    async def _connected(self) -> _Questions:
        try:
            return await self.place.connect(_Questions)
        except OSError as error:
            raise Unavailable(f"{self.name} does not answer ({error.strerror or error}). Try again.") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
