"""Where a shard is reached: how a connection to it is made, and the paths of its sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

from restante.errors import Unavailable

P = TypeVar("P", bound=asyncio.Protocol)


class LinePlace(Protocol):
    """One shard, for one purpose."""

    async def connect(self, made: Callable[[], P]) -> P:
        """A new connection; `OSError` if nobody is there now."""
        ...

    def away(self, text: str) -> Unavailable:
        """The error about a shard that did not answer in time."""
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


_BYTES_MAX = 100


def short_path(path: Path) -> str:
    """A path that leads to the same socket and is short enough, where the system has such."""
    whole = str(path.absolute())
    if len(os.fsencode(whole)) <= _BYTES_MAX or not Path("/proc/self/fd").is_dir():
        return whole
    return f"/proc/self/fd/{_folder(path.parent.absolute())}/{path.name}"


def own_socket(path: Path) -> socket.socket:
    """Bound to a path, and open to its owner alone."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(short_path(path))
    finally:
        os.umask(before)
    return bound


@cache
def _folder(folder: Path) -> int:
    """An open folder, as long as the process lives."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
