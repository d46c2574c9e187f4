"""Fair shares: which member should have which partition.

Shares differ by one at most, and as few partitions as possible leave the member that has them. A member keeps what it
has up to its share. The larger shares go to the members that have most, so that the fewest must give something up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

NOBODY = b""
"""The holder of a partition that is free."""


def fair_shares(holders: Sequence[bytes], members: Sequence[bytes], loose: Collection[int] = ()) -> tuple[bytes, ...]:
    """For each partition the member that should have it; `holders` says who has it now, `members` who there is.

    Those in `loose` are being given up already: a member that must give something up gives these first.
    """
    if not members:
        return (NOBODY,) * len(holders)
    held = _held(holders, members, loose)
    quotas = _quotas(held, len(holders))
    targets = [NOBODY] * len(holders)
    for member, partitions in held.items():
        for partition in partitions[: quotas[member]]:
            targets[partition] = member
    _fill(targets, held, quotas)
    return tuple(targets)


def _held(holders: Sequence[bytes], members: Sequence[bytes], loose: Collection[int]) -> dict[bytes, list[int]]:
    """The partitions of each member, in the order in which it keeps them."""
    held: dict[bytes, list[int]] = {member: [] for member in members}
    for partition, holder in enumerate(holders):
        if holder in held:
            held[holder].append(partition)
    for partitions in held.values():
        partitions.sort(key=lambda partition: (partition in loose, partition))
    return held


def _quotas(held: Mapping[bytes, Sequence[int]], partitions: int) -> dict[bytes, int]:
    least, larger = divmod(partitions, len(held))
    by_most = sorted(held, key=lambda member: -len(held[member]))  # which keeps the order of joining among equals
    return {member: least + (place < larger) for place, member in enumerate(by_most)}


def _fill(targets: list[bytes], held: Mapping[bytes, Sequence[int]], quotas: Mapping[bytes, int]) -> None:
    """Deal what is left to those below their share, one after the other."""
    room = {member: quotas[member] - min(len(own), quotas[member]) for member, own in held.items()}
    waiting = [member for member, left in room.items() if left]
    place = 0
    for partition, target in enumerate(targets):
        if target == NOBODY:
            member = waiting[place % len(waiting)]
            targets[partition] = member
            room[member] -= 1
            if room[member]:
                place += 1
            else:
                waiting.remove(member)
