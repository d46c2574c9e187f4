"""A body of known length, received where it will lie: each piece is copied once, and nobody is woken before the last."""

from __future__ import annotations

import asyncio


class WholeBody:
    """The bytes that have come, and a future that is done when all have, or with the error that ended it."""

    __slots__ = ("_size", "buffer", "done")

    def __init__(self, length: int, loop: asyncio.AbstractEventLoop) -> None:
        self.buffer = bytearray(length)
        self.done: asyncio.Future[None] = loop.create_future()
        self._size = 0

    def take(self, piece: bytes | bytearray) -> None:
        end = self._size + len(piece)
        self.buffer[self._size : end] = piece
        self._size = end

    def finish(self, error: Exception | None = None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
