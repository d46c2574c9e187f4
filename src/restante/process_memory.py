"""The memory of a process that runs for months: what its threads free goes back to the system, and the collector looks seldom."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Mapping

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""The numbers of these options of `mallopt` in `malloc.h` of the GNU C library."""
ARENAS = 2
GIVE_BACK_SECONDS = 60.0
_NEW_OBJECTS_MAX = 10_000
"""The collector of cyclic garbage looks when there are so many new objects, and not every 700: a publish makes dozens,
and leaves no cycles. Measured with 50,000: a fifth less processor time for small publishes. More would be looked at in one stall."""
_LOOKS_AT_NEW = 100
"""After so many looks at new objects the collector looks at those that it left before."""


def spare_memory() -> None:
    """Bound what the process allocates. Call it before Arrow is imported and threads are started.

    Settings in the environment take precedence.

    Arrow's own allocator keeps what each thread freed; the system's is as fast. The C library has up to eight heaps for
    each core, of which each keeps what was once needed in it; threads that share the interpreter do not need them.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ:
        allocate({M_ARENA_MAX: ARENAS})


def allocate(options: Mapping[int, int]) -> None:
    """Set options of the system's allocator."""
    for option, value in options.items():
        _of_the_c_library("mallopt")(option, value)


def spare_the_collector(new_objects: int = _NEW_OBJECTS_MAX, looks_at_new: int = _LOOKS_AT_NEW) -> None:
    """Spare the collector the objects that there are now: they stay as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(new_objects, looks_at_new, 100)


def give_back() -> None:
    """Let the system have what lies free between what is in use. It takes milliseconds, without the interpreter."""
    _of_the_c_library("malloc_trim")(0)


def _of_the_c_library(name: str) -> Callable[..., object]:
    """A function of the GNU C library; one that does nothing where there is another library."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, name, lambda *_: None)
