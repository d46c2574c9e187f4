"""How actions stand, for metrics."""

from __future__ import annotations

from dataclasses import asdict

from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.engine.core import Core
from restante.hub.groups.memory import GroupMemory
from restante.model.actions.action_answers import NamedTotals
from restante.model.actions.action_counts import ActionTotals


def action_totals(core: Core) -> tuple[NamedTotals, ...]:
    """Totals of actions by the names that groups have; all other names are one, without a name and a group."""
    owners, others = core.memory(GroupMemory).actions(), ActionTotals()
    found = []
    for name, totals in sorted(core.memory(ActionMemory).totals.items()):
        if name in owners:
            found.append(NamedTotals(group=owners[name], action=name, **asdict(totals)))
        else:
            others.take_in(totals)
    return (*found, NamedTotals(group="", action="", **asdict(others)))
