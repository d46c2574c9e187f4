"""The registration of the memory of actions with a hub."""

from __future__ import annotations

from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening


def _open(core: Core, _: Opening) -> None:
    core.memory(ActionMemory).open({own.number: own.counters.visible for own in core.partitions})


SUBJECT = HubSubject(open=_open)
