"""`FrameConnection`: one socket between two processes, over which many calls are under way at once.

What is written in one turn of the event loop leaves as one piece, so calls that wait at the same time travel together.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from restante.cluster.frames import FrameKind, FrameReader, frame
from restante.errors import RestanteError

_log = logging.getLogger("restante.cluster")


class FrameConnection(asyncio.Protocol):
    """Frames in and out. Used in one event loop."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._gathered: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are of no class of asyncio.
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
