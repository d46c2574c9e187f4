"""How the process of a bridge uses its memory: batch after batch takes as much, so it is kept and used again."""

from __future__ import annotations

import os

import pyarrow as pa

from restante.limits import MIB
from restante.process_memory import (
    ARENAS,
    M_ARENA_MAX,
    M_MMAP_THRESHOLD,
    M_TRIM_THRESHOLD,
    allocate,
    spare_the_collector,
)

_NEW_OBJECTS_MAX = 50_000
"""The collector of cyclic garbage looks when there are so many new objects: records are objects, and make no cycles."""
_LOOKS_AT_NEW = 20
_OPTIONS = {M_TRIM_THRESHOLD: 256 * MIB, M_MMAP_THRESHOLD: 32 * MIB, M_ARENA_MAX: ARENAS}
"""The options of memory, for the GNU C library by default gives large pieces back at once, and the system clears each page
again: a fifth of what a bridge in took."""


def spare_process() -> None:
    """Set the process up for a bridge. Settings of memory in the environment take precedence."""
    spare_the_collector(_NEW_OBJECTS_MAX, _LOOKS_AT_NEW)
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if not any(name.startswith("MALLOC_") for name in os.environ):
        allocate(_OPTIONS)
