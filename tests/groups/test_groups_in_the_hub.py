"""Groups in a hub: shares, leases, hand-overs, checkpoints, and what stays when the hub is opened again."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.assembly import open_hub
from restante.calls.groups import (
    DefineGroup,
    DeleteGroup,
    DropAction,
    JoinGroup,
    ListGroups,
    PauseGroup,
    ReadGroup,
    ReadNext,
    ResetPosition,
    ResumeGroup,
    SendHeartbeat,
    WriteCheckpoint,
)
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import RetainNow
from restante.client.groups.holdings import Holdings
from restante.errors import (
    ActionTaken,
    ActionUnknown,
    Forbidden,
    GenerationStale,
    GroupConflict,
    GroupUnknown,
    InvalidRequest,
    MemberUnknown,
    NotOwner,
    PartitionUnknown,
    PositionAhead,
    PositionGone,
)
from restante.hub.engine.health_sources import HealthSources
from restante.hub.engine.plan import CommitPlan
from restante.hub.groups.checkpoints import position_at
from restante.hub.groups.memory import GroupMemory
from restante.hub.upkeep.restore import restore
from restante.model.access.access import Grant, Role
from restante.model.groups.group import Gone, Start
from restante.model.groups.group_answers import Assigned, ReadAfter, Running
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import Message
from restante.settings import GroupSettings
from restante.stores.memory import MemoryStore
from tests.groups.group_world import HANDOVER, HEARTBEAT, LEASE, PLACES, QUIET, GroupWorld, numbers, world_in
from tests.waiting import wait_until

DAY = 86_400.0


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


inside = pytest.mark.parametrize("place", ["here"], indirect=True)
"""Of tests that look at what lies in the memory of one process. Shards do not know what home has told a member: its
generation alone keeps it from writing, once the partition has gone on."""


@pytest.fixture
def world(place: str, tmp_path: Path) -> Iterator[GroupWorld]:
    made = world_in(place, tmp_path / "data")
    made.define()
    yield made
    made.hub.close()


def by_partition(owned: tuple[Assigned, ...]) -> dict[int, Assigned]:
    return {own.partition: own for own in owned}


# --- Definitions ------------------------------------------------------------------------------------------------------


def test_a_group_is_made_once_and_the_same_again_is_no_conflict(world: GroupWorld) -> None:
    made = world.define("other", origins=("b", "a"), kinds=("k",))
    assert (made.origins, made.kinds, made.lag, made.members) == (("a", "b"), ("k",), 0, ())
    assert world.define("other", origins=("a", "b"), kinds=("k",)) == made
    with pytest.raises(GroupConflict):
        world.define("other")
    assert [group.group for group in world.hub.call(ListGroups()).groups] == ["g", "other"]


def test_only_an_operator_changes_a_filter_and_positions_stay(world: GroupWorld) -> None:
    world.publish(8)
    joined = world.join("a")
    world.checkpoint(joined.partitions[0], 1)
    worker = Grant("w", frozenset({Role.WORKER}))
    with pytest.raises(Forbidden):
        world.hub.on_behalf_of(worker).call(DefineGroup("g", kinds=("k",), change=True))
    changed = world.define(kinds=("k",), change=True)
    assert changed.kinds == ("k",)
    assert changed.partitions[joined.partitions[0].partition].position == 1


def test_an_action_belongs_to_one_group_until_it_is_dropped_or_the_group_deleted(world: GroupWorld) -> None:
    world.define("pay", actions=("charge", "refund"))
    with pytest.raises(ActionTaken):
        world.define("other", actions=("charge",))
    with pytest.raises(GroupUnknown):
        world.status("other")
    world.hub.call(DropAction("pay", "charge"))
    for unknown in ("charge", "never"):
        with pytest.raises(ActionUnknown):
            world.hub.call(DropAction("pay", unknown))
    assert world.define("other", actions=("charge",)).actions == ("charge",)
    world.hub.call(DeleteGroup("pay"))
    assert world.define("other", actions=("refund",)).actions == ("charge", "refund")


def test_a_group_begins_at_the_start_or_the_end(world: GroupWorld) -> None:
    world.publish(8)
    assert world.define("all").lag == 8
    assert world.define("later", start=Start.END).lag == 0
    world.publish(4)
    assert (world.status("all").lag, world.status("later").lag) == (12, 4)


def test_lists_have_pages_and_show_only_what_a_worker_may_see(world: GroupWorld) -> None:
    for name in ("a", "b", "c"):
        world.define(name)
    first = world.hub.call(ListGroups(limit=3))
    assert ([group.group for group in first.groups], first.next) == (["a", "b", "c"], "c")
    assert [group.group for group in world.hub.call(ListGroups(after="c")).groups] == ["g"]
    bound = world.hub.on_behalf_of(Grant("w", frozenset({Role.WORKER}), groups=frozenset({"b"})))
    assert [group.group for group in bound.call(ListGroups()).groups] == ["b"]
    reader = world.hub.on_behalf_of(Grant("r", frozenset({Role.READER})))
    assert len(reader.call(ListGroups()).groups) == 4


@pytest.mark.parametrize(
    "call",
    [
        ReadGroup("none"),
        DeleteGroup("none"),
        JoinGroup("none", "a"),
        SendHeartbeat("none", "0198c5a2-0000-7000-8000-000000000001"),
        WriteCheckpoint("none", 0, 0, 0),
        ResetPosition("none", 0, 0),
        PauseGroup("none"),
        ResumeGroup("none"),
        DropAction("none", "a"),
    ],
    ids=lambda call: type(call).__name__,
)
def test_a_group_that_nobody_made_is_unknown(world: GroupWorld, call: Any) -> None:
    with pytest.raises(GroupUnknown):
        world.hub.call(call)


# --- Members and hand-over --------------------------------------------------------------------------------------------


def test_a_hub_that_may_not_own_its_store_answers_no_heartbeat() -> None:
    """Another one may have given the member's partitions away."""
    world = GroupWorld(store := MemoryStore())
    world.define()
    joined = world.join("m")
    store.owned = False
    with pytest.raises(NotOwner):
        world.beat(joined.member_id)
    store.owned = True
    assert world.beat(joined.member_id)
    world.hub.close()


