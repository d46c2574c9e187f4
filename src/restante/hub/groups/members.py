"""Members of groups: joining, heartbeats, leaving, and ending the leases of members that are not heard of.

A lease ends in a commit. A member that is heard of before the commit is planned keeps its lease.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from restante import limits
from restante.calls.groups import JoinGroup, LeaveGroup, ReadNext, SendHeartbeat
from restante.calls.shards import NoteWork
from restante.errors import InvalidRequest, MemberUnknown
from restante.hub.engine.core import Core, parse_uuid, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Procedure, run
from restante.hub.engine.tasks import Task, guarded
from restante.hub.groups.checkpoints import telling_home
from restante.hub.groups.group_rows import (
    GroupsSoFar,
    LostMember,
    group_so_far,
    known_group,
    membership_so_far,
    position_so_far,
    put_moved,
)
from restante.hub.groups.home import carrying_moves, home_patience, keeping_home, knowing_holders
from restante.hub.groups.home_memory import HomeMemory, is_home, require_known
from restante.hub.groups.memory import GroupMemory, Heard, KnownGroup
from restante.model.access.access import Grant
from restante.model.groups.group import GROUPS_HOME
from restante.model.groups.group_answers import Assigned, HeartbeatAnswer, Joined, Running
from restante.model.groups.group_names import check_group, check_member
from restante.model.groups.group_position import PositionRow
from restante.model.groups.membership import (
    GroupMember,
    Membership,
    joined,
    lapsed,
    lease_seconds,
    overdue,
    released,
    seconds_left,
    without,
)
from restante.model.mailboxes.answers import moment

_log = logging.getLogger(__name__)


def joining(core: Core, call: JoinGroup, _: Grant) -> Procedure[Joined]:
    name, member = check_group(call.group), check_member(call.member)
    yield from knowing_holders(core)
    made = core.commit(partial(_plan_join, core, name, member))
    if core.shard is None:
        return made
    yield from carrying_moves(core, name)
    return msgspec.structs.replace(made, partitions=_carried(core, name, member_id_of(made.member_id)))


def _carried(core: Core, name: str, member_id: bytes) -> tuple[Assigned, ...]:
    """The partitions of a member that shards have given it so far. It learns of the others with its heartbeats."""
    memory, known = core.memory(GroupMemory), core.memory(GroupMemory).groups.get(name)
    if known is None:
        return ()
    with memory.lock:
        return tuple(_tell(core, known, member_id, memory.monotonic()))


def _plan_join(core: Core, name: str, member_name: str, draft: RequestDraft) -> Joined:
    group_so_far(core, draft, name)
    member = GroupMember(core.new_uuid(), member_name, core.clock())
    told, before = core.memory(GroupMemory).told_in(name), membership_so_far(core, draft, name)
    replaced = before.named(member_name)
    if replaced is not None:
        # The old member did not leave, so its work was cut off.
        _tell_of_lost(core, draft, name, before, frozenset({replaced.member_id}))
    moved = joined(before, member, told)
    put_moved(core, draft, name, moved)
    kept = moved.membership.kept_by(member.member_id)
    partitions = tuple(assigned(partition, position_so_far(core, draft, name, partition)) for partition in kept)
    draft.applies.append(partial(_note_listed, core, name, partitions))
    return Joined(
        member_id=uuid_text(member.member_id),
        heartbeat_seconds=core.settings.groups.heartbeat_seconds,
        partitions=partitions,
    )


def _note_listed(core: Core, name: str, partitions: Sequence[Assigned]) -> None:
    memory = core.memory(GroupMemory)
    with memory.lock:
        memory.listed.update({(name, own.partition): own.generation for own in partitions})


def assigned(partition: int, row: PositionRow) -> Assigned:
    return Assigned(partition=partition, generation=row.generation, position=row.position)


def leaving(core: Core, call: LeaveGroup, _: Grant) -> Procedure[None]:
    name, member_id = check_group(call.group), member_id_of(call.member_id)
    yield from knowing_holders(core)
    core.commit(partial(_plan_leave, core, name, member_id))
    yield from carrying_moves(core, name)


def _plan_leave(core: Core, name: str, member_id: bytes, draft: RequestDraft) -> None:
    group_so_far(core, draft, name)
    membership = membership_so_far(core, draft, name)
    check_known(membership, name, member_id)
    put_moved(core, draft, name, without(membership, {member_id}, core.memory(GroupMemory).told_in(name)))


def member_id_of(text: str) -> bytes:
    return parse_uuid(text, "member_id")


def check_known(membership: Membership, name: str, member_id: bytes) -> GroupMember:
    member = membership.member(member_id)
    if member is None:
        raise MemberUnknown(
            f"{uuid.UUID(bytes=member_id)} is no member of the group {name!r}: it left, its lease ended, or another one "
            "joined under its name. Stop what is under way, and join again.",
            group=name,
        )
    return member


def heartbeat(core: Core, call: SendHeartbeat, _: Grant) -> HeartbeatAnswer:
    """Take a heartbeat. Nothing is stored for it."""
    name, member_id = check_group(call.group), member_id_of(call.member_id)
    known, memory = known_group(core, name), core.memory(GroupMemory)
    require_known(core)
    running = _checked_running(call.running)
    with memory.lock:
        check_known(known.membership, name, member_id)
        now = memory.monotonic()
        heard = memory.heard.get(member_id, Heard(now, 0)).said(running, call.revision)
        memory.heard[member_id] = replace(heard, at=now, clock=core.clock())
        kept = _tell(core, known, member_id, now)
    core.store.require_owned()
    return HeartbeatAnswer(partitions=tuple(kept), now=moment(core.clock()))


def state_running(core: Core, call: ReadNext) -> None:
    """Note the work that a member states when it reads. It counts like that of a heartbeat, but does not renew the lease.

    The statement of a member that has no partition of this group is passed by: it may be another group's member.
    """
    if call.running is not None:
        running, own_id = _checked_running(call.running), member_id_of(call.member_id)
        if any(row.holder == own_id for row in known_group(core, call.group).positions):
            _hear(core, call.member_id, lambda heard: heard.asked(running, call.revision), says=True)


def note_work(core: Core, call: NoteWork, _: Grant) -> None:
    """Note the work of a member in this shard, which it has stated to another shard."""
    running = _checked_running(call.running)
    _hear(core, call.member_id, lambda heard: heard.said(running, call.revision), says=True)


def presume_running(core: Core, member_id: str, begun: Sequence[Running]) -> None:
    """Note actions that a member is handed, and begins before it can say so. The work in its next request replaces them."""
    if begun:
        _hear(core, member_id, lambda heard: replace(heard, presumed=tuple(begun)), says=False)


def _hear(core: Core, member_id: str, change: Callable[[Heard], Heard], *, says: bool) -> None:
    """Change the known work of a member. `says` means that the member itself has stated it."""
    memory, own_id = core.memory(GroupMemory), member_id_of(member_id)
    with memory.lock:
        if core.shard is not None:
            _hear_in_shard(core, memory, own_id, change, says=says)
        elif (heard := memory.heard.get(own_id)) is not None:
            memory.heard[own_id] = change(heard)


def _hear_in_shard(
    core: Core, memory: GroupMemory, own_id: bytes, change: Callable[[Heard], Heard], *, says: bool
) -> None:
    """Note a member's work in this shard, while its heartbeats go to the home of groups. Silent members are forgotten."""
    now = memory.monotonic()
    before = memory.working.get(own_id, Heard(now, core.clock()))
    heard = change(before)
    memory.working[own_id] = replace(heard, at=now) if says and heard is not before else heard
    last = now - limits.WAIT_SECONDS_MAX - lease_seconds(core.settings.groups.heartbeat_seconds)
    for silent in [own for own, one in memory.working.items() if one.at < last]:
        del memory.working[silent]


