"""Groups over shards: home decides, shards carry it out, whatever is lost on the way."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from restante.calls.actions import ReportEach, ReportOutcomes
from restante.calls.groups import (
    DefineGroup,
    DeleteGroup,
    JoinGroup,
    LeaveGroup,
    PauseGroup,
    ReadGroup,
    ReadNext,
    ResetPosition,
    SendHeartbeat,
    WriteCheckpoint,
)
from restante.calls.publishing import Publish
from restante.calls.shards import LearnGroups, MovePartitions, NotePosition, ReadPositions
from restante.errors import ActionTaken, GenerationStale, GroupUnknown, MemberUnknown, NotOwner, Unavailable
from restante.hub.engine.commit_request import Planned
from restante.hub.groups.home import plan_heard, telling
from restante.hub.groups.home_memory import HomeMemory
from restante.hub.groups.members import end_leases, keep_shard
from restante.hub.groups.memory import GroupMemory, UntoldPosition
from restante.model.groups.group import GroupFilter, GroupRow, Start, decode_group
from restante.model.groups.group_answers import Assigned, ReadAfter
from restante.model.publishing.message import Message
from restante.model.shards.group_parts import PartitionMove
from restante.model.storage.changes import Changes, Space
from restante.stores.memory import MemoryStore
from tests.groups.group_world import GroupWorld
from tests.hub.engines import FakeClock
from tests.shards.world import PARTITIONS, Shards, names
from tests.waiting import wait_until

FAR = PARTITIONS - 1
"""A partition that home has not."""


def define(shards: Shards, group: str = "g", actions: tuple[str, ...] = (), start: Start = Start.BEGINNING) -> None:
    shards.hubs[0].call(DefineGroup(group, actions=actions, start=start))


def beat(shards: Shards, member_id: str) -> dict[int, Assigned]:
    return {own.partition: own for own in shards.hubs[0].call(SendHeartbeat("g", member_id)).partitions}


def checkpoint(shards: Shards, own: Assigned, position: int, *, release: bool | None = False) -> None:
    call = WriteCheckpoint("g", own.partition, position, own.generation, release)
    shards.owner(own.partition).call(call)


def publish(shards: Shards, partition: int, count: int = 3) -> None:
    (name,) = names(partition, 1)
    shards.owner(partition).call(Publish.of([Message(recipient=name, data=b"x") for _ in range(count)]))


def row(shards: Shards, partition: int) -> tuple[int, bytes]:
    found = shards.owner(partition).core.memory(GroupMemory).groups["g"].positions[partition]
    return found.generation, found.holder


def test_a_member_gets_partitions_of_all_shards_and_each_fences_its_own() -> None:
    with Shards(2) as shards:
        define(shards)
        publish(shards, FAR)
        first = shards.hubs[0].call(JoinGroup("g", "a"))
        assert [own.partition for own in first.partitions] == list(range(PARTITIONS))
        far = first.partitions[FAR]
        checkpoint(shards, far, 2)
        second = shards.hubs[0].call(JoinGroup("g", "a"))
        with pytest.raises(GenerationStale):
            checkpoint(shards, far, 3)
        after = ReadAfter(partition=FAR, generation=far.generation, position=2)
        with pytest.raises(GenerationStale):
            shards.owner(FAR).call(ReadNext("g", first.member_id, (after,)))
        with pytest.raises(MemberUnknown):
            beat(shards, first.member_id)
        assert second.partitions[FAR].position == 2


def test_only_home_takes_definitions_and_members_and_all_shards_know_them() -> None:
    with Shards(2) as shards:
        define(shards, actions=("pay",))
        for call in (DefineGroup("h"), JoinGroup("g", "a"), PauseGroup("g"), DeleteGroup("g")):
            with pytest.raises(NotOwner):
                shards.hubs[1].call(call)
        with pytest.raises(ActionTaken):
            define(shards, "other", actions=("pay",))
        shards.hubs[0].call(PauseGroup("g"))
        assert all(hub.call(ReadGroup("g")).paused for hub in shards.hubs)
        assert [own.partition for own in shards.hubs[1].call(ReadGroup("g")).partitions] == [4, 5, 6, 7]
        shards.hubs[0].call(DeleteGroup("g"))
        for hub in shards.hubs:
            with pytest.raises(GroupUnknown):
                hub.call(ReadGroup("g"))


def test_a_definition_is_answered_when_all_shards_have_it_and_goes_on_by_itself() -> None:
    with Shards(2) as shards:
        shards.lose = (LearnGroups,)
        with pytest.raises(Unavailable):
            define(shards)
        shards.lose = ()
        wait_until(lambda: "g" in shards.hubs[1].core.memory(GroupMemory).groups, "the other shard has heard of it")
        define(shards)


def test_a_shard_that_missed_a_deletion_hears_of_it_and_a_late_word_of_the_group_brings_nothing_back() -> None:
    with Shards(2) as shards:
        define(shards)
        late = next(call for call in shards.carried if isinstance(call, LearnGroups) and call.groups)
        first = shards.hubs[0].call(JoinGroup("g", "a"))
        shards.lose = (LearnGroups,)
        with pytest.raises(Unavailable):
            shards.hubs[0].call(DeleteGroup("g"))
        shards.lose = ()
        shards.reopen(0)
        wait_until(lambda: "g" not in shards.hubs[1].core.memory(GroupMemory).groups, "the other shard has heard of it")
        shards.hubs[1].call(late)
        with pytest.raises(GroupUnknown):
            checkpoint(shards, first.partitions[FAR], 0)
        define(shards)
        again = shards.hubs[0].call(JoinGroup("g", "a"))
        assert again.partitions[FAR].generation > first.partitions[FAR].generation


def test_a_late_word_that_there_are_no_groups_ends_none_that_was_made_since_whatever_the_clocks_said() -> None:
    clock = FakeClock()
    with Shards(2, clock=clock) as shards:
        wait_until(lambda: any(isinstance(call, LearnGroups) for call in shards.carried), "home has told of its groups")
        late = next(call for call in shards.carried if isinstance(call, LearnGroups))
        assert late.whole
        clock.advance(-3_600)
        shards.reopen(0)
        define(shards)
        shards.hubs[1].call(late)
        assert shards.hubs[1].call(ReadGroup("g")).group == "g"
        shards.hubs[0].call(DeleteGroup("g"))
        clock.advance(-3_600)
        shards.reopen(0)
        define(shards)
        assert shards.hubs[1].call(ReadGroup("g")).group == "g"


def test_a_group_begins_in_a_shard_when_that_hears_of_it() -> None:
    with Shards(2) as shards:
        publish(shards, FAR, 4)
        define(shards, start=Start.END)
        publish(shards, FAR, 2)
        assert shards.owner(FAR).call(ReadGroup("g")).lag == 2


@pytest.mark.parametrize("lost", ["asked", "answered"])
def test_what_was_not_carried_out_is_carried_out_later_and_once(lost: str) -> None:
    with Shards(2) as shards:
        define(shards)
        if lost == "asked":
            shards.lose = (MovePartitions,)
        else:
            shards.lose_answers = (MovePartitions,)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        assert {own.partition for own in joined.partitions} == set(range(4)), "home's own"
        shards.lose = shards.lose_answers = ()
        wait_until(lambda: len(beat(shards, joined.member_id)) == PARTITIONS, "all partitions are given")
        given = {own.partition: own.generation for own in beat(shards, joined.member_id).values()}
        assert given == {partition: row(shards, partition)[0] for partition in range(PARTITIONS)}


def test_a_move_that_comes_late_changes_nothing() -> None:
    with Shards(2) as shards:
        define(shards)
        shards.hubs[0].call(JoinGroup("g", "a"))
        before = row(shards, FAR)
        late = next(call for call in shards.carried if isinstance(call, MovePartitions))
        answer = shards.hubs[1].call(late)
        assert row(shards, FAR) == before
        assert answer[-1].row.generation == before[0]


def test_what_another_home_gave_is_given_once_more() -> None:
    """A home that was replaced, and whose word comes late, may move a partition from the generation in force."""
    with Shards(2) as shards:
        define(shards)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        made_at = shards.hubs[0].core.memory(GroupMemory).groups["g"].row.made_at
        stranger = PartitionMove(FAR, row(shards, FAR)[0], b"s" * 16, "stranger")
        shards.hubs[1].call(MovePartitions("g", made_at, (stranger,)))
        with pytest.raises(GenerationStale):
            checkpoint(shards, joined.partitions[FAR], 0)
        keep_shard(shards.hubs[0].core)
        assert beat(shards, joined.member_id)[FAR].generation == row(shards, FAR)[0]


def test_a_release_reaches_home_however_late() -> None:
    with Shards(2) as shards:
        define(shards)
        first = shards.hubs[0].call(JoinGroup("g", "a"))
        second = shards.hubs[0].call(JoinGroup("g", "b"))
        kept = beat(shards, first.member_id)
        shards.lose = (NotePosition,)
        for own in first.partitions:
            if own.partition not in kept:
                checkpoint(shards, own, 0, release=True)
        shards.lose = ()
        wait_until(lambda: len(beat(shards, second.member_id)) == PARTITIONS - len(kept), "what was released is given")


def test_a_release_that_home_did_not_hear_of_is_none_of_a_later_generation() -> None:
    """The partition went on meanwhile, and its new holder is told to give it up: it has not done so yet."""
    with Shards(2) as shards:
        define(shards)
        first = shards.hubs[0].call(JoinGroup("g", "a"))
        shards.hubs[0].call(JoinGroup("g", "b"))
        kept = beat(shards, first.member_id)
        given_up = next(
            own for own in first.partitions if own.partition not in kept and own.partition > PARTITIONS // 2
        )
        core, before = shards.owner(given_up.partition).core, row(shards, given_up.partition)
        untold = core.memory(GroupMemory).untold
        untold["g", given_up.partition] = UntoldPosition(given_up.generation - 1, release=True)
        assert keep_shard(core) == 1
        assert (untold, row(shards, given_up.partition)) == ({}, before)
        untold["g", given_up.partition] = UntoldPosition(given_up.generation, release=True)
        assert keep_shard(core) == 1
        assert row(shards, given_up.partition) != before


def test_what_is_released_in_a_joint_report_goes_on_and_what_is_refused_there_does_not() -> None:
    with Shards(2) as shards:
        define(shards)
        first = shards.hubs[0].call(JoinGroup("g", "a"))
        second = shards.hubs[0].call(JoinGroup("g", "b"))
        kept = beat(shards, first.member_id)
        given_up = [own for own in first.partitions if own.partition not in kept]
        refused = given_up[-1]
        for shard in shards.hubs:
            reports = [
                ReportOutcomes("g", own.partition, own.generation - (own is refused), (), position=0, release=True)
                for own in given_up
                if shards.owner(own.partition) is shard
            ]
            if reports:
                answer = shard.call(ReportEach(reports))
                stale = [one.partition for one in answer.partitions if one.problem]
                assert stale == [
                    own.partition for own in given_up if own is refused and shards.owner(own.partition) is shard
                ]
        taken = {own.partition for own in given_up if own is not refused}
        wait_until(lambda: beat(shards, second.member_id).keys() == taken, "what was released is given, and no more")
        assert not shards.owner(refused.partition).core.memory(GroupMemory).untold


def test_a_reset_in_a_shard_is_known_at_home() -> None:
    with Shards(2) as shards:
        define(shards)
        publish(shards, FAR, 4)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        checkpoint(shards, joined.partitions[FAR], 4)
        shards.owner(FAR).call(ResetPosition("g", FAR, 1))
        own = beat(shards, joined.member_id)[FAR]
        assert (own.position, own.generation) == (1, row(shards, FAR)[0])
        with pytest.raises(GenerationStale):
            checkpoint(shards, joined.partitions[FAR], 4)


def test_home_that_is_opened_again_asks_who_has_what_and_decides_nothing_before() -> None:
    with Shards(2) as shards:
        define(shards)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        given = {own.partition: own.generation for own in joined.partitions}
        shards.lose = (ReadPositions, LearnGroups)
        shards.reopen(0)
        for call in (JoinGroup("g", "b"), LeaveGroup("g", joined.member_id), SendHeartbeat("g", joined.member_id)):
            with pytest.raises(Unavailable):
                shards.hubs[0].call(call)
        assert end_leases(shards.hubs[0].core) == 0
        shards.lose = ()
        keep_shard(shards.hubs[0].core)
        assert {own.partition: own.generation for own in beat(shards, joined.member_id).values()} == given


def test_a_home_that_hears_of_the_last_shards_in_one_commit_knows_all_the_same_who_has_what() -> None:
    """Two who ask, a request and the thread, may each hear of another shard, and their commits may be one."""
    with Shards(3) as shards:
        define(shards)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        given = {own.partition: own.generation for own in joined.partitions}
        shards.lose = (ReadPositions, LearnGroups)
        shards.reopen(0)
        core = shards.hubs[0].core
        own, *others = [tuple(partitions) for partitions in shards.ranges()]
        wait_until(lambda: core.memory(HomeMemory).unknown.isdisjoint(own), "home knows its own")
        found = [(some, shards.owner(some[0]).call(ReadPositions(some, ("g",)))) for some in others]
        heard = [Planned(partial(plan_heard, core, ("g",), *one)) for one in found]
        core.committer.submit_each(heard)
        assert not core.memory(HomeMemory).unknown
        keep_shard(core)
        assert {own.partition: own.generation for own in beat(shards, joined.member_id).values()} == given


def test_a_group_that_is_being_made_is_not_taken_for_one_that_is_there_no_more() -> None:
    """Home tells a shard that missed something of all groups, while the commit of a new one is under way."""
    with Shards(2) as shards:
        core, store = shards.hubs[0].core, shards.stores[0]
        wait_until(lambda: not core.memory(HomeMemory).unlearned, "all have heard that there are no groups")
        under_way, go_on, commit, steps = threading.Event(), threading.Event(), store.commit, list[Any]()

        def slow(changes: Changes) -> None:
            under_way.set()
            go_on.wait()
            commit(changes)

        store.commit = slow  # type: ignore[method-assign]
        making = threading.Thread(target=define, args=(shards,))
        making.start()
        under_way.wait()
        core.memory(HomeMemory).unlearned[FAR] = -1
        tells = threading.Thread(target=lambda: steps.append(next(telling(core))))
        tells.start()
        tells.join(0.1)
        go_on.set()
        making.join()
        tells.join()
        shards.owner(FAR).call(steps[0].call)
        assert shards.owner(FAR).call(ReadGroup("g")).group == "g"


def test_a_shard_that_is_opened_again_fences_as_before() -> None:
    with Shards(2) as shards:
        define(shards, actions=("pay",))
        publish(shards, FAR)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        shards.reopen(1)
        checkpoint(shards, joined.partitions[FAR], 1)
        again = shards.hubs[0].call(JoinGroup("g", "a"))
        with pytest.raises(GenerationStale):
            checkpoint(shards, joined.partitions[FAR], 2)
        assert again.partitions[FAR].position == 1
        assert shards.hubs[1].core.memory(GroupMemory).actions() == {"pay": "g"}


def test_a_member_that_left_while_a_shard_was_away_can_write_nothing_there_afterwards() -> None:
    with Shards(2) as shards:
        define(shards)
        joined = shards.hubs[0].call(JoinGroup("g", "a"))
        shards.lose = (MovePartitions,)
        shards.hubs[0].call(LeaveGroup("g", joined.member_id))
        shards.reopen(0)
        shards.lose = ()
        wait_until(lambda: not row(shards, FAR)[1], "nobody has it")
        with pytest.raises(GenerationStale):
            checkpoint(shards, joined.partitions[FAR], 0)


def test_rows_of_older_versions_come_to_the_home_of_groups() -> None:
    """They lay in the partition of the group's name."""
    world = GroupWorld()
    world.define("g", kinds=("k",))
    joined = world.join("a")
    world.hub.close()
    assert isinstance(world.store, MemoryStore)
    store = world.store.survivor()
    fence, changes = store.raise_fences(4), Changes()
    for space in (Space.GROUP, Space.GROUP_MEMBER):
        for key, value in store.scan(0, space):
            changes.delete(0, space, key)
            changes.put(3, space, key, value)
    changes.fences = {0: fence, 3: fence}
    store.commit(changes)
    world.store = store.survivor()
    world.hub = world._open()
    assert world.beat(joined.member_id).keys() == {0, 1, 2, 3}
    assert [decode_group(value).name for _, value in world.store.scan(0, Space.GROUP)] == ["g"]
    assert not any(world.store.scan(3, space) for space in (Space.GROUP, Space.GROUP_MEMBER))
    world.hub.close()


def test_a_definition_with_no_version_is_older_than_any() -> None:
    """As of a folder that was split after an older version wrote it."""
    with Shards(2) as shards:
        define(shards)
        old = GroupRow("g", GroupFilter(kinds=("other",)), 1)
        shards.hubs[1].call(LearnGroups(tuple(range(4, 8)), (old,)))
        assert shards.hubs[1].call(ReadGroup("g")).kinds == ()
