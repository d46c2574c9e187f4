"""A body, received where it will lie, and nobody is woken before its last byte.

One of known length is received straight from the system into its place (`StraightReceiver`): no parser looks at it, and
nothing is copied on the way. Any other comes piece by piece through the parser, and each piece is copied once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from restante.model.storage.changes import Buffer


class WholeBody:
    """The bytes that have come, and a future that is done when all have, or with the error that ended it.

    The buffer grows with what comes. A length that was only announced takes no memory.
    """

    __slots__ = ("buffer", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.buffer: Buffer = bytearray()
        self.done: asyncio.Future[None] = loop.create_future()

    def take(self, piece: bytes | bytearray) -> None:
        assert isinstance(self.buffer, bytearray), "what is received straight needs no pieces"
        self.buffer += piece

    def finish(self, error: Exception | None = None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            # The error and the frames it came through hold each other, and this, until the collector finds them.
            self.buffer = bytearray()
            self.done.set_exception(error)


class StraightReceiver(asyncio.BufferedProtocol):
    """The protocol of a connection while the rest of a body comes. Whatever else happens is told to the connection.

    It asks the system for the bytes of the body and for no more, so what follows the body is left to the parser.
    """

    def __init__(
        self, connection: asyncio.Protocol, begun: Buffer, length: int, received: Callable[[int, bool], None]
    ) -> None:
        """`received` hears how many bytes have come, and whether they were the last."""
        self._connection = connection
        self._received = received
        # The system gives memory to what is touched: a length that was only announced takes none.
        self.whole = np.empty(length, np.uint8).data
        self.whole[: len(begun)] = begun
        self._rest = self.whole[len(begun) :]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own signature
        return self._rest

    def buffer_updated(self, nbytes: int) -> None:
        self._rest = self._rest[nbytes:]
        self._received(nbytes, not self._rest)

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
