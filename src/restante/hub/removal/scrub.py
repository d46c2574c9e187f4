"""After an erasure: no file of the store keeps what was erased.

The commit of an erasure takes the recipient's rows and blobs away; their bytes still lie where the engine has not
written over them yet. That this is to be mended is noted in the same commit, so that a restart knows it too. It is done
in the background, once for all erasures so far, and when the hub is closed.
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
    """All that erasures took away was buried before this epoch of the pins."""
    forgetters: list[Callable[[], None]] = field(default_factory=list)
    """Functions of other subjects that forget rows which they hold in memory."""


def note(core: Core, draft: RequestDraft) -> None:
    """Note that the store is to be scrubbed. Each note differs from those before it; it comes after all that the draft buries."""
    draft.put(core.owned.start, Space.META, _KEY, core.random(_NOTE_BYTES))
    draft.applies.append(lambda: setattr(core.memory(Erasures), "epoch", core.pins.epoch()))


def scrub(core: Core) -> int:
    """Scrub the store if that is noted; gives whether it was done. What somebody still reads waits for the next time."""
    noted = core.store.get(core.owned.start, Space.META, _KEY)
    if noted is None:
        return 0
    drop_unreachable(core)
    if core.pins.any_before(core.memory(Erasures).epoch) or not core.store.scrub():
        return 0

    def plan(draft: RequestDraft) -> int:
        # Another erasure may have come meanwhile, and noted itself.
        if draft.get(core.owned.start, Space.META, _KEY) == noted:
            draft.delete(core.owned.start, Space.META, _KEY)
        return 1

    return core.commit(plan)
