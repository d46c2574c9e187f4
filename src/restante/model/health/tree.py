"""The tree: the system has flows, flows have components, and a component may have parts of its own.

A node is as bad as the worst of its parts. A component that serves several flows stands in each of them, and counts
once in the score: 1 − 0.25 for each yellow leaf − 0.5 for each red one, not below 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.model.health.bounds import Bound, HealthMeasure, HealthState, Reading, judged, worst

YELLOW_COST = 0.25
RED_COST = 0.5
FLOWS: Mapping[str, tuple[str, ...]] = {
    "publish": ("store", "committer", "filing", "doors", "webhooks", "nodes"),
    "collect": ("store", "committer", "doors", "origins", "housekeeping", "nodes"),
    "act": ("store", "committer", "doors", "groups", "nodes"),
    "analyse": ("store", "doors", "jobs", "nodes"),
}
"""The components that each flow needs."""
COMPONENTS = tuple(dict.fromkeys(name for names in FLOWS.values() for name in names))


CHECKED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "disk": ("store", ("no_room", "disk_left")),
    "deep_write": ("store", ("deep_failures",)),
    "filing": ("filing", ("unfiled_runs",)),
}
"""The component and the measures of the tree that show the same as a check of `/healthz`."""


def disabled_alike(disabled: Iterable[str]) -> frozenset[str]:
    """The disabled names, with the others that mean the same: the checks of a component, and the measures of a check."""
    names = set(disabled)
    for check, (component, measures) in CHECKED.items():
        if component in names or names.issuperset(measures):
            names.add(check)
        elif check in names:
            names.update(measures)
    return frozenset(names)


class HealthLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """A component, or a part of one such as a single group, and what was measured of it."""

    component: str
    readings: tuple[Reading, ...] = ()
    part: str | None = None
    """The name of the part; None: the component itself is the leaf."""

    @property
    def name(self) -> str:
        return self.component if self.part is None else f"{self.component}/{self.part}"


class HealthNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node of the tree."""

    name: str
    state: HealthState
    since: Annotated[datetime, Meta(description="Since when it has this state.")]
    score: Annotated[float, Meta(ge=0, le=1, description="Of the root alone.")] | UnsetType = UNSET
    measured: Annotated[bool, Meta(description="Of leaves: false where there was nothing to measure.")] | UnsetType = (
        UNSET
    )
    parts: tuple[HealthNode, ...] = ()
    measures: tuple[HealthMeasure, ...] = ()


class JudgedLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf with its state."""

    component: str
    name: str
    measures: tuple[HealthMeasure, ...]

    @property
    def state(self) -> HealthState:
        return worst([measure.state for measure in self.measures])


Since = Mapping[str, tuple[HealthState, datetime]]
"""The state of each node, by its name, and since when it has it."""


class HealthTree(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation."""

    root: HealthNode
    leaves: tuple[JudgedLeaf, ...]
    since: Since


def judge_leaves(
    leaves: Iterable[HealthLeaf], bounds: dict[str, Bound], disabled: frozenset[str]
) -> tuple[JudgedLeaf, ...]:
    """All leaves, those of components that nothing was measured of included. A disabled one is not judged."""
    given = [leaf for leaf in leaves if disabled.isdisjoint((leaf.component, leaf.name))]
    found = [
        JudgedLeaf(
            component=leaf.component,
            name=leaf.name,
            measures=tuple(judged(reading, bounds) for reading in leaf.readings if reading.name not in disabled),
        )
        for leaf in given
    ]
    seen = {leaf.component for leaf in found}
    missing = [JudgedLeaf(component=name, name=name, measures=()) for name in COMPONENTS if name not in seen]
    return (*found, *missing)


def score_of(leaves: Sequence[JudgedLeaf]) -> float:
    """Each leaf counts once, in however many flows it stands."""
    cost = {HealthState.GREEN: 0.0, HealthState.YELLOW: YELLOW_COST, HealthState.RED: RED_COST}
    return max(0.0, 1 - sum(cost[leaf.state] for leaf in leaves))


def grow(leaves: Sequence[JudgedLeaf], before: Since, now: datetime) -> HealthTree:
    """The tree of these leaves; a node that keeps its state keeps the moment when it took it."""
    growing = _Growing(before, now)
    components = {name: growing.component(name, leaves) for name in COMPONENTS}
    flows = tuple(growing.flow(flow, [components[name] for name in names]) for flow, names in FLOWS.items())
    state = worst([flow.state for flow in flows])
    root = HealthNode(
        name="system", state=state, since=growing.moment("system", state), score=score_of(leaves), parts=flows
    )
    return HealthTree(root=root, leaves=tuple(leaves), since=growing.since)


class _Growing:
    """A tree in the making."""

    def __init__(self, before: Since, now: datetime) -> None:
        self._before = before
        self._now = now
        self.since: dict[str, tuple[HealthState, datetime]] = {}

    def moment(self, key: str, state: HealthState) -> datetime:
        known = self._before.get(key)
        self.since[key] = known if known is not None and known[0] is state else (state, self._now)
        return self.since[key][1]

    def component(self, name: str, leaves: Sequence[JudgedLeaf]) -> HealthNode:
        """A component, with what was measured of it, and its parts, if it has any."""
        own = [leaf for leaf in leaves if leaf.component == name]
        parts = tuple(self._leaf(leaf.name, leaf.measures) for leaf in own if leaf.name != name)
        measures = tuple(measure for leaf in own if leaf.name == name for measure in leaf.measures)
        node = self._leaf(name, measures, [part.state for part in parts])
        return msgspec.structs.replace(node, parts=parts, measured=UNSET) if parts else node

    def _leaf(self, name: str, measures: tuple[HealthMeasure, ...], parts: Sequence[HealthState] = ()) -> HealthNode:
        state = worst([*parts, *(measure.state for measure in measures)])
        since = self.moment(name, state)
        return HealthNode(name=name, state=state, since=since, measured=bool(measures), measures=measures)

    def flow(self, name: str, parts: Sequence[HealthNode]) -> HealthNode:
        state = worst([part.state for part in parts])
        return HealthNode(name=name, state=state, since=self.moment(f"flow {name}", state), parts=tuple(parts))
