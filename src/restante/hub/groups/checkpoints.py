"""Checkpoints, and resets of positions by an operator. Each writes one small row in its partition; many share a commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from restante.calls.groups import ResetPosition, WriteCheckpoint
from restante.calls.shards import NotePosition
from restante.errors import GroupUnknown, InvalidRequest, PositionAhead, PositionGone, Unavailable
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Procedure, run
from restante.hub.feed.feed import read_feed
from restante.hub.groups.group_rows import (
    group_so_far,
    membership_so_far,
    position_so_far,
    put_moved,
    put_position,
    remember_position,
    ring_group,
)
from restante.hub.groups.home import carrying_moves, knowing_holders
from restante.hub.groups.memory import GroupMemory, UntoldPosition
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.feed.feed_answers import FeedWish
from restante.model.groups.group import GROUPS_HOME, Start
from restante.model.groups.group_answers import Checkpointed
from restante.model.groups.group_names import check_group
from restante.model.groups.group_position import PositionRow, checkpointed, reset
from restante.model.groups.membership import released
from restante.model.shards.group_parts import PlacedPosition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = FeedWish(columns=("sequence_number", "at"))


def checkpointing(core: Core, call: WriteCheckpoint, _: Grant) -> Procedure[Checkpointed]:
    written = core.submit(checkpoint_request(core, call))
    if asks_home(core, call.release):
        yield from _telling_of(core, call.group, call.partition, UntoldPosition(call.generation, call.release))
    return written


def checkpoint_request(core: Core, call: WriteCheckpoint) -> Planned[Checkpointed]:
    """A checkpoint request, to be submitted."""
    name = check_group(call.group)
    check_partition(core, call.partition)
    check_number("position", call.position)
    check_number("generation", call.generation)
    return Planned(partial(plan_checkpoint, core, name, call))


def check_number(parameter: str, number: int) -> None:
    if not 0 <= number < 2**63:
        raise InvalidRequest(f"{parameter} must be a number, 0 or more, not {number}.", parameter=parameter)


def plan_checkpoint(core: Core, name: str, call: WriteCheckpoint, draft: RequestDraft) -> Checkpointed:
    group_so_far(core, draft, name)
    before, end = position_so_far(core, draft, name, call.partition), draft.count(call.partition).visible
    row = checkpointed(before, call.position, call.generation, end=end, now=core.clock())
    if row is not before:
        put_position(core, draft, name, call.partition, row)
    if core.shard is None and _is_release(core, draft, name, call.partition, call.release):
        put_moved(core, draft, name, released(membership_so_far(core, draft, name), {call.partition}))
    return _answer(call.partition, row)


def _is_release(core: Core, draft: RequestDraft, name: str, partition: int, release: bool | None) -> bool:  # noqa: FBT001
    """Whether a checkpoint releases its partition. One from before its holder was told to give it up releases nothing."""
    if release is False:
        return False
    if (name, partition) in core.memory(GroupMemory).told:
        return True
    membership = membership_so_far(core, draft, name)
    return release is True and membership.holders[partition] != membership.targets[partition]


def asks_home(core: Core, release: bool | None) -> bool:  # noqa: FBT001
    """Whether a checkpoint may be a release that the home of groups, in another shard, must decide."""
    return core.shard is not None and release is not False


def tell_home(core: Core, name: str, partition: int, said: UntoldPosition) -> None:
    """Tell the home of groups about a position, after its commit in a shard. If home does not answer, it is told later."""
    run(core, _telling_of(core, name, partition, said))


def _telling_of(core: Core, name: str, partition: int, said: UntoldPosition) -> Procedure[None]:
    core.memory(GroupMemory).untold[name, partition] = said
    yield from telling_home(core)


def telling_home(core: Core) -> Procedure[int]:
    """Tell home all positions that it has not heard of; return how many. A newer position of a partition stays to be told."""
    untold, told = core.memory(GroupMemory).untold, 0
    for (name, partition), said in tuple(untold.items()):
        try:
            yield from _telling_one(core, name, partition, said)
        except GroupUnknown:
            pass  # The group was deleted.
        except Unavailable:
            core.memory(GroupMemory).wake.set()
            continue
        told += 1
        if untold.get((name, partition)) is said:
            untold.pop((name, partition), None)
    return told


def _telling_one(core: Core, name: str, partition: int, said: UntoldPosition) -> Procedure[None]:
    known = core.memory(GroupMemory).groups.get(name)
    if known is not None:
        row = known.positions[partition]
        release = said.release if row.generation == said.generation else False
        yield Ask(GROUPS_HOME, NotePosition(PlacedPosition(name, partition, row), release))


def noting_position(core: Core, call: NotePosition, _: Grant) -> Procedure[None]:
    """At the home of groups: note a position that a shard has written. If it is a release, the partition is given on."""
    core.require_owned(GROUPS_HOME)
    yield from knowing_holders(core)
    core.commit(partial(_plan_note, core, call))
    yield from carrying_moves(core, call.placed.name)


def _plan_note(core: Core, call: NotePosition, draft: RequestDraft) -> None:
    name, partition, row = call.placed.name, call.placed.partition, call.placed.row
    group_so_far(core, draft, name)
    known, membership = position_so_far(core, draft, name, partition), membership_so_far(core, draft, name)
    if row.generation < known.generation or row.made_at != group_so_far(core, draft, name).made_at:
        return  # The partition was given on since, or the group was made again.
    remember_position(core, draft, name, partition, row)
    if row.generation > known.generation:
        draft.applies.append(partial(_forget_told, core, name, partition))
    elif row.holder == membership.holders[partition] and _is_release(core, draft, name, partition, call.release):
        put_moved(core, draft, name, released(membership, {partition}))


def resetting(core: Core, call: ResetPosition, _: Grant) -> Procedure[Checkpointed]:
    name = check_group(call.group)
    check_partition(core, call.partition)
    find = _finder(core, call)
    written = core.commit(partial(_plan_reset, core, name, call.partition, find))
    if core.shard is not None:
        yield from _telling_of(core, name, call.partition, UntoldPosition(written.generation, release=False))
    return written


def _finder(core: Core, call: ResetPosition) -> Callable[[RequestDraft], int]:
    """A function that gives the new position when the commit is planned. For a time, the position is looked up before."""
    if isinstance(call.to, datetime):
        position = position_at(core, call.partition, call.to)
        return lambda _: position
    if isinstance(call.to, Start):
        to_end = call.to is Start.END
        return lambda draft: draft.count(call.partition).visible if to_end else draft.count(call.partition).feed_gone
    return partial(_given_number, call.partition, call.to)


def _given_number(partition: int, number: int, draft: RequestDraft) -> int:
    check_number("to", number)
    counters = draft.count(partition)
    if number > counters.visible:
        text = f"The feed of partition {partition} ends at {counters.visible}, before {number}."
        raise PositionAhead(text, end=counters.visible)
    if number < counters.feed_gone:
        first = counters.feed_gone + 1
        raise PositionGone(f"The feed of partition {partition} begins with {first}, after {number}.", first=first)
    return number


def _plan_reset(
    core: Core, name: str, partition: int, find: Callable[[RequestDraft], int], draft: RequestDraft
) -> Checkpointed:
    group_so_far(core, draft, name)
    row = reset(position_so_far(core, draft, name, partition), find(draft), core.clock())
    put_position(core, draft, name, partition, row)
    draft.applies.append(partial(_forget_told, core, name, partition))
    ring_group(draft, name)
    return _answer(partition, row)


def _answer(partition: int, row: PositionRow) -> Checkpointed:
    return Checkpointed(partition=partition, generation=row.generation, position=row.position)


def _forget_told(core: Core, name: str, partition: int) -> None:
    """Forget that the holder was told. It is told again under the new generation if it must still give up the partition."""
    memory = core.memory(GroupMemory)
    with memory.lock:
        memory.told.pop((name, partition), None)


def position_at(core: Core, partition: int, time: datetime) -> int:
    """The number before the first change at a time or later, found by bisection: numbers and times ascend together."""
    if time.tzinfo is None:
        raise InvalidRequest("A time must say its zone.", parameter="to")
    wanted = (time - _EPOCH) // timedelta(microseconds=1)
    counters = core.partitions[partition].counters
    low, high = counters.feed_gone, counters.visible
    while low < high:
        middle = (low + high) // 2
        number, at = _first_after(core, partition, middle)
        if at is None or at >= wanted:
            high = middle
        else:
            low = number
    return low


def _first_after(core: Core, partition: int, position: int) -> tuple[int, int | None]:
    """The first change after a position, and when it happened."""
    table = read_feed(core, partition, position, _FIRST, 1).table
    if not table.num_rows:
        return position, None
    at = table["at"][0].as_py()
    return int(table["sequence_number"][0].as_py()), (at - _EPOCH) // timedelta(microseconds=1)
