"""The status of groups: their positions, lags and members."""

from __future__ import annotations

from datetime import datetime

import msgspec

from restante.calls.groups import ListGroups, ReadGroup
from restante.errors import PositionAhead, PositionGone
from restante.hub.engine.core import Core, uuid_text
from restante.hub.feed.feed import read_feed
from restante.hub.groups.group_rows import known_group
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.model.access.access import Grant
from restante.model.groups.group_answers import GroupPage, GroupPartition, GroupStatus, MemberStatus
from restante.model.groups.group_names import check_group
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import page_size


def read_group(core: Core, call: ReadGroup, _: Grant) -> GroupStatus:
    return group_status(core, check_group(call.group))


def list_groups(core: Core, call: ListGroups, caller: Grant) -> GroupPage:
    size, after = page_size(call.limit), call.after or ""
    seen = sorted(
        name for name in tuple(core.memory(GroupMemory).groups) if name > after and caller.may_see_group(name)
    )
    shown = seen[:size]
    memory = core.memory(GroupMemory)
    found = tuple(_status(core, memory.groups[name]) for name in shown if name in memory.groups)
    return GroupPage(groups=found, next=shown[-1] if len(seen) > size else None)


def group_status(core: Core, name: str) -> GroupStatus:
    return _status(core, known_group(core, name))


def _status(core: Core, known: KnownGroup) -> GroupStatus:
    partitions = tuple(_partition(core, known, partition) for partition in core.owned)
    row = known.row
    return GroupStatus(
        group=row.name,
        origins=row.filter.origins,
        kinds=row.filter.kinds,
        gone=row.filter.gone,
        actions=row.actions,
        paused=row.paused,
        lag=sum(own.lag for own in partitions),
        partitions=partitions,
        members=_members(core, known),
    )


def _partition(core: Core, known: KnownGroup, partition: int) -> GroupPartition:
    row, end = known.positions[partition], core.partitions[partition].counters.visible
    lag = known.lag(partition, end)
    return GroupPartition(
        partition=partition,
        position=end - lag,
        end=end,
        lag=lag,
        oldest_unread_at=_oldest(core, known, partition, end - lag) if lag else None,
        member_id=uuid_text(row.holder) if row.holder else None,
        generation=row.generation,
        checkpoint_at=moment(row.checkpoint_at) if row.checkpoint_at else None,
    )


def _oldest(core: Core, known: KnownGroup, partition: int, position: int) -> datetime | None:
    """The time of the first change after a position, if one read finds it.

    If retention has overtaken the group, it is the time of the first change that is left.
    """
    wish = msgspec.structs.replace(known.row.wish, columns=("sequence_number", "at"))
    after = position if position >= core.partitions[partition].counters.feed_gone else None
    try:
        table = read_feed(core, partition, after, wish, 1, only_messages=known.row.is_of_actions).table
    except (PositionGone, PositionAhead):
        return None
    found: datetime | None = table["at"][0].as_py() if table.num_rows else None
    return found


def _members(core: Core, known: KnownGroup) -> tuple[MemberStatus, ...]:
    heard, membership = core.memory(GroupMemory).heard, known.membership
    return tuple(
        MemberStatus(
            member_id=uuid_text(member.member_id),
            member=member.name,
            partitions=membership.held_by(member.member_id),
            heartbeat_at=moment(heard[member.member_id].clock if member.member_id in heard else member.joined_at),
        )
        for member in membership.members
    )


def held_position(core: Core, partition: int) -> int | None:
    """The number up to which all groups with actions have passed a partition; None if no group holds the feed back."""
    groups = tuple(core.memory(GroupMemory).groups.values())
    return min((known.passed(partition) for known in groups if known.row.actions), default=None)
