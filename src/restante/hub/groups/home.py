"""The home of groups, with several shards: it tells the shards about groups, asks who holds what, and has partitions moved.

Every call is repeated until it is answered. Nothing depends on the order of answers: definitions have versions, and a
partition is moved only from the generation that home knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante.calls.shards import LearnGroups, MovePartitions, ReadPositions
from restante.errors import GroupUnknown, Unavailable
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Procedure
from restante.hub.groups.group_rows import (
    GroupsSoFar,
    have_moved,
    membership_so_far,
    position_so_far,
    put_moved,
    remember_position,
    row_so_far,
    set_membership,
)
from restante.hub.groups.home_memory import DueMove, HomeMemory, is_home, require_known
from restante.hub.groups.memory import GroupMemory
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GroupRow, whole_version
from restante.model.groups.group_position import PositionRow
from restante.model.groups.membership import membership_of, settled
from restante.model.shards.group_parts import PartitionMove, PlacedPosition
from restante.model.shards.ranges import by_shard

_RETRY_SECONDS = 0.25
_TURNS_MAX = 3
"""How often a move is tried if home knew another generation than the shard; after that the thread tries again."""


def _shards(core: Core, partitions: Sequence[int] | None = None) -> list[tuple[int, ...]]:
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    chosen = range(core.deed.partition_count) if partitions is None else partitions
    return by_shard(core.shard.carrier.ranges(), chosen)


# --- What groups are --------------------------------------------------------------------------------------------------


def telling_all(core: Core, names: Sequence[str], deleted: tuple[tuple[str, int], ...] = ()) -> Procedure[None]:
    """Tell all shards, after a commit about groups. If one does not answer, it is told later, and the caller must repeat."""
    if core.shard is None:
        return
    if (yield from telling(core, names, deleted)):
        core.memory(GroupMemory).wake.set()
        raise Unavailable("It is decided, and some shards have not heard of it yet. Send the same again.")


def telling(core: Core, names: Sequence[str] = (), deleted: tuple[tuple[str, int], ...] = ()) -> Procedure[bool]:
    """Tell shards about these groups, or about all groups if they may have missed something; return whether one was silent."""
    home, known, silent = core.memory(HomeMemory), core.memory(GroupMemory).groups, False
    for partitions in _shards(core):
        missed = home.missed(partitions)
        if missed:
            version, rows = core.do_between_commits(partial(_all_groups, core))
        else:
            version, rows = 0, tuple(own.row for name, own in tuple(known.items()) if name in names)
        try:
            if version or rows or deleted:
                yield Ask(partitions[0], LearnGroups(partitions, rows, deleted, version))
            home.caught_up(missed)
        except Unavailable:
            home.miss(partitions)
            silent = True
    return silent


def _all_groups(core: Core) -> tuple[int, tuple[GroupRow, ...]]:
    """All groups, and a version below that of any later group. Call it between commits.

    During a commit, its group would be left out here although its version is lower than the one returned, and shards would
    take it for deleted. The version is derived from stored ones, because clocks of different homes may differ.
    """
    version = whole_version(core.memory(HomeMemory).newest)
    return version, tuple(own.row for own in core.memory(GroupMemory).groups.values())


# --- Who has what -----------------------------------------------------------------------------------------------------


def knowing_holders(core: Core) -> Procedure[None]:
    """Make sure that all holders are known, before a decision that depends on them."""
    if core.memory(HomeMemory).unknown:
        yield from telling(core)
        yield from asking(core)
        require_known(core)


def asking(core: Core) -> Procedure[None]:
    """Ask each shard who holds its partitions."""
    names = _asked_about(core)
    for partitions in _shards(core) if names else ():
        try:
            found: tuple[PlacedPosition, ...] = yield Ask(partitions[0], ReadPositions(partitions, names))
        except Unavailable:
            continue
        core.commit(partial(plan_heard, core, names, partitions, found))
    if names:
        core.commit(partial(_plan_agree, core, names))


def _asked_about(core: Core) -> tuple[str, ...]:
    """The groups whose partitions may have holders."""
    known, unknown = core.memory(GroupMemory).groups, core.memory(HomeMemory).unknown
    return tuple(name for name, own in tuple(known.items()) if unknown or own.has_members)


def plan_heard(
    core: Core, names: Sequence[str], partitions: Sequence[int], found: Sequence[PlacedPosition], draft: RequestDraft
) -> None:
    home = core.memory(HomeMemory)
    for placed in found:
        _remember(core, draft, placed)
    if len(found) < len(names) * len(partitions):
        draft.applies.append(partial(home.miss, partitions))
        return
    unknown = home.unknown.difference(*(note.heard for note in draft.noted(GroupsSoFar)))
    draft.note(GroupsSoFar).heard.update(partitions)
    if unknown and unknown.issubset(partitions):
        for name in names:
            _settle(core, draft, name)
    draft.applies.append(partial(home.unknown.difference_update, partitions))


def _remember(core: Core, draft: RequestDraft, placed: PlacedPosition) -> None:
    """Remember a shard's row, unless it is older than the known one, or of an earlier group of the same name."""
    row = row_so_far(core, draft, placed.name)
    if row is None or row.made_at != placed.row.made_at:
        return
    known = position_so_far(core, draft, placed.name, placed.partition)
    if known == placed.row:
        settle = core.memory(HomeMemory).settle
        draft.applies.append(partial(settle, placed.name, placed.partition, placed.row))
    elif known.generation <= placed.row.generation:
        remember_position(core, draft, placed.name, placed.partition, placed.row)


