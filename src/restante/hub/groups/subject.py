"""The registration of groups with a hub."""

from __future__ import annotations

from functools import partial

from restante.calls.groups import ListGroups, ReadGroup, ReadNext
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.groups import calls, members
from restante.hub.groups.group_health import measure_groups
from restante.hub.groups.group_metrics import group_metrics
from restante.hub.groups.home_memory import remember_groups
from restante.hub.groups.status import held_position
from restante.hub.removal.retention import FeedHolds
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    remember_groups(core, opening.rows)
    core.memory(FeedHolds).holders.append(partial(held_position, core))
    measure_groups(core)


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadNext, ReadGroup, ListGroups),
    spaces=(Space.GROUP, Space.GROUP_MEMBER, Space.GROUP_POSITION, Space.GROUP_COPY),
    open=_open,
    metrics=group_metrics,
    tasks=(members.TASK,),
)
