"""Frames between two processes of a hub: how each is laid out, and `FrameConnection`, one socket with many calls under way.

A frame is a length, a number that pairs question and answer, a kind, and the content.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import cast

from restante.errors import InvalidRequest, RestanteError
from restante.limits import CARRIED_BYTES_MAX

_HEAD = Struct(">IQB")
_BEYOND_LENGTH = _HEAD.size - 4


class FrameKind(IntEnum):
    """The kinds of frames."""

    GREETING = 0
    """The first of a connection: who speaks."""
    CALL = 1
    ANSWER = 2
    PROBLEM = 3
    CANCEL = 4
    """Nobody waits for the answer of a call any more."""


def frame(number: int, kind: FrameKind, content: bytes) -> bytes:
    return _HEAD.pack(len(content) + _BEYOND_LENGTH, number, kind) + content


class FrameReader:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[int, FrameKind, bytes]]:
        """The frames that are whole now."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size:
            length, number, kind = _HEAD.unpack_from(buffer, start)
            if not _BEYOND_LENGTH <= length <= CARRIED_BYTES_MAX:
                raise InvalidRequest(f"A frame of {length} bytes is too long: at most {CARRIED_BYTES_MAX} are carried.")
            end = start + 4 + length
            if len(buffer) < end:
                break
            yield number, FrameKind(kind), bytes(memoryview(buffer)[start + _HEAD.size : end])
            start = end
        if start:
            del buffer[:start]


_log = logging.getLogger("restante.cluster")


class FrameConnection(asyncio.Protocol):
    """Frames in and out. Used in one event loop."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._gathered: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are of no class of asyncio.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for number, kind, content in self._reader.take(data):
                self.took(number, kind, content)
        except (RestanteError, ValueError) as error:
            _log.warning("A connection between processes is closed: %s", error)
            self.abort()

    def took(self, number: int, kind: FrameKind, content: bytes) -> None:
        """A frame has come."""
        raise NotImplementedError

    def put(self, number: int, kind: FrameKind, content: bytes) -> None:
        """Send a frame, with the others of this turn of the loop."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(frame(number, kind, content))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered and self.transport is not None and not self.transport.is_closing():
            self.transport.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def close(self) -> None:
        """When what was put has left."""
        if self._gathered:
            self._flush()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
