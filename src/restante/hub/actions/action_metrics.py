"""The metrics of actions, by the names that groups have; all other names are one, without a name and a group."""

from __future__ import annotations

from collections.abc import Iterator

from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.engine.core import Core
from restante.hub.groups.memory import GroupMemory
from restante.model.actions.action_counts import ActionTotals
from restante.model.health.hub_metric import HubMetric, MetricKind, MetricSample

_LABELS = ("group", "action")
_ENDS = {
    "accepted": "Actions that were accepted.",
    "done": "Actions that were done.",
    "failed": "Actions that failed, and were not tried again.",
    "expired": "Actions that expired before they were done.",
    "poisoned": "Actions that could not be done, and are kept.",
}


def action_totals(core: Core) -> dict[tuple[str, str], ActionTotals]:
    """Totals by group and name."""
    owners, others = core.memory(GroupMemory).actions(), ActionTotals()
    found = {}
    for name, totals in sorted(core.memory(ActionMemory).totals.items()):
        if name in owners:
            found[owners[name], name] = totals
        else:
            others.take_in(totals)
    return {**found, ("", ""): others}


def action_metrics(core: Core) -> Iterator[HubMetric]:
    totals = action_totals(core)
    for name, text in _ENDS.items():
        counts = tuple(MetricSample(labels, getattr(own, name)) for labels, own in totals.items())
        yield HubMetric(MetricKind.COUNTER, f"restante_actions_{name}", text, _LABELS, counts)
    queued = tuple(MetricSample(labels, own.queued_seconds, own.begun) for labels, own in totals.items())
    text = "From acceptance until the last attempt of an action began."
    yield HubMetric(MetricKind.SUMMARY, "restante_action_queue_seconds", text, _LABELS, queued)
    doing = tuple(MetricSample(labels, own.doing_seconds, own.begun) for labels, own in totals.items())
    text = "How long the last attempts of actions took."
    yield HubMetric(MetricKind.SUMMARY, "restante_action_seconds", text, _LABELS, doing)
