"""A transport that writes the head and the body of an answer together, with one system call instead of two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast


class Corked:
    """A wrapper of a transport that gathers writes while it is corked.

    `close` calls `lingers`, which may take over closing the connection, and then returns True.
    """

    __slots__ = ("_gathered", "_lingers", "_transport")

    def __init__(self, transport: asyncio.Transport, lingers: Callable[[], bool]) -> None:
        self._transport = transport
        self._lingers = lingers
        self._gathered: list[bytes] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the wrapped transport
        return getattr(self._transport, name)

    def cork(self) -> None:
        self._gathered = []

    def uncork(self) -> None:
        """Write the gathered data."""
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
    """The wrapped transport."""
    own = transport._transport if isinstance(transport, Corked) else transport  # noqa: SLF001 - of this module
    return cast("asyncio.Transport", own)