def _tell(core: Core, known: KnownGroup, member_id: bytes, now: float) -> list[Assigned]:
    """The partitions that a member keeps. The member learns from this list which ones it must give up.

    A partition that the member never knew it had cannot be released by it, so that one is given on at once.
    """
    memory, due = core.memory(GroupMemory), core.memory(HomeMemory).due
    kept, name, membership = [], known.row.name, known.membership
    for partition in membership.held_by(member_id):
        row, place = known.positions[partition], (name, partition)
        if place in memory.told or place in due or row.holder != member_id:
            continue
        if membership.targets[partition] == member_id:
            kept.append(assigned(partition, row))
            memory.listed[place] = row.generation
        else:
            memory.told[place] = now if memory.listed.get(place) == row.generation else -math.inf
            memory.wake.set()
    return kept


def _checked_running(running: Sequence[Running]) -> tuple[Running, ...]:
    if len(running) > limits.GROUP_RUNNING_MAX:
        raise InvalidRequest(f"running names at most {limits.GROUP_RUNNING_MAX:,} changes.", parameter="running")
    return tuple(running)


def end_leases(core: Core) -> int:
    """End overdue leases, and take partitions that were not released in time; return how many of both."""
    memory, now = core.memory(GroupMemory), core.memory(GroupMemory).monotonic()
    if core.memory(HomeMemory).unknown:
        return 0
    due = [name for name, known in tuple(memory.groups.items()) if _due(core, name, known.membership, now)]
    return sum(core.commit(partial(_plan_end, core, name)) for name in due)


