"""Receiving a large body into one buffer, without waking the application before its last byte.

A body of known length is received from the system straight into its buffer (`StraightReceiver`), without the parser and
without a copy. Any other comes piece by piece through the parser, and each piece is copied once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from restante.model.storage.changes import Buffer


class WholeBody:
    """The received bytes, and a future that is done when all have come, or with the error that ended the body.

    The buffer grows with the received bytes. An announced length alone takes no memory.
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
            # The error's traceback keeps this object until a garbage collection, so do not let it keep the bytes.
            self.buffer = bytearray()
            self.done.set_exception(error)


class StraightReceiver(asyncio.BufferedProtocol):
    """The protocol of a connection while the rest of a body is received. Other events are passed to the connection.

    It reads no more than the bytes of the body from the system, so what follows is left to the parser.
    """

    def __init__(
        self, connection: asyncio.Protocol, begun: Buffer, length: int, received: Callable[[int, bool], None]
    ) -> None:
        """`received` is called with the number of received bytes, and whether they were the last."""
        self._connection = connection
        self._received = received
        # The system only provides memory that is touched, so an announced length alone takes none.
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
