"""The health of groups: the age of the oldest change that a group has not read, and its last health check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from restante.hub.engine.core import Core
from restante.hub.engine.health_sources import HealthSources
from restante.hub.groups.action_health import ActionHealth
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.hub.groups.status import group_status
from restante.model.health.bounds import Reading, flag
from restante.model.health.tree import HealthLeaf
from restante.model.mailboxes.answers import moment

LATE_SECONDS = 60.0
"""A check that no worker has dropped within this time has failed. It is longer than two leases and a hand-over."""
_SECOND = 1_000_000


@dataclass(slots=True)
class GroupCheck:
    """The last check of one group."""

    action_id: str
    recipient: str
    partition: int
    sent_at: int
    took: float | None = None
    """Seconds until a worker dropped it; None if none has yet."""


@dataclass(slots=True)
class GroupChecks:
    """The last health check of each group."""

    checks: dict[str, GroupCheck] = field(default_factory=dict)

    def problem(self, group: str, now: int) -> str | None:
        """The problem of a group according to its last check; None if there is none."""
        check = self.checks.get(group)
        if check is None or check.took is not None or now - check.sent_at < LATE_SECONDS * _SECOND:
            return None
        age = (now - check.sent_at) / _SECOND
        return f"A check in partition {check.partition} waits for a worker since {age:.0f} s: it is stuck, or too busy."


def measure_groups(core: Core) -> None:
    actions = ActionHealth(core)
    core.memory(HealthSources).register_parts("groups", lambda: _leaves(core, actions))


def _leaves(core: Core, actions: ActionHealth) -> Iterator[HealthLeaf]:
    for name, known in sorted(core.memory(GroupMemory).groups.items()):
        check = flag("check_failures", core.memory(GroupChecks).problem(name, core.clock()))
        readings = (*_readings(core, known), *actions.readings(known), *([check] if known.row.actions else ()))
        yield HealthLeaf(component="groups", part=name, readings=readings)


def _readings(core: Core, known: KnownGroup) -> Iterator[Reading]:
    """The readings of a group. Without members it has some only if it has actions; paused, only of the feed it holds back."""
    row = known.row
    if not (row.actions or (known.has_members and not row.paused)):
        return
    now = moment(core.clock())
    status = group_status(core, row.name)
    unread = [(own.oldest_unread_at, own.partition) for own in status.partitions if own.oldest_unread_at is not None]
    oldest, partition = min(unread, default=(now, 0))
    reason = f"It has not read what came to partition {partition} at {oldest:%Y-%m-%d %H:%M:%S}Z."
    age = max(0.0, (now - oldest).total_seconds())
    if not row.paused:
        yield Reading(name="oldest_unread", value=age, unit="seconds", reason=reason)
    if row.actions:
        held = max(0.0, age - core.settings.feed_reach_seconds)
        yield Reading(name="feed_held", value=held, unit="seconds", reason=reason if held else None)