def _due(core: Core, name: str, membership: Membership, now: float) -> bool:
    return bool(_lapsed(core, membership, now) or _overdue(core, name, now))


def _lapsed(core: Core, membership: Membership, now: float) -> frozenset[bytes]:
    heard = core.memory(GroupMemory).heard
    known = {own.member_id: heard[own.member_id].at for own in membership.members if own.member_id in heard}
    return lapsed(known, now, core.settings.groups.heartbeat_seconds)


def _overdue(core: Core, name: str, now: float) -> frozenset[int]:
    return overdue(core.memory(GroupMemory).told_in(name), now, core.settings.groups.handover_seconds)


def _plan_end(core: Core, name: str, draft: RequestDraft) -> int:
    group_so_far(core, draft, name)
    memory, membership = core.memory(GroupMemory), membership_so_far(core, draft, name)
    now = memory.monotonic()
    gone, late = _lapsed(core, membership, now), _overdue(core, name, now)
    if gone:
        _tell_of_lost(core, draft, name, membership, gone)
        for member_id in gone:
            _log.warning(
                "The lease of %s in the group %s has ended.", check_known(membership, name, member_id).name, name
            )
        moved = without(membership, gone, memory.told_in(name))
        put_moved(core, draft, name, moved)
        membership = moved.membership
        late -= {giving.partition for giving in moved.givings}
    held = frozenset(partition for partition in late if membership.holders[partition])
    if held:
        put_moved(core, draft, name, released(membership, held))
    return len(gone) + len(held)


def _tell_of_lost(core: Core, draft: RequestDraft, name: str, membership: Membership, gone: frozenset[bytes]) -> None:
    memory = core.memory(GroupMemory)
    for member in membership.members:
        if member.member_id in gone:
            heard = memory.heard.get(member.member_id)
            if core.shard is not None:
                draft.note(GroupsSoFar).lost[member.member_id] = LostMember(member.name, heard)
            for hear in memory.lost if core.shard is None else ():
                hear(draft, name, member, () if heard is None else heard.doing)


def _keep_leases(core: Core) -> None:
    memory = core.memory(GroupMemory)
    while not core.closing.is_set():
        patience, began = _patience(core, memory), time.monotonic()
        memory.wake.wait(patience)
        memory.wake.clear()
        if patience is not None and time.monotonic() - began > patience + core.settings.groups.heartbeat_seconds:
            renew_all(core)
        if not core.closing.is_set():
            guarded(core, end_leases)
            guarded(core, keep_shard)


def keep_shard(core: Core) -> int:
    """Do the pending calls between shards about groups; return how many there were."""
    return run(core, keeping_shard(core))


def keeping_shard(core: Core) -> Procedure[int]:
    told = yield from telling_home(core)
    return told + ((yield from keeping_home(core)) if is_home(core) else 0)


def renew_all(core: Core) -> None:
    """Renew every lease, because the hub itself stood still and could hear nobody."""
    memory = core.memory(GroupMemory)
    with memory.lock:
        now = memory.monotonic()
        memory.heard = {own: replace(heard, at=now) for own, heard in memory.heard.items()}


def _patience(core: Core, memory: GroupMemory) -> float | None:
    settings = core.settings.groups
    with memory.lock:
        heard, told = [own.at for own in memory.heard.values()], list(memory.told.values())
    left = seconds_left(
        heard,
        told,
        memory.monotonic(),
        heartbeat_seconds=settings.heartbeat_seconds,
        handover_seconds=settings.handover_seconds,
    )
    other = home_patience(core)
    return other if left is None else left if other is None else min(left, other)


TASK = Task("groups", _keep_leases, wake=lambda core: core.memory(GroupMemory).wake.set(), component="groups")
"""The thread that ends leases and hand-overs."""


def known_member(core: Core, name: str, member_id: bytes) -> KnownGroup:
    """A group as of the last commit. Raises `MemberUnknown` for no member, which only the home of groups can tell."""
    known = known_group(core, name)
    if GROUPS_HOME in core.owned:
        check_known(known.membership, name, member_id)
    return known
