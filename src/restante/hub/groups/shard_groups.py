"""Groups in a shard: it keeps copies of the definitions at home, and gives partitions as home says. Calls may come late or twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante.calls.shards import LearnGroups, MovePartitions, ReadPositions
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups.group_rows import (
    group_so_far,
    position_so_far,
    put_position,
    ring_group,
    row_so_far,
    set_group,
    unknown_group,
)
from restante.hub.groups.group_starts import (
    begin_partition,
    end_partition,
    enter_group,
    last_version,
    leave_group,
)
from restante.hub.groups.memory import GroupMemory, Heard
from restante.model.access.access import Grant
from restante.model.groups.group import GroupRow, group_key
from restante.model.groups.group_answers import Running
from restante.model.groups.group_position import PositionRow, freed, given
from restante.model.groups.membership import GroupMember
from restante.model.shards.group_parts import GroupCopy, PartitionMove, PlacedPosition, decode_copy, encode_copy
from restante.model.storage.changes import Space


def learn_groups(core: Core, call: LearnGroups, _: Grant) -> None:
    _require_owned(core, call.partitions)
    core.commit(partial(_plan_learn, core, call))


def _require_owned(core: Core, partitions: Sequence[int]) -> None:
    for partition in partitions:
        core.require_owned(partition)


def _plan_learn(core: Core, call: LearnGroups, draft: RequestDraft) -> None:
    for row in call.groups:
        _learn(core, draft, call.partitions, row)
    named = {row.name for row in call.groups}
    left = _left_over(draft, call.partitions, named, call.whole) if call.whole else {}
    for name, version in (*call.deleted, *left.items()):
        _forget(core, draft, call.partitions, name, version)


def _learn(core: Core, draft: RequestDraft, partitions: Sequence[int], row: GroupRow) -> None:
    """Take over a definition if its version is newer, and begin the positions that have not begun."""
    new = [partition for partition in partitions if last_version(draft, partition, row.name) < row.version]
    known = row_so_far(core, draft, row.name)
    if known is None or known.made_at != row.made_at:
        if not new:
            return  # The group was deleted later, or made again.
        enter_group(core, draft, row)
    elif known.version < row.version:
        set_group(core, draft, row)
    for partition in new:
        copy = encode_copy(GroupCopy(row.version, row))
        draft.put(partition, Space.GROUP_COPY, group_key(row.name), copy)
        begin_partition(core, draft, partition, row)


def _left_over(draft: RequestDraft, partitions: Sequence[int], named: set[str], whole: int) -> dict[str, int]:
    """The names of groups that no longer exist but have copies here, each with the version of the complete list."""
    found = [
        (key.decode(), decode_copy(value))
        for partition in partitions
        for key, value in draft.scan_prefix(partition, Space.GROUP_COPY, b"")
    ]
    return {name: whole for name, copy in found if name not in named and copy.row is not None and copy.version < whole}


def _forget(core: Core, draft: RequestDraft, partitions: Sequence[int], name: str, version: int) -> None:
    for partition in partitions:
        if last_version(draft, partition, name) < version:
            draft.put(partition, Space.GROUP_COPY, group_key(name), encode_copy(GroupCopy(version, None)))
            end_partition(core, draft, partition, name)
    known = row_so_far(core, draft, name)
    if known is not None and known.version < version:
        leave_group(core, draft, name)


def move_partitions(core: Core, call: MovePartitions, _: Grant) -> tuple[PlacedPosition, ...]:
    _require_owned(core, [move.partition for move in call.moves])
    return core.commit(partial(_plan_move, core, call))


def _plan_move(core: Core, call: MovePartitions, draft: RequestDraft) -> tuple[PlacedPosition, ...]:
    if group_so_far(core, draft, call.name).made_at != call.made_at:
        raise unknown_group(call.name)
    moved = [(move.partition, _moved(core, draft, call.name, move)) for move in call.moves]
    ring_group(draft, call.name)
    return tuple(PlacedPosition(call.name, partition, row) for partition, row in moved)


def _moved(core: Core, draft: RequestDraft, name: str, move: PartitionMove) -> PositionRow:
    before = position_so_far(core, draft, name, move.partition)
    if before.generation != move.generation:
        return before
    if move.lost and before.holder:
        _tell_of_lost(core, draft, name, before, move)
    after = given(before, move.member_id, core.clock()) if move.member_id else freed(before)
    if after != before:
        put_position(core, draft, name, move.partition, after)
        draft.applies.append(partial(_note_name, core, move))
    return after


def _note_name(core: Core, move: PartitionMove) -> None:
    memory = core.memory(GroupMemory)
    holders = {row.holder for known in memory.groups.values() for row in known.positions}
    memory.names = {own: name for own, name in memory.names.items() if own in holders}
    memory.names[move.member_id] = move.member


def _tell_of_lost(core: Core, draft: RequestDraft, name: str, before: PositionRow, move: PartitionMove) -> None:
    """Report a partition whose holder is gone without having left.

    Its work is what it stated last, here or at home, and what it was handed since.
    """
    memory = core.memory(GroupMemory)
    heard, running = memory.working.get(before.holder), set(move.running)
    if heard is not None:
        here = {own.sequence_number for own in heard.running if own.partition == move.partition}
        handed = {own.sequence_number for own in heard.presumed if own.partition == move.partition}
        running = (here if _said_later(memory, heard, move) else running) | handed
    doing = [Running(partition=move.partition, sequence_number=number) for number in sorted(running)]
    for hear in memory.lost:
        hear(draft, name, GroupMember(before.holder, move.lost, 0), doing)


def _said_later(memory: GroupMemory, heard: Heard, move: PartitionMove) -> bool:
    """Whether a member's statement here is later than the one at home: by their numbers, as the earlier may arrive last."""
    if heard.revision and move.revision:
        return heard.revision >= move.revision
    return memory.monotonic() - heard.at <= move.said_seconds_ago


def read_positions(core: Core, call: ReadPositions, _: Grant) -> tuple[PlacedPosition, ...]:
    _require_owned(core, call.partitions)
    known = core.memory(GroupMemory).groups
    found = [
        PlacedPosition(name, partition, known[name].positions[partition])
        for name in call.names
        if name in known
        for partition in call.partitions
    ]
    core.store.require_owned()
    return tuple(found)
