"""Beginning and ending groups and their positions on a draft, and the starts of a member's next pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from restante.errors import GenerationStale
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups.group_rows import GroupsSoFar, put_position, ring_group
from restante.hub.groups.home_memory import HomeMemory
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GroupRow, Start, group_key
from restante.model.groups.group_answers import ReadAfter
from restante.model.groups.group_position import PositionRow, begun, decode_position, ended, is_of
from restante.model.groups.membership import Membership, membership_of
from restante.model.shards.group_parts import decode_copy
from restante.model.storage.changes import Space


def enter_group(core: Core, draft: RequestDraft, row: GroupRow) -> None:
    """Add a group to memory after the commit."""
    note, membership = draft.note(GroupsSoFar), membership_of((), (NOBODY,) * core.deed.partition_count)
    note.rows[row.name] = row
    note.memberships[row.name] = membership
    note.positions.update({(row.name, partition): PositionRow() for partition in range(core.deed.partition_count)})
    draft.applies.append(partial(_enter, core, row, membership))


def _enter(core: Core, row: GroupRow, membership: Membership) -> None:
    positions = [PositionRow()] * core.deed.partition_count
    core.memory(GroupMemory).groups[row.name] = KnownGroup(row, positions, membership)


def leave_group(core: Core, draft: RequestDraft, name: str) -> None:
    """Remove a group from memory after the commit."""
    draft.note(GroupsSoFar).rows[name] = None
    draft.applies.append(partial(_leave, core, name))
    ring_group(draft, name)


def _leave(core: Core, name: str) -> None:
    core.memory(GroupMemory).groups.pop(name, None)
    due = core.memory(HomeMemory).due
    for place in [place for place in due if place[0] == name]:
        del due[place]


def last_version(draft: RequestDraft, partition: int, name: str) -> int:
    """The last version of a group, or of its deletion, that a partition has learned; -1 if none."""
    value = draft.get(partition, Space.GROUP_COPY, group_key(name))
    return -1 if value is None else decode_copy(value).version


def begin_partition(core: Core, draft: RequestDraft, partition: int, row: GroupRow) -> None:
    """Store the first position of a group in a partition, unless it has one already."""
    stored = draft.get(partition, Space.GROUP_POSITION, group_key(row.name))
    before = None if stored is None else decode_position(stored)
    if before is not None and is_of(before, row.made_at):
        put_position(core, draft, row.name, partition, msgspec.structs.replace(before, made_at=row.made_at))
        return
    counters = draft.count(partition)
    start = counters.visible if row.start is Start.END else counters.feed_gone
    put_position(core, draft, row.name, partition, begun(before, start, row.made_at))


def end_partition(core: Core, draft: RequestDraft, partition: int, name: str) -> None:
    """End a group's position in a partition. If it had generations, its row stays, so that they are not used again."""
    stored = draft.get(partition, Space.GROUP_POSITION, group_key(name))
    row = PositionRow() if stored is None else decode_position(stored)
    put_position(core, draft, name, partition, ended(row))
    if not row.generation:
        draft.delete(partition, Space.GROUP_POSITION, group_key(name))


def starts_of(known: KnownGroup, member_id: bytes, after: Sequence[ReadAfter]) -> list[int]:
    """Where the pages of each partition start: never before its checkpoint.

    Raises `GenerationStale` unless the member holds all the partitions under these generations.
    """
    rows = [known.positions[each.partition] for each in after]
    stale = [
        {"partition": each.partition, "generation": row.generation}
        for each, row in zip(after, rows, strict=True)
        if row.generation != each.generation or row.holder != member_id
    ]
    if stale:
        named = ", ".join(str(each["partition"]) for each in stale)
        raise GenerationStale(
            f"Partitions were given to somebody since: {named}. Ask with a heartbeat what is yours.", stale=stale
        )
    return [max(each.position, row.position) for each, row in zip(after, rows, strict=True)]
