"""Where a shard is reached: how a connection to it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from restante.errors import Unavailable

P = TypeVar("P", bound=asyncio.Protocol)


class LinePlace(Protocol):
    """One shard, for one purpose."""

    async def connect(self, made: Callable[[], P]) -> P:
        """A new connection; `OSError` if nobody is there now."""
        ...

    def away(self, text: str) -> Unavailable:
        """The error about a shard that was waited for in vain."""
        ...


@dataclass(frozen=True, slots=True)
class SocketPlace:
    """A socket in a folder."""

    path: str

    async def connect(self, made: Callable[[], P]) -> P:
        _, protocol = await asyncio.get_running_loop().create_unix_connection(made, self.path)
        return protocol

    def away(self, text: str) -> Unavailable:
        return Unavailable(text)
