"""A transport that writes the head and the body of an answer as one piece: one call of the system instead of two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast


class Corked:
    """A transport in front of another. While it is corked, what is written is gathered.

    `lingers` says whether the connection is to stay for a while when it is to be closed, and sees to its end then.
    """

    __slots__ = ("_gathered", "_lingers", "_transport")

    def __init__(self, transport: asyncio.Transport, lingers: Callable[[], bool]) -> None:
        self._transport = transport
        self._lingers = lingers
        self._gathered: list[bytes] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport behind it has
        return getattr(self._transport, name)

    def cork(self) -> None:
        self._gathered = []

    def uncork(self) -> None:
        """Write what was gathered."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._transport.write(b"".join(gathered))

    def write(self, data: bytes) -> None:
        if self._gathered is None:
            self._transport.write(data)
        else:
            self._gathered.append(data)

    def close(self) -> None:
        self.uncork()
        if not self._lingers():
            self._transport.close()


def bare(transport: object) -> asyncio.Transport:
    """The transport itself."""
    own = transport._transport if isinstance(transport, Corked) else transport  # noqa: SLF001 - of this module
    return cast("asyncio.Transport", own)
