"""The rows of groups in a commit: reading them as a draft sees them, and writing them with the updates of memory.

The definition and the members of a group are in the home of all groups, the first partition. Generation, position and holder
are in each partition. With several shards, home decides who holds each partition, and the shards carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self
from urllib.parse import quote

import msgspec
import numpy as np

from restante.errors import GroupUnknown
from restante.hub.engine.core import Core
from restante.hub.engine.plan import Note, RequestDraft
from restante.hub.groups.home_memory import DueMove, HomeMemory
from restante.hub.groups.memory import GroupMemory, Heard, KnownGroup
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GROUPS_HOME, GroupRow, encode_group, group_key, next_version
from restante.model.groups.group_position import PositionRow, encode_position, freed, given
from restante.model.groups.membership import GroupMember, Membership, Moved, encode_member, member_key
from restante.model.storage.changes import Space
from restante.model.storage.partition import fnv1a_64


class LostMember(NamedTuple):
    name: str
    heard: Heard | None


@dataclass(slots=True)
class GroupsSoFar(Note):
    """The groups as changed by the commit so far. A row of None means deleted."""

    rows: dict[str, GroupRow | None] = field(default_factory=dict)
    memberships: dict[str, Membership] = field(default_factory=dict)
    positions: dict[tuple[str, int], PositionRow] = field(default_factory=dict)
    lost: dict[bytes, LostMember] = field(default_factory=dict)
    """Members that are gone without having left."""
    heard: set[int] = field(default_factory=set)
    """Partitions whose holders a newly opened home has learned in this commit. Several procedures may learn in one commit."""
    moving: set[tuple[str, int]] = field(default_factory=set)
    """Pairs of (group, partition) that shards must move once the commit is stored."""

    def take_over(self, later: Self) -> None:
        self.rows.update(later.rows)
        self.memberships.update(later.memberships)
        self.positions.update(later.positions)
        self.lost.update(later.lost)
        self.heard.update(later.heard)
        self.moving.update(later.moving)


def group_bell(name: str) -> int:
    """The hash under which the bell lists waiters for a group."""
    return fnv1a_64(b"group\x00" + name.encode())


def unknown_group(name: str) -> GroupUnknown:
    return GroupUnknown(f"There is no group {name!r}. Make it with PUT /v1/groups/{quote(name, safe='')}.", group=name)


def known_group(core: Core, name: str) -> KnownGroup:
    """A group as of the last commit."""
    known = core.memory(GroupMemory).groups.get(name)
    if known is None:
        raise unknown_group(name)
    return known


def row_so_far(core: Core, draft: RequestDraft, name: str) -> GroupRow | None:
    for note in draft.noted(GroupsSoFar):
        if name in note.rows:
            return note.rows[name]
    known = core.memory(GroupMemory).groups.get(name)
    return None if known is None else known.row


def group_so_far(core: Core, draft: RequestDraft, name: str) -> GroupRow:
    row = row_so_far(core, draft, name)
    if row is None:
        raise unknown_group(name)
    return row


def rows_so_far(core: Core, draft: RequestDraft) -> list[GroupRow]:
    """The rows of all groups as the draft sees them."""
    found: dict[str, GroupRow | None] = {}
    for note in draft.noted(GroupsSoFar):
        found = {**note.rows, **found}
    known = {name: own.row for name, own in core.memory(GroupMemory).groups.items()}
    return [row for row in {**known, **found}.values() if row is not None]


def action_owner_so_far(core: Core, draft: RequestDraft, action: str) -> str | None:
    """The group that has declared an action; None if there is none."""
    return next((row.name for row in rows_so_far(core, draft) if action in row.actions), None)


def membership_so_far(core: Core, draft: RequestDraft, name: str) -> Membership:
    for note in draft.noted(GroupsSoFar):
        if name in note.memberships:
            return note.memberships[name]
    return known_group(core, name).membership


def position_so_far(core: Core, draft: RequestDraft, name: str, partition: int) -> PositionRow:
    for note in draft.noted(GroupsSoFar):
        found = note.positions.get((name, partition))
        if found is not None:
            return found
    return known_group(core, name).positions[partition]


def put_group(core: Core, draft: RequestDraft, row: GroupRow) -> None:
    """Store a new row of a known group."""
    row = msgspec.structs.replace(row, version=new_version(core, draft, row))
    draft.put(GROUPS_HOME, Space.GROUP, group_key(row.name), encode_group(row))
    set_group(core, draft, row)


def new_version(core: Core, draft: RequestDraft, row: GroupRow) -> int:
    """The version for the state of a group in this commit, which may be its deletion."""
    home = core.memory(HomeMemory)
    version = next_version(row, home.newest, core.clock())
    draft.applies.append(partial(home.note_version, version))
    return version


def set_group(core: Core, draft: RequestDraft, row: GroupRow) -> None:
    """Update a group in memory after the commit."""
    draft.note(GroupsSoFar).rows[row.name] = row
    draft.applies.append(partial(_set_row, core, row))
    ring_group(draft, row.name)


def put_position(core: Core, draft: RequestDraft, name: str, partition: int, row: PositionRow) -> None:
    draft.put(partition, Space.GROUP_POSITION, group_key(name), encode_position(row))
    remember_position(core, draft, name, partition, row)


def remember_position(core: Core, draft: RequestDraft, name: str, partition: int, row: PositionRow) -> None:
    """Update a position in memory after the commit. It is stored here, or in the shard that has the partition."""
    draft.note(GroupsSoFar).positions[name, partition] = row
    draft.applies.append(partial(_set_position, core, name, partition, row))


def ring_group(draft: RequestDraft, name: str) -> None:
    """Wake the callers that wait for the group."""
    draft.concerns.append(np.array([group_bell(name)], np.uint64))


def put_moved(core: Core, draft: RequestDraft, name: str, moved: Moved) -> None:
    """Store the members that came and went, and the partitions that were given or freed."""
    before, after = membership_so_far(core, draft, name), moved.membership
    _put_members(core, draft, name, before, after)
    loose = [
        partition
        for partition, (old, new) in enumerate(zip(before.holders, after.holders, strict=True))
        if old != NOBODY and new == NOBODY
    ]
    if core.shard is None:
        _put_givings(core, draft, name, loose, moved)
    else:
        have_moved(core, draft, name, before, {**dict.fromkeys(loose, NOBODY), **dict(moved.givings)}, after)
    draft.note(GroupsSoFar).memberships[name] = after
    draft.applies.append(partial(_set_membership, core, name, moved, loose))
    ring_group(draft, name)


def _put_givings(core: Core, draft: RequestDraft, name: str, loose: Sequence[int], moved: Moved) -> None:
    """Store the positions of freed and given partitions, in a hub that has all partitions."""
    for partition in loose:
        put_position(core, draft, name, partition, freed(position_so_far(core, draft, name, partition)))
    for partition, member_id in moved.givings:
        row = given(position_so_far(core, draft, name, partition), member_id, core.clock())
        put_position(core, draft, name, partition, row)


def have_moved(
    core: Core, draft: RequestDraft, name: str, before: Membership, holders: Mapping[int, bytes], after: Membership
) -> None:
    """At the home of groups: have the shards give these partitions to their new `holders`."""
    lost = {own: one for note in draft.noted(GroupsSoFar) for own, one in note.lost.items()}
    due = {
        partition: _due(
            after.member(member_id),
            partition,
            position_so_far(core, draft, name, partition).generation,
            lost.get(before.holders[partition]),
        )
        for partition, member_id in holders.items()
    }
    draft.note(GroupsSoFar).moving.update((name, partition) for partition in due)
    draft.applies.append(partial(_set_due, core, name, due))


def _due(member: GroupMember | None, partition: int, generation: int, lost: LostMember | None) -> DueMove:
    if lost is None:
        return DueMove(member, generation)
    heard = lost.heard
    if heard is None:
        return DueMove(member, generation, lost.name)
    running = tuple(own.sequence_number for own in heard.running if own.partition == partition)
    return DueMove(member, generation, lost.name, running, heard.at, heard.revision)


def _set_due(core: Core, name: str, due: Mapping[int, DueMove]) -> None:
    known = core.memory(HomeMemory).due
    known.update({(name, partition): move.after(known.get((name, partition))) for partition, move in due.items()})


def _put_members(core: Core, draft: RequestDraft, name: str, before: Membership, after: Membership) -> None:
    home = GROUPS_HOME
    old, new = set(before.members), set(after.members)
    for member in old - new:
        draft.delete(home, Space.GROUP_MEMBER, member_key(name, member.member_id))
    for member in new - old:
        draft.put(home, Space.GROUP_MEMBER, member_key(name, member.member_id), encode_member(member))
    heard = Heard(core.memory(GroupMemory).monotonic(), core.clock())
    came, went = {member.member_id: heard for member in new - old}, [member.member_id for member in old - new]
    draft.applies.append(partial(_set_heard, core, came, went))


def set_membership(core: Core, draft: RequestDraft, name: str, membership: Membership) -> None:
    """Update the holders in memory, as reported by shards."""
    draft.note(GroupsSoFar).memberships[name] = membership
    draft.applies.append(partial(_set_membership, core, name, Moved(membership, ()), []))


def _set_row(core: Core, row: GroupRow) -> None:
    known = core.memory(GroupMemory).groups.get(row.name)
    if known is not None:
        if known.row.wish != row.wish:
            known.forget_skimmed()
        known.row = row


def _set_position(core: Core, name: str, partition: int, row: PositionRow) -> None:
    known = core.memory(GroupMemory).groups.get(name)
    if known is not None:
        known.positions[partition] = row
        core.memory(HomeMemory).settle(name, partition, row)


def _set_membership(core: Core, name: str, moved: Moved, loose: list[int]) -> None:
    memory = core.memory(GroupMemory)
    known = memory.groups.get(name)
    with memory.lock:
        if known is not None:
            known.membership = moved.membership
            known.givings += len(moved.givings)
        for partition in (*loose, *(giving.partition for giving in moved.givings)):
            memory.told.pop((name, partition), None)
    memory.wake.set()


def _set_heard(core: Core, came: dict[bytes, Heard], went: list[bytes]) -> None:
    memory = core.memory(GroupMemory)
    with memory.lock:
        memory.heard.update(came)
        for member_id in went:
            memory.heard.pop(member_id, None)
