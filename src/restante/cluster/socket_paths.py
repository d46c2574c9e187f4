"""Paths of sockets: a system takes about a hundred bytes, and data folders lie deeper."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_BYTES_MAX = 100


def short_path(path: Path) -> str:
    """A path that leads to the same socket and is short enough, where the system has such."""
    whole = str(path.absolute())
    if len(os.fsencode(whole)) <= _BYTES_MAX or not Path("/proc/self/fd").is_dir():
        return whole
    return f"/proc/self/fd/{_folder(path.parent.absolute())}/{path.name}"


@cache
def _folder(folder: Path) -> int:
    """An open folder, as long as the process lives."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
