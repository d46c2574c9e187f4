"""The metrics of groups, from memory alone."""

from __future__ import annotations

from collections.abc import Iterator

from restante.hub.engine.core import Core
from restante.hub.groups.memory import GroupMemory
from restante.model.health.hub_metric import HubMetric, MetricKind, MetricSample

_COUNTER, _GAUGE = MetricKind.COUNTER, MetricKind.GAUGE


def group_metrics(core: Core) -> Iterator[HubMetric]:
    groups = sorted(core.memory(GroupMemory).groups.items())
    ends = {own.number: own.counters.visible for own in core.partitions}
    lags = tuple(
        MetricSample((name, str(partition)), known.lag(partition, end))
        for name, known in groups
        for partition, end in ends.items()
    )
    members = tuple(MetricSample((name,), len(known.membership.members)) for name, known in groups)
    given = tuple(MetricSample((name,), known.givings) for name, known in groups)
    overtaken = tuple(MetricSample((name,), known.overtaken) for name, known in groups)
    labels, numbers = ("group",), "Numbers that a group has not done with."
    yield HubMetric(_GAUGE, "restante_group_lag", numbers, ("group", "partition"), lags)
    yield HubMetric(_GAUGE, "restante_group_members", "Members of a group.", labels, members)
    text = "Times that a partition was given to a member."
    yield HubMetric(_COUNTER, "restante_group_partitions_given", text, labels, given)
    text = "Times that a group asked for what the feed no longer had."
    yield HubMetric(_COUNTER, "restante_group_overtaken", text, labels, overtaken)
