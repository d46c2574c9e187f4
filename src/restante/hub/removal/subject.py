"""The registration of removal with a hub."""

from __future__ import annotations

from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.removal import calls, expiry, retention, scrub
from restante.hub.removal.memory import begin_memory
from restante.hub.removal.scrub import Erasures


def _open(core: Core, _: Opening) -> None:
    core.remember(begin_memory(core.partitions))
    core.memory(Erasures).forgetters.append(next(iter(core.partitions)).fronts.clear)


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    open=_open,
    chores=(expiry.expire, retention.retain, scrub.scrub),
    last_chores=(scrub.scrub,),
)
