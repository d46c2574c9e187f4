"""The home of groups, where shards have the other partitions: it tells them what groups are, asks who has what, has it moved.

Whatever is not answered is asked again, until it is. Nothing rests on the order in which answers come: a definition has a
version, and a partition is moved only from the generation that home knows.
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
from restante.model.groups.group import GroupRow, whole_version
from restante.model.groups.group_position import PositionRow
from restante.model.groups.membership import membership_of, settled
from restante.model.groups.shares import NOBODY
from restante.model.shards.group_parts import PartitionMove, PlacedPosition
from restante.model.shards.ranges import by_shard

_RETRY_SECONDS = 0.25
_TURNS_MAX = 3
"""How often a partition is moved whose generation was not the one that home knew; then the thread goes on."""


def _shards(core: Core, partitions: Sequence[int] | None = None) -> list[tuple[int, ...]]:
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    chosen = range(core.deed.partition_count) if partitions is None else partitions
    return by_shard(core.shard.carrier.ranges(), chosen)


# --- What groups are --------------------------------------------------------------------------------------------------


def telling_all(core: Core, names: Sequence[str], deleted: tuple[tuple[str, int], ...] = ()) -> Procedure[None]:
    """After a commit about groups: answered when all shards know. Who is silent is told later, and the caller tries again."""
    if core.shard is None:
        return
    if (yield from telling(core, names, deleted)):
        core.memory(GroupMemory).wake.set()
        raise Unavailable("It is decided, and some shards have not heard of it yet. Send the same again.")


def telling(core: Core, names: Sequence[str] = (), deleted: tuple[tuple[str, int], ...] = ()) -> Procedure[bool]:
    """Tell of all groups to the shards that may have missed something. Gives whether one was silent."""
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
    """All groups, and the version as of which there are no others, as of one moment between two commits: a later group has a higher one.

    Otherwise a group whose commit was under way would be left out, and be older than the word that there is no such group.
    The version goes by what is stored, and not by a clock: that of another home may be an hour behind.
    """
    version = whole_version(core.memory(HomeMemory).newest)
    return version, tuple(own.row for own in core.memory(GroupMemory).groups.values())


# --- Who has what -----------------------------------------------------------------------------------------------------


def knowing_holders(core: Core) -> Procedure[None]:
    """Before something is decided that depends on it."""
    if core.memory(HomeMemory).unknown:
        yield from telling(core)
        yield from asking(core)
        require_known(core)


def asking(core: Core) -> Procedure[None]:
    """Ask each shard who has which partition."""
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
    """Groups of which somebody may have something."""
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
    """A row as a shard has it, unless it is older than what is known, or of a group of the same name before this one."""
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
    """All is known of who has what: from now on home decides. What nobody has is given."""
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
    """Move once more what a shard has otherwise than home decided: it heard of a home before this one.

    What is to be moved anyway is left out, be it by a decision in the same commit: moved twice, a partition would be another one
    than its member was told.
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
    """Have done what was decided, as far as it can be now; the thread goes on with the rest."""
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
    """When the group was made, and its moves that are due with the generations that they go from, as of one moment between two commits."""
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
    return PartitionMove(partition, row.generation, member_id, member, move.lost, move.running, ago)


def _plan_moved(core: Core, rows: Sequence[PlacedPosition], draft: RequestDraft) -> None:
    for placed in rows:
        _remember(core, draft, placed)


# --- The thread -------------------------------------------------------------------------------------------------------


def home_patience(core: Core) -> float | None:
    """How long until there is something to ask; None: until something happens."""
    memory, home = core.memory(GroupMemory), core.memory(HomeMemory)
    if memory.untold or home.due or home.unknown or home.unlearned:
        return _RETRY_SECONDS
    if is_home(core) and any(known.membership.members for known in tuple(memory.groups.values())):
        return core.settings.groups.heartbeat_seconds
    return None


def keeping_home(core: Core) -> Procedure[int]:
    """Ask what is to be asked; gives how many groups had something to be moved."""
    if core.memory(HomeMemory).unlearned:
        yield from telling(core)
    yield from asking(core)
    names = {name for name, _ in tuple(core.memory(HomeMemory).due)}
    for name in sorted(names):
        yield from moving(core, name)
    return len(names)
