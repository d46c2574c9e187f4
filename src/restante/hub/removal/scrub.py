"""Scrubbing after an erasure, so that no file of the store keeps erased bytes.

The commit of an erasure deletes the recipient's rows and blobs, but their bytes remain where the engine has not overwritten
them yet. The same commit notes that the store must be scrubbed, so that a restart knows it too. Scrubbing runs in the
background, once for all erasures so far, and when the hub is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from restante.hub.engine.core import Core
from restante.hub.engine.filing import drop_unreachable
from restante.hub.engine.plan import RequestDraft
from restante.model.storage.changes import Space

_KEY = b"scrub"
_NOTE_BYTES = 8


@dataclass(slots=True)
class Erasures:
    """The memory of erasures."""

    epoch: int = 0
    """The epoch of the pins before which everything erased was buried."""
    forgetters: list[Callable[[], None]] = field(default_factory=list)
    """Functions by which other subjects forget rows that they keep in memory."""


def note(core: Core, draft: RequestDraft) -> None:
    """Note that the store must be scrubbed. Every note is different. Call it after everything that buries blobs in the draft."""
    draft.put(core.owned.start, Space.META, _KEY, core.random(_NOTE_BYTES))
    draft.applies.append(lambda: setattr(core.memory(Erasures), "epoch", core.pins.epoch()))


def scrub(core: Core) -> int:
    """Scrub the store if that is noted; return 1 if it was done. If a reader still uses erased blobs, wait for the next time."""
    noted = core.store.get(core.owned.start, Space.META, _KEY)
    if noted is None:
        return 0
    drop_unreachable(core)
    if core.pins.any_before(core.memory(Erasures).epoch) or not core.store.scrub():
        return 0

    def plan(draft: RequestDraft) -> int:
        # Another erasure may have written its own note meanwhile.
        if draft.get(core.owned.start, Space.META, _KEY) == noted:
            draft.delete(core.owned.start, Space.META, _KEY)
        return 1

    return core.commit(plan)
