"""The memory of the home of groups: what it has the other shards do. A hub that has all partitions has nothing of this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from restante.errors import Unavailable
from restante.hub.engine.core import Core
from restante.hub.groups.memory import gather_homes, load_groups
from restante.model.groups.group import GROUPS_HOME, GroupRow
from restante.model.groups.group_position import PositionRow
from restante.model.groups.membership import GroupMember
from restante.model.groups.shares import NOBODY
from restante.model.shards.group_parts import decode_copy
from restante.model.storage.changes import Space
from restante.ports.store import StoreReader


@dataclass(frozen=True, slots=True)
class DueMove:
    """A partition is to be given to somebody, or to nobody, by the shard that has it."""

    member: GroupMember | None
    generation: int
    """The generation of the partition when this was decided."""
    lost: str = ""
    """The name of the member that had it, if that one did not leave."""
    running: tuple[int, ...] = ()
    """The work that the member said last that it does."""
    said_at: float = 0.0

    def after(self, earlier: DueMove | None) -> DueMove:
        """This move in the place of an earlier one that was not carried out: members that were lost before are not forgotten."""
        if earlier is None or self.lost or not earlier.lost:
            return self
        return replace(self, lost=earlier.lost, running=earlier.running, said_at=earlier.said_at)

    def is_done(self, row: PositionRow) -> bool:
        """Whether the shard whose position this is has carried the move out."""
        if self.member is None:
            return row.holder == NOBODY
        return row.holder == self.member.member_id and row.generation > self.generation


@dataclass(slots=True)
class HomeMemory:
    """The moves that the home of groups has other shards do. Only the committer's thread changes `due` and `unknown`."""

    due: dict[tuple[str, int], DueMove] = field(default_factory=dict)
    """By group and partition."""
    unknown: set[int] = field(default_factory=set)
    """Partitions of which it is not known since the hub was opened who has them."""
    unlearned: dict[int, int] = field(default_factory=dict)
    """Partitions whose shards may not know all groups as they are; the number says since which failure."""
    newest: int = 0
    """The highest version that a group has had, be it that it was deleted. Clocks of other homes may have been ahead."""
    _failures: Iterator[int] = field(default_factory=count)

    def note_version(self, version: int) -> None:
        self.newest = max(self.newest, version)

    def miss(self, partitions: Iterable[int]) -> None:
        """Note that the shards of these partitions may have missed something."""
        self.unlearned.update(dict.fromkeys(partitions, next(self._failures)))

    def missed(self, partitions: Iterable[int]) -> dict[int, int]:
        return {own: self.unlearned[own] for own in partitions if own in self.unlearned}

    def caught_up(self, missed: Mapping[int, int]) -> None:
        """They have heard of all groups, since these failures; what failed meanwhile is still to be told."""
        for partition, failure in missed.items():
            if self.unlearned.get(partition) == failure:
                del self.unlearned[partition]

    def settle(self, group: str, partition: int, row: PositionRow) -> None:
        """A shard has this position now: a move that it has carried out is due no more.

        It counts with whatever tells of the position first. A move that were still due once its new generation is known would be
        asked for from that generation, and be carried out twice: the member would have been told a generation that is past.
        """
        move = self.due.get((group, partition))
        if move is not None and move.is_done(row):
            del self.due[group, partition]

    def due_in(self, group: str) -> dict[int, DueMove]:
        return {partition: move for (name, partition), move in tuple(self.due.items()) if name == group}


def is_home(core: Core) -> bool:
    """Whether this shard, of several, decides about groups."""
    return core.shard is not None and GROUPS_HOME in core.owned


def remember_groups(core: Core, rows: StoreReader) -> None:
    """Remember the groups that a hub has stored which is being opened."""
    is_shard = core.shard is not None
    if not is_shard and gather_homes(core.store, rows, core.owned, core.fence):
        rows = core.store
    memory = load_groups(rows, core.deed.partition_count, core.owned, core.clock(), is_shard=is_shard)
    core.remember(memory)
    if is_home(core):
        known = [own.row for own in memory.groups.values()]
        core.remember(_begin_home(core.deed.partition_count, known, _newest(rows, known)))


def _newest(store: StoreReader, rows: Sequence[GroupRow]) -> int:
    copies = [decode_copy(value) for _, value in store.scan(GROUPS_HOME, Space.GROUP_COPY)]
    return max([0, *(row.version for row in rows), *(copy.version for copy in copies)])


def _begin_home(partition_count: int, rows: Sequence[GroupRow], newest: int) -> HomeMemory:
    """Begin the home of a hub that was just opened: all is to be told, and who has what is to be asked."""
    home = HomeMemory(unknown=set(range(partition_count)) if rows else set(), newest=newest)
    home.miss(range(partition_count))
    return home


def require_known(core: Core) -> None:
    """`Unavailable` while it is not known who has which partition."""
    if core.memory(HomeMemory).unknown:
        raise Unavailable("The hub was just opened, and some shards have not said who has which partition. Try again.")
