"""How a process that serves for months allocates: so that what its threads free goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys

_M_ARENA_MAX = -8
"""Of `malloc.h` of the GNU C library."""
_ARENAS = 2


def spare_memory() -> None:
    """To be called before Arrow is imported and threads are started. What the environment says about it holds.

    Arrow's own allocator keeps what each thread freed; the system's is as fast. The C library has up to eight heaps for
    each core, of which each keeps what was once needed in it; threads that share the interpreter do not need them.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        limit = getattr(ctypes.CDLL(None), "mallopt", None)  # Other C libraries have none.
        if limit is not None:
            limit(_M_ARENA_MAX, _ARENAS)