def _settle(core: Core, draft: RequestDraft, name: str) -> None:
    """Begin to decide about a group, now that all holders are known, and give away the partitions without a holder."""
    if row_so_far(core, draft, name) is None:
        return
    rows = [position_so_far(core, draft, name, own) for own in range(core.deed.partition_count)]
    members = membership_so_far(core, draft, name).members
    set_membership(core, draft, name, membership_of(members, [row.holder for row in rows]))
    put_moved(core, draft, name, settled(membership_so_far(core, draft, name)))


def _plan_agree(core: Core, names: Sequence[str], draft: RequestDraft) -> None:
    for name in names:
        if not core.memory(HomeMemory).unknown and row_so_far(core, draft, name) is not None:
            _agree(core, draft, name)


def _agree(core: Core, draft: RequestDraft, name: str) -> None:
    """Move partitions again whose holders differ from home's decision, because a shard obeyed an earlier home.

    Partitions that are to be moved anyway, also by this very commit, are left out: a second move would make a new generation,
    of which the member was not told.
    """
    membership, due = membership_so_far(core, draft, name), set(core.memory(HomeMemory).due_in(name))
    due.update(partition for note in draft.noted(GroupsSoFar) for group, partition in note.moving if group == name)
    other = {
        partition: holder
        for partition, holder in enumerate(membership.holders)
        if partition not in due and position_so_far(core, draft, name, partition).holder != holder
    }
    if other:
        have_moved(core, draft, name, membership, other, membership)


# --- Moves ------------------------------------------------------------------------------------------------------------


def carrying_moves(core: Core, name: str) -> Procedure[None]:
    """Have the decided moves carried out as far as possible now; the thread goes on with the rest."""
    if core.shard is not None:
        yield from moving(core, name)
        if core.memory(HomeMemory).due:
            core.memory(GroupMemory).wake.set()


def moving(core: Core, name: str) -> Procedure[None]:
    home = core.memory(HomeMemory)
    silent: set[int] = set()
    for _ in range(_TURNS_MAX):
        made_at, due = core.do_between_commits(partial(_moves_due, core, name))
        ours = {partition: move for partition, move in due.items() if partition not in silent}
        for partitions in _shards(core, tuple(ours)) if ours else ():
            moves = tuple(ours[partition] for partition in partitions)
            try:
                rows = yield Ask(partitions[0], MovePartitions(name, made_at, moves))
            except (Unavailable, GroupUnknown) as error:
                silent.update(partitions)
                if isinstance(error, GroupUnknown):
                    home.miss(partitions)
                continue
            core.commit(partial(_plan_moved, core, rows))


def _moves_due(core: Core, name: str) -> tuple[int, dict[int, PartitionMove]]:
    """When the group was made, and its due moves with the generations they start from. Call it between commits."""
    memory = core.memory(GroupMemory)
    known, now = memory.groups.get(name), memory.monotonic()
    if known is None:
        return 0, {}
    return known.row.made_at, {
        partition: _sent(partition, known.positions[partition], move, now)
        for partition, move in core.memory(HomeMemory).due_in(name).items()
    }


def _sent(partition: int, row: PositionRow, move: DueMove, now: float) -> PartitionMove:
    member_id, member = (NOBODY, "") if move.member is None else (move.member.member_id, move.member.name)
    ago = max(0.0, now - move.said_at)
    return PartitionMove(partition, row.generation, member_id, member, move.lost, move.running, ago, move.revision)


def _plan_moved(core: Core, rows: Sequence[PlacedPosition], draft: RequestDraft) -> None:
    for placed in rows:
        _remember(core, draft, placed)


# --- The thread -------------------------------------------------------------------------------------------------------


def home_patience(core: Core) -> float | None:
    """How long until home must ask something; None if only an event can make it necessary."""
    memory, home = core.memory(GroupMemory), core.memory(HomeMemory)
    if memory.untold or home.due or home.unknown or home.unlearned:
        return _RETRY_SECONDS
    if is_home(core) and any(known.membership.members for known in tuple(memory.groups.values())):
        return core.settings.groups.heartbeat_seconds
    return None


def keeping_home(core: Core) -> Procedure[int]:
    """Do home's pending work; return how many groups had partitions to be moved."""
    if core.memory(HomeMemory).unlearned:
        yield from telling(core)
    yield from asking(core)
    names = {name for name, _ in tuple(core.memory(HomeMemory).due)}
    for name in sorted(names):
        yield from moving(core, name)
    return len(names)
