"""The memory of groups.

The rows are as stored, and only the committer's thread changes them. Heartbeats, and what members were told, exist only in
memory, under a lock. When the hub is opened, every member counts as just heard, and none as told to give anything up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from restante.hub.engine.plan import RequestDraft
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GROUPS_HOME, GroupRow, decode_group
from restante.model.groups.group_answers import Running
from restante.model.groups.group_position import PositionRow, decode_position, freed
from restante.model.groups.membership import GroupMember, Membership, decode_member, key_group, membership_of
from restante.model.shards.group_parts import decode_copy
from restante.model.storage.changes import Changes, Space
from restante.ports.store import Store, StoreReader

LeaseLost = Callable[[RequestDraft, str, GroupMember, Sequence[Running]], None]
"""A function called in the commit that ends a lease: with the group, the member, and its last known work."""


@dataclass(slots=True)
class KnownGroup:
    """One group."""

    row: GroupRow
    positions: list[PositionRow]
    """The positions, by partition."""
    membership: Membership
    skimmed: list[tuple[int, int]] = field(default_factory=list)
    """For each partition a generation and the number up to which it has found nothing for the group after its position."""
    overtaken: int = 0
    givings: int = 0

    def __post_init__(self) -> None:
        self.forget_skimmed()

    def forget_skimmed(self) -> None:
        self.skimmed = [(0, 0)] * len(self.positions)

    def passed(self, partition: int) -> int:
        """The number up to which nothing is left to do: the position, or further if the filter leaves out what follows."""
        row, (generation, number) = self.positions[partition], self.skimmed[partition]
        return max(row.position, number) if generation == row.generation else row.position

    def lag(self, partition: int, end: int) -> int:
        return max(0, end - self.passed(partition))

    @property
    def has_members(self) -> bool:
        """Whether the group has members. A shard that is not the home of groups only knows those that hold its partitions."""
        return bool(self.membership.members) or any(row.holder for row in self.positions)


@dataclass(frozen=True, slots=True)
class Heard:
    """When a member was last heard of, by a monotonic clock (`at`) and by the hub's (`clock`), and its work."""

    at: float
    clock: int
    running: tuple[Running, ...] = ()
    """The work that it last stated."""
    revision: int = 0
    """The number of its last statement."""
    presumed: tuple[Running, ...] = ()
    """The work that it was handed since then, and begins before it can say so."""

    @property
    def doing(self) -> tuple[Running, ...]:
        return tuple(dict.fromkeys((*self.running, *self.presumed)))

    def said(self, running: tuple[Running, ...], revision: int) -> Heard:
        """This with newly stated work; the same object if the statement is older than the last one."""
        if 0 < revision <= self.revision:
            return self
        return replace(self, running=running, revision=revision or self.revision)

    def asked(self, running: tuple[Running, ...], revision: int) -> Heard:
        """This with work stated in a request for pages, which names all begun work, so that nothing is presumed any more."""
        said = self.said(running, revision)
        return said if said is self else replace(said, presumed=())


@dataclass(frozen=True, slots=True, eq=False)
class UntoldPosition:
    """A position that a shard wrote under a generation. It is a release only for that generation."""

    generation: int
    release: bool | None