def test_the_first_member_gets_all_and_the_second_half_after_the_release(world: GroupWorld) -> None:
    first, before = world.join("a"), world.status()
    assert [own.partition for own in first.partitions] == [0, 1, 2, 3]
    second = world.join("b")
    assert second.partitions == (), "what somebody has is not given before it is released"
    kept = world.beat(first.member_id)
    assert len(kept) == 2
    gone = [own for own in first.partitions if own.partition not in kept]
    for own in gone:
        world.checkpoint(own, 0)
    taken = world.beat(second.member_id)
    assert taken.keys() == {own.partition for own in gone}
    assert all(taken[own.partition].generation > own.generation for own in gone)
    assert world.beat(first.member_id) == kept
    assert before.partitions[0].member_id == first.member_id


def test_a_checkpoint_from_before_the_member_was_told_releases_nothing(world: GroupWorld) -> None:
    first = world.join("a")
    second = world.join("b")
    for own in first.partitions:
        world.checkpoint(own, 0)
    assert world.beat(second.member_id) == {}


def test_a_checkpoint_that_says_it_is_no_release_is_none(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    kept = world.beat(first.member_id)
    gone = [own for own in first.partitions if own.partition not in kept]
    world.checkpoint(gone[0], 0, release=False)
    assert world.beat(second.member_id) == {}
    world.checkpoint(gone[0], 0, release=True)
    assert world.beat(second.member_id).keys() == {gone[0].partition}


def test_a_partition_goes_on_without_a_release_some_time_after_the_member_was_told(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    kept = world.beat(first.member_id)
    for _ in range(int(HANDOVER / HEARTBEAT) - 1):
        world.advance(HEARTBEAT)
        world.beat(first.member_id)
        assert world.beat(second.member_id) == {}
        assert world.end() == 0
    world.advance(HEARTBEAT)
    world.beat(first.member_id)
    world.beat(second.member_id)
    assert world.end() == 2
    late = next(own for own in first.partitions if own.partition not in kept)
    with pytest.raises(GenerationStale):
        world.checkpoint(late, 0)
    assert len(world.beat(second.member_id)) == 2


def test_what_was_told_to_be_given_up_comes_back_only_under_a_new_generation(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    kept = world.beat(first.member_id)
    world.leave(second.member_id)
    assert world.beat(first.member_id) == kept, "it has been told: its generation is over"
    gone = [own for own in first.partitions if own.partition not in kept]
    for own in gone:
        world.checkpoint(own, 0)
    again = world.beat(first.member_id)
    assert len(again) == 4
    assert all(again[own.partition].generation > own.generation for own in gone)


def test_what_a_member_releases_that_it_keeps_after_all_is_handed_out_to_it(world: GroupWorld) -> None:
    """It is told to give half up; the hub is opened again, which forgets that; nobody is left to have that half."""
    world.publish(20)
    first, second = world.join("a"), world.join("b")
    own = Holdings()
    own.assign(first.partitions)
    own.assign(world.beat(first.member_id).values())
    assert len(own.partitions()) == 2
    world.open_again()
    world.end()
    world.leave(second.member_id)
    while (due := own.due()) is not None:
        world.hub.call(
            WriteCheckpoint("g", due.holding.partition, due.position, due.holding.generation, release=due.release)
        )
        own.wrote(due)
    own.assign(world.beat(first.member_id).values())
    read = 0
    while (question := own.ask(4)) is not None and not question.waits:
        pages = world.hub.call(ReadNext("g", first.member_id, question.after)).pages
        read += sum(page.table.num_rows for page in pages)
        own.took(question, pages)
    assert read == 20


def test_what_a_member_never_knew_that_it_had_goes_on_at_once(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    kept = world.beat(first.member_id)
    for own in first.partitions:
        if own.partition not in kept:
            world.checkpoint(own, 0)
    third, fourth = world.join("c"), world.join("d")
    for _ in range(3):
        for member in (second, third, fourth):
            world.beat(member.member_id)
            world.end()
        after = world.beat(first.member_id)
        for own in first.partitions:
            if own.partition in kept and own.partition not in after:
                world.checkpoint(own, 0)
                kept = after
    assert [len(member.partitions) for member in world.status().members] == [1, 1, 1, 1]


def test_who_leaves_gives_all_at_once(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    world.leave(first.member_id)
    assert len(world.beat(second.member_id)) == 4
    with pytest.raises(MemberUnknown):
        world.beat(first.member_id)
    with pytest.raises(MemberUnknown):
        world.leave(first.member_id)


def test_the_same_name_takes_its_old_partitions_under_new_generations(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    kept = world.beat(first.member_id)
    for own in first.partitions:
        if own.partition not in kept:
            world.checkpoint(own, 0)
    others = world.beat(second.member_id)
    again = by_partition(world.join("a").partitions)
    assert again.keys() == kept.keys()
    assert all(again[partition].generation > kept[partition].generation for partition in kept)
    assert world.beat(second.member_id) == others, "a restart moves nothing"
    with pytest.raises(MemberUnknown):
        world.beat(first.member_id)


def test_who_misses_three_heartbeats_loses_all(world: GroupWorld) -> None:
    first, second = world.join("a"), world.join("b")
    world.advance(LEASE - 1)
    world.beat(second.member_id)
    assert world.end() == 0
    world.advance(1)
    assert world.end() == 1
    assert len(world.beat(second.member_id)) == 4
    with pytest.raises(MemberUnknown):
        world.beat(first.member_id)
    with pytest.raises(GenerationStale):
        world.checkpoint(first.partitions[0], 0)


def test_a_lease_that_ended_is_over_though_nobody_took_over(world: GroupWorld) -> None:
    world.publish(8)
    alone = world.join("a")
    world.advance(LEASE)
    assert world.end() == 1
    with pytest.raises(GenerationStale):
        world.checkpoint(alone.partitions[0], 1)
    with pytest.raises(MemberUnknown):
        world.next(alone.member_id, alone.partitions)
    assert world.status().partitions[0].member_id is None


@inside
def test_others_hear_what_ran_when_a_lease_ended_and_not_when_a_member_left(world: GroupWorld) -> None:
    heard: list[tuple[str, str, tuple[Running, ...]]] = []
    world.hub.core.memory(GroupMemory).lost.append(
        lambda _, group, member, running: heard.append((group, member.name, tuple(running)))
    )
    first, second = world.join("a"), world.join("b")
    running = Running(partition=1, sequence_number=7)
    world.hub.call(SendHeartbeat("g", first.member_id, (running,)))
    world.leave(second.member_id)
    assert heard == []
    world.advance(LEASE)
    world.end()
    assert heard == [("g", "a", (running,))]


def test_leases_end_by_themselves() -> None:
    settings = msgspec.structs.replace(QUIET, groups=GroupSettings(heartbeat_seconds=0.05))
    with closing(open_hub(None, settings=settings, store=GroupWorld().store)) as hub:
        hub.call(DefineGroup("g"))
        hub.call(JoinGroup("g", "a"))
        gone = threading.Event()
        hub.core.memory(GroupMemory).lost.append(lambda *_: gone.set())
        assert gone.wait(60)


def test_more_members_than_partitions_have_nothing_to_do(world: GroupWorld) -> None:
    ids = [world.join(f"m{n}").member_id for n in range(6)]
    for _ in range(3):
        for member_id in ids:
            held = [own for own in world.status().partitions if own.member_id == member_id]
            kept = world.beat(member_id)
            for own in held:
                if own.partition not in kept:
                    row = Assigned(partition=own.partition, generation=own.generation, position=own.position)
                    world.checkpoint(row, 0)
    shares = sorted(len(member.partitions) for member in world.status().members)
    assert shares == [0, 0, 1, 1, 1, 1]


# --- Reading ----------------------------------------------------------------------------------------------------------


def test_pages_of_several_partitions_come_in_one_answer(world: GroupWorld) -> None:
    world.publish(40)
    joined = world.join("a")
    pages = world.next(joined.member_id, joined.partitions)
    assert sum(page.table.num_rows for page in pages) == 40
    for page in pages:
        assert numbers(page) == list(range(1, page.end + 1))
        assert page.next == page.end


def test_a_limit_counts_changes_of_all_pages(world: GroupWorld) -> None:
    world.publish(40)
    joined = world.join("a")
    pages = world.next(joined.member_id, joined.partitions, limit=13)
    assert sum(page.table.num_rows for page in pages) == 13


def test_nothing_at_or_below_a_checkpoint_is_handed_out_again(world: GroupWorld) -> None:
    world.publish(40)
    joined = world.join("a")
    own = joined.partitions[0]
    world.checkpoint(own, 5)
    (page,) = world.next(joined.member_id, (own,))
    assert numbers(page)[0] == 6


def test_only_what_the_filter_wants_is_handed_out_and_positions_move_over_the_rest(world: GroupWorld) -> None:
    world.define("some", kinds=("wanted",))
    joined = world.join("a", "some")
    world.publish(20, kind="other")
    assert world.status("some").lag == 20
    pages = world.next(joined.member_id, joined.partitions, "some")
    assert all(not page.table.num_rows and page.next == page.end for page in pages)
    assert world.status("some").lag == 0, "an idle group on a busy partition has no lag"
    world.publish(4, kind="wanted")
    assert world.status("some").lag == 4
    pages = world.next(joined.member_id, joined.partitions, "some")
    assert sum(page.table.num_rows for page in pages) == 4
    world.next(joined.member_id, joined.partitions, "some")
    assert world.status("some").lag == 4, "what was handed out is not done with"
    assert world.status("some").partitions[pages[0].partition].oldest_unread_at is not None


def test_a_page_under_an_old_generation_is_refused(world: GroupWorld) -> None:
    world.publish(40)
    first = world.join("a")
    world.join("a")
    with pytest.raises(MemberUnknown):
        world.next(first.member_id, first.partitions)
    again = world.join("a")
    stale = msgspec.structs.replace(again.partitions[0], generation=1)
    with pytest.raises(GenerationStale) as refused:
        world.next(again.member_id, (stale, *again.partitions[1:]))
    assert refused.value.details["stale"] == [{"partition": 0, "generation": again.partitions[0].generation}]


@inside
def test_nothing_more_is_handed_out_of_what_is_to_be_given_up(world: GroupWorld) -> None:
    world.publish(40)
    first = world.join("a")
    world.join("b")
    kept = world.beat(first.member_id)
    pages = world.next(first.member_id, first.partitions)
    assert {page.partition for page in pages} == kept.keys()


@inside
def test_who_waits_gets_what_comes(world: GroupWorld) -> None:
    joined = world.join("a")
    found: list[int] = []

    def wait() -> None:
        found.extend(page.table.num_rows for page in world.next(joined.member_id, joined.partitions, wait=20))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: world.hub.core.bell._readers, "somebody waits")
    world.publish(1)
    waiting.join()
    assert sum(found) == 1


def test_a_paused_group_gets_nothing_and_keeps_its_leases(world: GroupWorld) -> None:
    world.publish(8)
    joined = world.join("a")
    world.hub.call(PauseGroup("g"))
    assert world.next(joined.member_id, joined.partitions) == ()
    assert len(world.beat(joined.member_id)) == 4
    world.checkpoint(joined.partitions[0], 1)
    assert world.status().paused
    world.hub.call(ResumeGroup("g"))
    assert world.next(joined.member_id, joined.partitions)


def test_a_group_that_was_overtaken_is_told_or_goes_on_as_it_said() -> None:
    world = GroupWorld()
    world.define("strict")
    world.define("easy", gone=Gone.SKIP)
    _overtake(world)
    strict, easy = world.join("a", "strict"), world.join("a", "easy")
    with pytest.raises(PositionGone) as refused:
        world.next(strict.member_id, strict.partitions, "strict")
    assert refused.value.details["partition"] in range(4)
    assert world.next(easy.member_id, easy.partitions, "easy")
    assert all(own.overtaken for own in world.hub.core.memory(GroupMemory).groups.values())
    world.hub.close()


def test_a_group_that_was_overtaken_is_late_by_what_is_left_of_the_feed() -> None:
    world = GroupWorld()
    world.define("strict")
    _overtake(world)
    world.join("a", "strict")
    world.advance(60)
    unread = [own.oldest_unread_at for own in world.status("strict").partitions]
    assert all(
        at is not None and world.clock() - at.timestamp() * 1_000_000 == pytest.approx(60_000_000) for at in unread
    )
    leaves = world.hub.core.memory(HealthSources).leaves()
    (leaf,) = (leaf for leaf in leaves if leaf.part == "strict")
    assert [own.value for own in leaf.readings if own.name == "oldest_unread"] == [pytest.approx(60)]
    world.hub.close()


def _overtake(world: GroupWorld) -> None:
    """What was collected long ago leaves the feed, unless somebody holds it."""
    world.publish(40)
    for n in range(40):
        bundle = world.hub.call(Peek(f"r{n}"))
        assert isinstance(bundle, BundleAnswer)
        world.hub.call(Dequeue(f"r{n}", bundle.bundle_id))
    world.advance(40 * DAY)
    world.publish(40)
    world.hub.call(RetainNow())
    assert any(partition.counters.feed_gone for partition in world.hub.core.partitions)


def test_a_group_with_actions_holds_the_feed_back_for_a_time() -> None:
    settings = msgspec.structs.replace(QUIET, groups=GroupSettings(hold_seconds=60 * DAY))
    world = GroupWorld(settings=settings)
    world.define("pay", actions=("charge",))
    with pytest.raises(AssertionError):
        _overtake(world)
    joined = world.join("a", "pay")
    assert world.next(joined.member_id, joined.partitions, "pay")
    world.advance(30 * DAY)
    world.hub.call(RetainNow())
    assert any(partition.counters.feed_gone for partition in world.hub.core.partitions)
    world.hub.close()


# --- Checkpoints and resets -------------------------------------------------------------------------------------------


def test_a_checkpoint_never_moves_back_nor_beyond_the_end(world: GroupWorld) -> None:
    world.publish(40)
    own = world.join("a").partitions[0]
    assert world.checkpoint(own, 5).position == 5
    assert world.checkpoint(own, 3).position == 5
    with pytest.raises(PositionAhead):
        world.checkpoint(own, 1_000)
    with pytest.raises(PartitionUnknown):
        world.hub.call(WriteCheckpoint("g", 4, 0, own.generation))
    with pytest.raises(InvalidRequest):
        world.hub.call(WriteCheckpoint("g", 0, -1, own.generation))
    assert world.status().partitions[0].checkpoint_at is not None


def test_a_reset_goes_anywhere_and_fences_who_has_the_partition(world: GroupWorld) -> None:
    world.publish(40)
    joined = world.join("a")
    own = joined.partitions[0]
    world.checkpoint(own, 5)
    assert world.hub.call(ResetPosition("g", 0, 2)).position == 2
    with pytest.raises(GenerationStale):
        world.checkpoint(own, 6)
    again = world.beat(joined.member_id)[0]
    assert again.generation > own.generation
    assert numbers(world.next(joined.member_id, (again,))[0])[0] == 3
    end = world.status().partitions[0].end
    assert world.hub.call(ResetPosition("g", 0, Start.END)).position == end
    assert world.hub.call(ResetPosition("g", 0, Start.BEGINNING)).position == 0
    with pytest.raises(PositionAhead):
        world.hub.call(ResetPosition("g", 0, end + 1))
    with pytest.raises(InvalidRequest):
        world.hub.call(ResetPosition("g", 0, datetime(2026, 1, 1)))  # noqa: DTZ001  # no zone is what is refused


@inside
def test_a_reset_to_a_time_goes_before_the_first_change_from_then_on(world: GroupWorld) -> None:
    start = datetime.fromtimestamp(world.clock.now / 1_000_000, UTC)
    ends = []
    for _ in range(5):
        world.publish(40)
        ends.append(world.status().partitions[0].end)
        world.advance(60)
    for minute in range(5):
        at = start + timedelta(minutes=minute)
        assert position_at(world.hub.core, 0, at) == (ends[minute - 1] if minute else 0)
    assert world.hub.call(ResetPosition("g", 0, start + timedelta(hours=1))).position == ends[-1]


@inside
def test_many_checkpoints_of_one_moment_share_a_commit(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish(40)
    joined = world.join("a")
    commits: list[int] = []
    finish = CommitPlan.finish
    inside, go_on = threading.Event(), threading.Event()

    def counted(plan: CommitPlan) -> Any:
        commits.append(len(plan.changes.entries))
        inside.set()
        go_on.wait()
        return finish(plan)

    monkeypatch.setattr(CommitPlan, "finish", counted)
    threads = [threading.Thread(target=world.checkpoint, args=(joined.partitions[0], 1))]
    threads[0].start()
    inside.wait()
    threads += [threading.Thread(target=world.checkpoint, args=(own, 2)) for own in joined.partitions[1:]]
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(world.hub.core.committer._queue) == 3, "three are queued")
    go_on.set()
    for thread in threads:
        thread.join()
    assert commits == [1, 3]


# --- What stays -------------------------------------------------------------------------------------------------------


def test_all_is_there_when_the_hub_is_opened_again_and_leases_count_as_just_renewed(world: GroupWorld) -> None:
    world.define("other", kinds=("k",), actions=("pay",), gone=Gone.SKIP)
    world.hub.call(PauseGroup("other"))
    world.publish(40)
    joined = world.join("a")
    world.checkpoint(joined.partitions[0], 3)
    before, other = world.status(), world.status("other")
    world.advance(LEASE - 1)
    world.open_again()
    assert world.status("other") == other
    assert world.status().partitions == before.partitions
    world.advance(LEASE - 1)
    assert world.end() == 0
    assert world.beat(joined.member_id).keys() == {0, 1, 2, 3}
    world.checkpoint(joined.partitions[0], 4)


def test_a_group_that_is_deleted_and_made_again_begins_anew_under_higher_generations(world: GroupWorld) -> None:
    world.publish(40)
    first = world.join("a")
    world.checkpoint(first.partitions[0], 5)
    world.hub.call(DeleteGroup("g"))
    with pytest.raises(GroupUnknown):
        world.beat(first.member_id)
    world.open_again()
    assert world.hub.call(ListGroups()).groups == ()
    world.define()
    again = world.join("a")
    assert again.partitions[0].position == 0
    pairs = zip(first.partitions, again.partitions, strict=True)
    assert all(new.generation > old.generation for old, new in pairs)
    with pytest.raises(GenerationStale):
        world.checkpoint(first.partitions[0], 6)


def test_a_backup_has_groups_and_positions_and_no_members(tmp_path: Path) -> None:
    with closing(open_hub(tmp_path / "data", settings=QUIET)) as hub:
        hub.call(Publish.of([Message(recipient=f"r{n}", data=b"x") for n in range(40)]))
        hub.call(DefineGroup("g", kinds=("default",)))
        joined = hub.call(JoinGroup("g", "somebody"))
        own = joined.partitions[0]
        hub.call(WriteCheckpoint("g", own.partition, 5, own.generation))
        with hub.backup() as stream:
            content = b"".join(stream)
        assert hub.call(ReadGroup("g")).members
    assert b"somebody" not in content
    restore(io.BytesIO(content).read, tmp_path / "restored")
    with closing(open_hub(tmp_path / "restored", settings=QUIET)) as hub:
        status = hub.call(ReadGroup("g"))
        assert (status.members, status.kinds) == ((), ("default",))
        assert [part.member_id for part in status.partitions] == [None] * 4
        assert status.partitions[own.partition].position == 5
        with pytest.raises(MemberUnknown):
            hub.call(SendHeartbeat("g", joined.member_id))
        with pytest.raises(GenerationStale):
            hub.call(WriteCheckpoint("g", own.partition, 6, own.generation))


# --- What makes no sense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        (ReadAfter(partition=4, generation=1, position=0),),
        (ReadAfter(partition=0, generation=1, position=-1),),
        (ReadAfter(partition=0, generation=1, position=0),) * 2,
        tuple(ReadAfter(partition=0, generation=1, position=0) for _ in range(257)),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(world: GroupWorld, after: tuple[ReadAfter, ...]) -> None:
    joined = world.join("a")
    with pytest.raises(InvalidRequest):
        world.hub.call(ReadNext("g", joined.member_id, after))
    with pytest.raises(InvalidRequest):
        world.hub.call(ReadNext("g", joined.member_id, (), limit=0))
    with pytest.raises(InvalidRequest):
        world.hub.call(SendHeartbeat("g", "no id"))
    with pytest.raises(InvalidRequest):
        world.hub.call(SendHeartbeat("g", joined.member_id, (Running(partition=0, sequence_number=1),) * 1_025))
