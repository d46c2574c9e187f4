"""Defining, changing, pausing, resuming and deleting groups."""

from __future__ import annotations

from functools import partial

import msgspec

from restante.calls.groups import DefineGroup, DeleteGroup, DropAction, PauseGroup, ResumeGroup
from restante.errors import Forbidden
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Procedure
from restante.hub.groups.group_rows import (
    group_so_far,
    membership_so_far,
    new_version,
    put_group,
    put_moved,
    row_so_far,
    rows_so_far,
)
from restante.hub.groups.group_starts import (
    begin_partition,
    end_partition,
    enter_group,
    last_version,
    leave_group,
)
from restante.hub.groups.home import telling_all
from restante.hub.groups.status import group_status
from restante.model.access.access import NO_OWNER, Grant, owner_of
from restante.model.groups.group import (
    GROUPS_HOME,
    GroupRow,
    GroupWish,
    check_names,
    check_room,
    checked_wish,
    defined,
    group_key,
    without_action,
)
from restante.model.groups.group_answers import GroupStatus
from restante.model.groups.group_names import check_action, check_group
from restante.model.groups.membership import without
from restante.model.shards.group_parts import GroupCopy, encode_copy
from restante.model.storage.changes import Space


def defining(core: Core, call: DefineGroup, caller: Grant) -> Procedure[GroupStatus]:
    if call.change and not caller.may_operate():
        raise Forbidden("To change the filter of a group takes the role operator.")
    wish = checked_wish(
        call.group, origins=call.origins, kinds=call.kinds, gone=call.gone, actions=call.actions, start=call.start
    )
    core.commit(partial(_plan_define, core, wish, caller, change=call.change))
    yield from telling_all(core, (wish.name,))
    return group_status(core, wish.name)


def _plan_define(core: Core, wish: GroupWish, caller: Grant, draft: RequestDraft, *, change: bool) -> None:
    before, others, owner = row_so_far(core, draft, wish.name), rows_so_far(core, draft), owner_of(caller)
    taken = {action: row.name for row in others for action in row.actions}
    if before is None:
        if not wish.actions and not caller.may_read_feed():
            raise Forbidden(
                f"There is no group {wish.name!r}, and without actions it would read the feed: to make it takes the role "
                "operator, or reader beside worker. A worker makes groups of actions: name some in actions."
            )
        check_room(len(others), sum(row.owner == owner != NO_OWNER for row in others))
    row = defined(before, wish, taken=taken, now=core.clock(), change=change, owner=owner)
    if row == before:
        return
    if row.owner != NO_OWNER and len(row.actions) > (0 if before is None else len(before.actions)):
        check_names(
            len(row.actions)
            + sum(len(own.actions) for own in others if own.owner == row.owner and own.name != row.name)
        )
    if before is None:
        row = msgspec.structs.replace(row, version=last_version(draft, GROUPS_HOME, row.name))
        _begin(core, draft, row)
    put_group(core, draft, row)


def _begin(core: Core, draft: RequestDraft, row: GroupRow) -> None:
    """Begin a new group, at the start or the end of each partition. With several shards, each begins it when it learns of it."""
    enter_group(core, draft, row)
    for partition in range(core.deed.partition_count) if core.shard is None else ():
        begin_partition(core, draft, partition, row)


def deleting(core: Core, call: DeleteGroup, _: Grant) -> Procedure[None]:
    name = check_group(call.group)
    version = core.commit(partial(_plan_delete, core, name))
    yield from telling_all(core, (), ((name, version),))


def _plan_delete(core: Core, name: str, draft: RequestDraft) -> int:
    """Delete a group; return a version that is higher than all of its versions."""
    row, membership = group_so_far(core, draft, name), membership_so_far(core, draft, name)
    put_moved(core, draft, name, without(membership, [member.member_id for member in membership.members]))
    for partition in range(core.deed.partition_count) if core.shard is None else (GROUPS_HOME,):
        end_partition(core, draft, partition, name)
    draft.delete(GROUPS_HOME, Space.GROUP, group_key(name))
    version = new_version(core, draft, row)
    if core.shard is not None:
        draft.put(GROUPS_HOME, Space.GROUP_COPY, group_key(name), encode_copy(GroupCopy(version, None)))
    leave_group(core, draft, name)
    return version


def pausing(core: Core, call: PauseGroup, _: Grant) -> Procedure[None]:
    yield from _setting_paused(core, check_group(call.group), paused=True)


def resuming(core: Core, call: ResumeGroup, _: Grant) -> Procedure[None]:
    yield from _setting_paused(core, check_group(call.group), paused=False)


def _setting_paused(core: Core, name: str, *, paused: bool) -> Procedure[None]:
    core.commit(partial(_plan_pause, core, name, paused=paused))
    yield from telling_all(core, (name,))


def _plan_pause(core: Core, name: str, draft: RequestDraft, *, paused: bool) -> None:
    row = group_so_far(core, draft, name)
    if row.paused != paused:
        put_group(core, draft, msgspec.structs.replace(row, paused=paused))


def dropping_action(core: Core, call: DropAction, _: Grant) -> Procedure[None]:
    name = check_group(call.group)
    core.commit(partial(_plan_drop_action, core, name, check_action(call.action)))
    yield from telling_all(core, (name,))


def _plan_drop_action(core: Core, name: str, action: str, draft: RequestDraft) -> None:
    put_group(core, draft, without_action(group_so_far(core, draft, name), action))
