"""A body of known length, received where it will lie: each piece is copied once, and nobody is woken before the last."""

from __future__ import annotations

import asyncio


class WholeBody:
    """The bytes that have come, and a future that is done when all have, or with the error that ended it.

    The buffer grows with what comes. A length that was only announced takes no memory.
    """

    __slots__ = ("buffer", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.buffer = bytearray()
        self.done: asyncio.Future[None] = loop.create_future()

    def take(self, piece: bytes | bytearray) -> None:
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
