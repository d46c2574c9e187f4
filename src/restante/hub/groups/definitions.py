"""Groups made, changed, paused, resumed and deleted."""

from __future__ import annotations

from functools import partial

import msgspec

from restante.calls.groups import DefineGroup, DeleteGroup, DropAction, PauseGroup, ResumeGroup
from restante.errors import Forbidden, InvalidRequest
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups.group_rows import (
    GroupsSoFar,
    group_so_far,
    home_of_group,
    membership_so_far,
    position_so_far,
    put_group,
    put_moved,
    put_position,
    ring_group,
    row_so_far,
    rows_so_far,
)
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.hub.groups.status import group_status
from restante.model.access.access import Grant
from restante.model.groups.group import (
    GroupRow,
    GroupWish,
    Start,
    check_room,
    checked_wish,
    defined,
    group_key,
    without_action,
)
from restante.model.groups.group_answers import GroupStatus
from restante.model.groups.group_names import check_action, check_group
from restante.model.groups.group_position import PositionRow, begun, decode_position, ended
from restante.model.groups.membership import membership_of, without
from restante.model.groups.shares import NOBODY
from restante.model.storage.changes import Space


def define(core: Core, call: DefineGroup, caller: Grant) -> GroupStatus:
    if core.shard is not None:
        raise InvalidRequest("A group reads all partitions, and this hub is a shard that has some of them.")
    if call.change and not caller.may_operate():
        raise Forbidden("To change the filter of a group takes the role operator.")
    wish = checked_wish(call.group, origins=call.origins, kinds=call.kinds, gone=call.gone, actions=call.actions)
    core.commit(partial(_plan_define, core, wish, call.start, call.change))
    return group_status(core, wish.name)


def _plan_define(core: Core, wish: GroupWish, start: Start, change: bool, draft: RequestDraft) -> None:  # noqa: FBT001
    before, others = row_so_far(core, draft, wish.name), rows_so_far(core, draft)
    taken = {action: row.name for row in others for action in row.actions}
    if before is None:
        check_room(len(others))
    row = defined(before, wish, taken=taken, now=core.clock(), change=change)
    if row == before:
        return
    if before is None:
        _begin(core, draft, row, start)
    put_group(core, draft, row)


def _begin(core: Core, draft: RequestDraft, row: GroupRow, start: Start) -> None:
    """A new group, at the start or the end of each partition as of now."""
    key, positions = group_key(row.name), []
    for partition in range(core.deed.partition_count):
        counters = draft.count(partition)
        stored = draft.get(partition, Space.GROUP_POSITION, key)
        before = None if stored is None else decode_position(stored)
        positions.append(begun(before, counters.visible if start is Start.END else counters.feed_gone))
    note = draft.note(GroupsSoFar)
    note.memberships[row.name] = membership_of((), (NOBODY,) * len(positions))
    draft.applies.append(partial(_enter, core, row, positions))
    for partition, position in enumerate(positions):
        put_position(core, draft, row.name, partition, position)


def _enter(core: Core, row: GroupRow, positions: list[PositionRow]) -> None:
    membership = membership_of((), (NOBODY,) * len(positions))
    core.memory(GroupMemory).groups[row.name] = KnownGroup(row, list(positions), membership)


def delete(core: Core, call: DeleteGroup, _: Grant) -> None:
    core.commit(partial(_plan_delete, core, check_group(call.group)))


def _plan_delete(core: Core, name: str, draft: RequestDraft) -> None:
    group_so_far(core, draft, name)
    members = [member.member_id for member in membership_so_far(core, draft, name).members]
    put_moved(core, draft, name, without(membership_so_far(core, draft, name), members))
    for partition in range(core.deed.partition_count):
        row = position_so_far(core, draft, name, partition)
        put_position(core, draft, name, partition, ended(row))
        if not row.generation:
            draft.delete(partition, Space.GROUP_POSITION, group_key(name))
    draft.delete(home_of_group(core, name), Space.GROUP, group_key(name))
    draft.note(GroupsSoFar).rows[name] = None
    draft.applies.append(partial(core.memory(GroupMemory).groups.pop, name, None))
    ring_group(draft, name)


def pause(core: Core, call: PauseGroup, _: Grant) -> None:
    core.commit(partial(_plan_pause, core, check_group(call.group), paused=True))


def resume(core: Core, call: ResumeGroup, _: Grant) -> None:
    core.commit(partial(_plan_pause, core, check_group(call.group), paused=False))


def _plan_pause(core: Core, name: str, draft: RequestDraft, *, paused: bool) -> None:
    row = group_so_far(core, draft, name)
    if row.paused != paused:
        put_group(core, draft, msgspec.structs.replace(row, paused=paused))


def drop_action(core: Core, call: DropAction, _: Grant) -> None:
    core.commit(partial(_plan_drop_action, core, check_group(call.group), check_action(call.action)))


def _plan_drop_action(core: Core, name: str, action: str, draft: RequestDraft) -> None:
    row = group_so_far(core, draft, name)
    if (after := without_action(row, action)) is not row:
        put_group(core, draft, after)
