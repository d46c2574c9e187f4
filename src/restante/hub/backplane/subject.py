"""The registration of the backplane with a hub."""

from __future__ import annotations

from restante.hub.backplane import calls, status, tasks
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening


def _open(core: Core, opening: Opening) -> None:
    calls.begin(core, opening.backplane)


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    open=_open,
    metrics=status.backplane_metrics,
    close=calls.end,
    tasks=(tasks.READER, tasks.WAITS),
    chores=(status.forget_poison,),
)
