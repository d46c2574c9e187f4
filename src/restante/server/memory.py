"""How a process that serves for months allocates: so that what its threads free goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

_M_ARENA_MAX = -8
"""The number of this option of `mallopt` in `malloc.h` of the GNU C library."""
_ARENAS = 2
GIVE_BACK_SECONDS = 60.0


def spare_memory() -> None:
    """Bound what the process allocates; call it before Arrow is imported and threads are started. What the environment says about it holds.

    Arrow's own allocator keeps what each thread freed; the system's is as fast. The C library has up to eight heaps for
    each core, of which each keeps what was once needed in it; threads that share the interpreter do not need them.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ:
        _of_the_c_library("mallopt")(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Let the system have what lies free between what is in use. It takes milliseconds, without the interpreter."""
    _of_the_c_library("malloc_trim")(0)


def _of_the_c_library(name: str) -> Callable[..., object]:
    """A function of the GNU C library; one that does nothing where there is another library."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, name, lambda *_: None)
