"""Members that join, leave, are killed and wake up late, in any order: what holds of a group at every step."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from restante.errors import GenerationStale
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group_position import PositionRow, checkpointed, freed, given
from restante.model.groups.membership import GroupMember, Membership, Moved, joined, membership_of, released, without

END = 1_000
NAMES = st.sampled_from([f"worker-{number}" for number in range(6)])


class MembershipMachine(RuleBasedStateMachine):
    """The decisions of a group, carried out as the hub does it, without a clock."""

    @initialize(partitions=st.integers(1, 12))
    def begin(self, partitions: int) -> None:
        self.membership = membership_of((), (NOBODY,) * partitions)
        self.rows = [PositionRow() for _ in range(partitions)]
        self.told: set[int] = set()
        self.ids = count(1)
        self.known: set[tuple[int, int, bytes]] = set()
        """Every partition and generation that was ever given, and to whom."""
        self.highest = [0] * partitions

    def _apply(self, moved: Moved, *, moves_at_most: int) -> None:
        before = self.membership
        self.membership = moved.membership
        left = {member.member_id for member in moved.membership.members}
        for partition, holder in enumerate(moved.membership.holders):
            if before.holders[partition] != NOBODY and holder == NOBODY:
                self.rows[partition] = freed(self.rows[partition])
                self.told.discard(partition)
        for partition, member_id in moved.givings:
            row = given(self.rows[partition], member_id, 0)
            assert row.generation > self.highest[partition], "generations ascend and never repeat"
            assert member_id in left
            self.highest[partition] = row.generation
            self.known.add((partition, row.generation, member_id))
            self.rows[partition] = row
            self.told.discard(partition)
        planned = sum(
            holder in left and target != holder
            for holder, target in zip(before.holders, moved.membership.targets, strict=True)
        )
        assert planned <= moves_at_most

    def _to_move(self, members: int) -> int:
        """The fewest partitions that must leave a member that stays, so that shares are fair among so many."""
        partitions = len(self.rows)
        ids = {member.member_id for member in self.membership.members}
        held = sorted((Counter(self.membership.holders)[own] for own in ids), reverse=True)
        held += [0] * (members - len(held))
        least, larger = divmod(partitions, members)
        return sum(max(0, own - least - (place < larger)) for place, own in enumerate(held[:members]))

    @rule(name=NAMES)
    def join(self, name: str) -> None:
        member = GroupMember(bytes([next(self.ids)]) * 16, name, 0)
        before, old = self.membership, self.membership.named(name)
        moved = joined(before, member, self.told)
        if old is None:
            self._apply(moved, moves_at_most=self._to_move(len(before.members) + 1))
            return
        mine = before.kept_by(old.member_id)
        assert moved.membership.kept_by(member.member_id) == mine, "the same name takes its old partitions"
        others = [own for own in range(len(self.rows)) if before.holders[own] != old.member_id]
        assert all(moved.membership.holders[own] == before.holders[own] for own in others), "nothing else moves"
        self._apply(moved, moves_at_most=len(self.rows))

    @precondition(lambda self: self.membership.members)
    @rule(data=st.data())
    def leave_or_lose_the_lease(self, data: st.DataObject) -> None:
        ids = [member.member_id for member in self.membership.members]
        gone = data.draw(st.sets(st.sampled_from(ids), min_size=1))
        left = len(ids) - len(gone)
        moved = without(self.membership, gone, self.told)
        self._apply(moved, moves_at_most=len(self.rows) if left else 0)

    @precondition(lambda self: self._pending())
    @rule(data=st.data())
    def tell_to_give_up(self, data: st.DataObject) -> None:
        self.told.add(data.draw(st.sampled_from(self._pending())))

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(sorted(self.told)))
        self._apply(released(self.membership, {partition}), moves_at_most=len(self.rows))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), position=st.integers(0, END))
    def write_a_checkpoint(self, data: st.DataObject, position: int) -> None:
        """Anybody who ever had a partition tries it; maybe it has only now woken up."""
        partition, generation, member_id = data.draw(st.sampled_from(sorted(self.known)))
        row = self.rows[partition]
        if row.generation == generation and row.holder == member_id:
            after = checkpointed(row, position, generation, end=END, now=1)
            assert after.position == max(row.position, position)
            self.rows[partition] = after
            return
        with pytest.raises(GenerationStale):
            checkpointed(row, position, generation, end=END, now=1)
        assert self.rows[partition] is row

    @rule()
    def open_the_hub_again(self) -> None:
        """What was told is forgotten; the rest follows from what is stored."""
        self.told.clear()
        again = membership_of(self.membership.members, [row.holder for row in self.rows])
        assert again.holders == self.membership.holders
        self.membership = again

    def _pending(self) -> list[int]:
        membership: Membership = self.membership
        pairs = zip(membership.holders, membership.targets, strict=True)
        return [partition for partition, (holder, target) in enumerate(pairs) if holder != target]

    @invariant()
    def one_holder_a_partition_who_is_a_member(self) -> None:
        ids = {member.member_id for member in self.membership.members}
        assert set(self.membership.holders) <= ids | {NOBODY}
        assert [row.holder for row in self.rows] == list(self.membership.holders)
        assert not ids or NOBODY not in self.membership.holders

    @invariant()
    def shares_are_fair(self) -> None:
        shares = [len([p for p in self.membership.targets if p == own.member_id]) for own in self.membership.members]
        assert not shares or max(shares) - min(shares) <= 1
        assert len({own.name for own in self.membership.members}) == len(self.membership.members)


TestMembership = MembershipMachine.TestCase
TestMembership.settings = settings(stateful_step_count=40)
