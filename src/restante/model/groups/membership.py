"""The membership of a group: who is in it, who has which partition, who should have it, and when leases end.

`holders` says which member has a partition, `targets` which should. A free partition is given to its target at once. A
partition with a holder goes to its target when it is released: until then the holder keeps it, and nobody else has it. Every
giving raises the partition's generation, also one to the member that had it before. The holders are stored, and the targets
follow from them, so a hub that was opened again decides the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import InvalidRequest
from restante.model.groups.fair_shares import NOBODY, fair_shares


class GroupMember(msgspec.Struct, frozen=True, array_like=True):
    """One running reader of a group."""

    member_id: bytes
    name: str
    joined_at: int


class Membership(msgspec.Struct, frozen=True):
    """The members of a group by their joining, and for each partition its holder and its target."""

    members: tuple[GroupMember, ...]
    holders: tuple[bytes, ...]
    targets: tuple[bytes, ...]

    def member(self, member_id: bytes) -> GroupMember | None:
        return next((own for own in self.members if own.member_id == member_id), None)

    def named(self, name: str) -> GroupMember | None:
        return next((own for own in self.members if own.name == name), None)

    def held_by(self, member_id: bytes) -> tuple[int, ...]:
        return tuple(partition for partition, holder in enumerate(self.holders) if holder == member_id)

    def kept_by(self, member_id: bytes) -> tuple[int, ...]:
        """The partitions that a member has and is to keep."""
        return tuple(partition for partition in self.held_by(member_id) if self.targets[partition] == member_id)


class Giving(NamedTuple):
    """A partition is a member's from now on."""

    partition: int
    member_id: bytes


class Moved(NamedTuple):
    """A membership after a step: the state, and the partitions that the step gave, in their order."""

    membership: Membership
    givings: tuple[Giving, ...]


def membership_of(members: Sequence[GroupMember], holders: Sequence[bytes]) -> Membership:
    """The state that follows from the stored rows. A holder that is not among the members loses its partitions."""
    known = [member.member_id for member in members]
    held = tuple(holder if holder in known else NOBODY for holder in holders)
    return Membership(tuple(members), held, fair_shares(held, known))


def joined(before: Membership, member: GroupMember, loose: Collection[int] = ()) -> Moved:
    """Add a member. A member of the same name as another takes its place, with all partitions that it holds: no other partition moves."""
    same = before.named(member.name)
    if same is not None:
        return _replaced(before, same.member_id, member)
    if len(before.members) >= limits.GROUP_MEMBERS_MAX:
        raise InvalidRequest(f"The group has {len(before.members):,} members, the most that a group may have.")
    return _settled((*before.members, member), before.holders, loose)


def _replaced(before: Membership, old: bytes, member: GroupMember) -> Moved:
    members = tuple(member if own.member_id == old else own for own in before.members)
    targets = tuple(member.member_id if target == old else target for target in before.targets)
    givings = tuple(Giving(partition, targets[partition]) for partition in before.held_by(old))
    return Moved(Membership(members, _with(before.holders, givings), targets), givings)


def without(before: Membership, gone: Collection[bytes], loose: Collection[int] = ()) -> Moved:
    """These members have left, or their leases have ended: their partitions go to others, if there are any."""
    members = tuple(member for member in before.members if member.member_id not in gone)
    holders = tuple(NOBODY if holder in gone else holder for holder in before.holders)
    return _settled(members, holders, loose)


def settled(before: Membership, loose: Collection[int] = ()) -> Moved:
    """The membership after free partitions were given, as far as there are members to give them to."""
    return without(before, (), loose)


def released(before: Membership, partitions: Collection[int]) -> Moved:
    """These partitions go to their targets."""
    givings = tuple(Giving(partition, before.targets[partition]) for partition in sorted(partitions))
    return Moved(msgspec.structs.replace(before, holders=_with(before.holders, givings)), givings)


def _settled(members: tuple[GroupMember, ...], holders: tuple[bytes, ...], loose: Collection[int]) -> Moved:
    """Shares are made fair, and free partitions are given."""
    targets = fair_shares(holders, [member.member_id for member in members], loose)
    givings = tuple(
        Giving(partition, target)
        for partition, (holder, target) in enumerate(zip(holders, targets, strict=True))
        if holder == NOBODY and target != NOBODY
    )
    return Moved(Membership(members, _with(holders, givings), targets), givings)


def _with(holders: Sequence[bytes], givings: Sequence[Giving]) -> tuple[bytes, ...]:
    after = list(holders)
    for partition, member_id in givings:
        after[partition] = member_id
    return tuple(after)


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(GroupMember)


def encode_member(member: GroupMember) -> bytes:
    return _encoder.encode(member)


def decode_member(value: bytes) -> GroupMember:
    return _decoder.decode(value)


def member_key(group: str, member_id: bytes) -> bytes:
    """A group's members lie together; the id has 16 bytes, so the rest is the name."""
    return group.encode() + b"\x00" + member_id


def key_group(key: bytes) -> str:
    """The group of a member's key."""
    return key[:-17].decode()


HEARTBEATS_MISSED_MAX = 3
"""The number of heartbeats after which a member that misses them loses its partitions."""


def lease_seconds(heartbeat_seconds: float) -> float:
    return HEARTBEATS_MISSED_MAX * heartbeat_seconds


def lapsed(heard: Mapping[bytes, float], now: float, heartbeat_seconds: float) -> frozenset[bytes]:
    """The members whose leases have ended; `heard` says when each was heard last."""
    length = lease_seconds(heartbeat_seconds)
    return frozenset(member for member, at in heard.items() if now - at >= length)


def overdue(told: Mapping[int, float], now: float, handover_seconds: float) -> frozenset[int]:
    """The partitions that go on without a release; `told` says since when their holders know."""
    return frozenset(partition for partition, at in told.items() if now - at >= handover_seconds)


def seconds_left(
    heard: Iterable[float], told: Iterable[float], now: float, *, heartbeat_seconds: float, handover_seconds: float
) -> float | None:
    """How long until something ends next; None if nothing does."""
    ends = [at + lease_seconds(heartbeat_seconds) for at in heard] + [at + handover_seconds for at in told]
    return max(0.0, min(ends) - now) if ends else None
