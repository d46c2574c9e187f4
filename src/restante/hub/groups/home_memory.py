"""The memory of the home of groups: the moves that other shards must carry out. With a single shard it is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from restante.errors import Unavailable
from restante.hub.engine.core import Core
from restante.hub.groups.memory import gather_homes, load_groups
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GROUPS_HOME, GroupRow
from restante.model.groups.group_position import PositionRow
from restante.model.groups.membership import GroupMember
from restante.model.shards.group_parts import decode_copy
from restante.model.storage.changes import Space
from restante.ports.store import StoreReader


@dataclass(frozen=True, slots=True)
class DueMove:
    """A decision that the shard of a partition must give it to a member, or to nobody."""

    member: GroupMember | None
    generation: int
    """The generation of the partition at the time of the decision."""
    lost: str = ""
    """The name of its previous holder, if that member is gone without having left."""
    running: tuple[int, ...] = ()
    """The last reported work of that member."""
    said_at: float = 0.0
    revision: int = 0
    """The number of that report."""

    def after(self, earlier: DueMove | None) -> DueMove:
        """This move as the successor of one that was not carried out, whose lost member must not be forgotten."""
        if earlier is None or self.lost or not earlier.lost:
            return self
        return replace(earlier, member=self.member, generation=self.generation)

    def is_done(self, row: PositionRow) -> bool:
        """Whether the shard with this position has carried out the move."""
        if self.member is None:
            return row.holder == NOBODY
        return row.holder == self.member.member_id and row.generation > self.generation


@dataclass(slots=True)
class HomeMemory:
    """The pending work of the home of groups. Only the committer's thread changes `due` and `unknown`."""

    due: dict[tuple[str, int], DueMove] = field(default_factory=dict)
    """The due moves, by group and partition."""
    unknown: set[int] = field(default_factory=set)
    """Partitions whose holders have not been learned since the hub was opened."""
    unlearned: dict[int, int] = field(default_factory=dict)
    """Partitions whose shards may have outdated groups, with the number of the failure that caused it."""
    newest: int = 0
    """The highest version of any group, even deleted ones. Clocks of other homes may have been ahead of ours."""
    _failures: Iterator[int] = field(default_factory=count)

    def note_version(self, version: int) -> None:
        self.newest = max(self.newest, version)

    def miss(self, partitions: Iterable[int]) -> None:
        """Note that the shards of these partitions may have missed something."""
        self.unlearned.update(dict.fromkeys(partitions, next(self._failures)))

    def missed(self, partitions: Iterable[int]) -> dict[int, int]:
        return {own: self.unlearned[own] for own in partitions if own in self.unlearned}

    def caught_up(self, missed: Mapping[int, int]) -> None:
        """Note that shards have learned all groups since these failures. Partitions with newer failures stay unlearned."""
        for partition, failure in missed.items():
            if self.unlearned.get(partition) == failure:
                del self.unlearned[partition]

    def settle(self, group: str, partition: int, row: PositionRow) -> None:
        """Drop a move that a shard's position shows to be carried out.

        This must happen with the first news of the position. If a move stayed due after its new generation is known, it would
        be sent again from that generation, and carried out twice, and the member would know an outdated generation.
        """
        move = self.due.get((group, partition))
        if move is not None and move.is_done(row):
            del self.due[group, partition]

    def due_in(self, group: str) -> dict[int, DueMove]:
        return {partition: move for (name, partition), move in tuple(self.due.items()) if name == group}


def is_home(core: Core) -> bool:
    """Whether this hub is one of several shards, and decides about groups."""
    return core.shard is not None and GROUPS_HOME in core.owned


def remember_groups(core: Core, rows: StoreReader) -> None:
    """Load the stored groups of a hub that is being opened."""
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
    """The memory of a home that was just opened: it must tell shards all groups, and ask for all holders."""
    home = HomeMemory(unknown=set(range(partition_count)) if rows else set(), newest=newest)
    home.miss(range(partition_count))
    return home


def require_known(core: Core) -> None:
    """Raise `Unavailable` while the holders of some partitions are unknown."""
    if core.memory(HomeMemory).unknown:
        raise Unavailable("The hub was just opened, and some shards have not said who has which partition. Try again.")