@dataclass(slots=True)
class GroupMemory:
    """The groups of one open hub."""

    groups: dict[str, KnownGroup] = field(default_factory=dict)
    heard: dict[bytes, Heard] = field(default_factory=dict)
    """When each member was heard of."""
    working: dict[bytes, Heard] = field(default_factory=dict)
    """The work of each member, as stated when it read in this shard."""
    names: dict[bytes, str] = field(default_factory=dict)
    """The names of members that were given partitions of this shard since the hub was opened."""
    told: dict[tuple[str, int], float] = field(default_factory=dict)
    """The time since when a holder has known that it must give its partition up, by group and partition."""
    listed: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last generation under which a holder was told that it has its partition, by group and partition."""
    lost: list[LeaseLost] = field(default_factory=list)
    """Functions of other subjects, called when a lease ends."""
    monotonic: Callable[[], float] = time.monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while `heard` or `told` is changed."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Set when a lease or a hand-over may end earlier than expected."""
    untold: dict[tuple[str, int], UntoldPosition] = field(default_factory=dict)
    """The checkpoints and resets of a shard that the home of groups has not heard of, by group and partition."""

    def at_work(self, group: str, partition: int) -> set[int]:
        """The numbers of a partition's changes that the group's holder of it works on, by its last statements."""
        known = self.groups.get(group)
        holder = NOBODY if known is None else known.positions[partition].holder
        stated = (self.heard.get(holder), self.working.get(holder))
        return {own.sequence_number for one in stated if one for own in one.doing if own.partition == partition}

    def told_in(self, group: str) -> dict[int, float]:
        with self.lock:
            return {partition: at for (name, partition), at in self.told.items() if name == group}

    def actions(self) -> dict[str, str]:
        """The name of the group that has each action."""
        return {action: name for name, known in tuple(self.groups.items()) for action in known.row.actions}


def load_groups(
    store: StoreReader, partition_count: int, owned: range, now: int, *, is_shard: bool = False
) -> GroupMemory:
    """Load the groups of a store. Every lease counts as just renewed."""
    memory = GroupMemory()
    rows = _defined(store, owned)
    if not rows:
        return memory
    members: dict[str, list[GroupMember]] = {row.name: [] for row in rows}
    positions = {row.name: [PositionRow() for _ in range(partition_count)] for row in rows}
    for partition in owned:
        for key, value in store.scan(partition, Space.GROUP_MEMBER):
            members.get(key_group(key), []).append(decode_member(value))
        for key, value in store.scan(partition, Space.GROUP_POSITION):
            if (own := positions.get(key.decode())) is not None:
                own[partition] = decode_position(value)
    for row in rows:
        memory.groups[row.name] = _known(row, members[row.name], positions[row.name], is_shard=is_shard)
    for row in rows:
        # The answers to members before this opening are unknown, so each holder counts as told of its partitions.
        for partition, position in enumerate(memory.groups[row.name].positions):
            memory.listed[row.name, partition] = position.generation
    heard = Heard(memory.monotonic(), now)
    memory.heard = {member.member_id: heard for own in members.values() for member in own}
    return memory


def _defined(store: StoreReader, owned: range) -> list[GroupRow]:
    """The definitions of groups: at their home those stored there; elsewhere the newest copies."""
    if GROUPS_HOME in owned:
        return [decode_group(value) for _, value in store.scan(GROUPS_HOME, Space.GROUP)]
    copies = [(key, decode_copy(value)) for own in owned for key, value in store.scan(own, Space.GROUP_COPY)]
    newest = dict(sorted(copies, key=lambda copy: copy[1].version))
    return [copy.row for copy in newest.values() if copy.row is not None]


def _known(row: GroupRow, members: list[GroupMember], positions: list[PositionRow], *, is_shard: bool) -> KnownGroup:
    by_joining = sorted(members, key=lambda member: (member.joined_at, member.member_id))
    known = {member.member_id for member in members}
    # A backup has no members, so its partitions have no holders. A shard learns its holders from the home of groups.
    owned = positions if is_shard else [own if own.holder in known else freed(own) for own in positions]
    return KnownGroup(row, owned, membership_of(by_joining, [own.holder for own in owned]))


def gather_homes(store: Store, rows: StoreReader, owned: range, fence: int) -> bool:
    """Move groups and members from the partitions of their names, where older versions kept them; return whether there were any."""
    changes = Changes()
    for partition in owned:
        for space in (Space.GROUP, Space.GROUP_MEMBER) if partition != GROUPS_HOME else ():
            for key, value in rows.scan(partition, space):
                changes.put(GROUPS_HOME, space, key, value)
                changes.delete(partition, space, key)
                changes.fences.update({partition: fence, GROUPS_HOME: fence})
    if not changes.empty():
        store.commit(changes)
    return not changes.empty()
