"""Health checks of running groups: a special action that workers drop before any handler, and the time until they do.

Each group with actions and members has one check under way, in one partition after another. Its origin is that of health
checks, so no count includes it, and only the group's own reads of the feed show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from restante.errors import ActionUnknown
from restante.hub.actions.look_up import look_up
from restante.hub.engine.core import Core, uuid_text
from restante.hub.groups.group_health import LATE_SECONDS, GroupCheck, GroupChecks
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.hub.health.deep_check import health_recipient
from restante.hub.publishing.publish import large_publish
from restante.hub.publishing.sent import own_columns
from restante.model.actions.action_kind import ACTION_KIND, ACTION_PROPERTY
from restante.model.mailboxes.answers import moment
from restante.model.publishing.message import HEALTH_ORIGIN, Message
from restante.model.work.actions import HEALTH_PROPERTY, HEALTH_VALUE

EVERY_SECONDS = 60.0
"""Seconds from one check of a group to the next."""
_SECOND = 1_000_000


def check_groups(core: Core) -> None:
    """Examine the checks under way, and send those that are due."""
    own, now = core.memory(GroupChecks), core.clock()
    running = {known.row.name: known for known in _running(core)}
    for name in set(own.checks) - set(running):
        del own.checks[name]
    for name, known in sorted(running.items()):
        check = own.checks.get(name)
        if check is not None and check.took is None:
            check.took = _took(core, check)
        is_due = check is None or now - check.sent_at >= EVERY_SECONDS * _SECOND
        if is_due and (check is None or check.took is not None or _is_gone(core, check)):
            following = core.owned.start if check is None else check.partition + 1
            own.checks[name] = _sent(core, known, following if following in core.owned else core.owned.start)


def _running(core: Core) -> Iterator[KnownGroup]:
    for known in tuple(core.memory(GroupMemory).groups.values()):
        if known.row.actions and known.has_members and not known.row.paused:
            yield known


def _sent(core: Core, known: KnownGroup, partition: int) -> GroupCheck:
    """Send a check. It expires later than `LATE_SECONDS`, so that a check that a stuck group does not take is noticed."""
    recipient, action_id = health_recipient(partition, core.deed.partition_count), uuid_text(core.new_uuid())
    message = Message(
        recipient=recipient,
        id=action_id,
        origin=HEALTH_ORIGIN,
        kind=ACTION_KIND,
        data={},
        properties={ACTION_PROPERTY: known.row.actions[0], HEALTH_PROPERTY: HEALTH_VALUE},
        expires_at=moment(core.clock()) + timedelta(seconds=10 * LATE_SECONDS),
    )
    core.submit(large_publish(core, own_columns(message), None))
    return GroupCheck(action_id, recipient, partition, core.clock())


def _took(core: Core, check: GroupCheck) -> float | None:
    try:
        status = look_up(core, check.action_id, check.recipient)
    except ActionUnknown:
        return None
    if status.state.value != "done" or status.ended_at is None:
        return None
    return max(0.0, (status.ended_at - status.accepted_at).total_seconds())


def _is_gone(core: Core, check: GroupCheck) -> bool:
    """Whether a check can no longer be dropped, because it has expired or was forgotten."""
    try:
        return look_up(core, check.action_id, check.recipient).is_final
    except ActionUnknown:
        return True
