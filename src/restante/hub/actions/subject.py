"""The registration of actions with a hub."""

from __future__ import annotations

from functools import partial

from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.actions import calls, outcomes
from restante.hub.actions.action_metrics import action_metrics
from restante.hub.actions.poison import count_deaths, running_in
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.groups.memory import GroupMemory


def _open(core: Core, _: Opening) -> None:
    core.memory(GroupMemory).lost.append(partial(count_deaths, core))
    core.memory(ActionMemory).busy.append(partial(running_in, core))


SUBJECT = HubSubject(functions=calls.FUNCTIONS, open=_open, metrics=action_metrics, chores=(outcomes.forget_texts,))
