"""Paths of sockets: a system takes about a hundred bytes, and data folders lie deeper."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

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
