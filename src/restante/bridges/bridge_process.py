"""How the process of a bridge uses its memory: batch after batch takes as much, so it is kept and used again."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

import pyarrow as pa

from restante.limits import MIB

_NEW_OBJECTS_MAX = 50_000
"""The collector of cyclic garbage looks when there are so many new objects: records are objects, and make no cycles."""
_OPTIONS = {"M_TRIM_THRESHOLD": (-1, 256 * MIB), "M_MMAP_THRESHOLD": (-3, 32 * MIB), "M_ARENA_MAX": (-8, 2)}
"""Options of `mallopt` in the GNU C library. By default it gives large pieces back at once, and the system clears each page
again: a fifth of what a bridge in took."""


def spare_process() -> None:
    """Set the process up for a bridge. What the environment says of memory holds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_MAX, 20, 100)
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        set_option = getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)
        for number, value in _OPTIONS.values():
            set_option(number, value)
