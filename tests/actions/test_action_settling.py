"""What settles an action, and that an action is never mail: states, batches, poison, deaths, retention, erasure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.calls.batches import OpenBatch, ReadBatch, SealBatch
from restante.calls.groups import DeleteGroup, SendHeartbeat
from restante.calls.mailboxes import Explain, FindMessage, ListPartitions, ListRecipients, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, ExpireNow, Purge, Release, RetainNow, SetAside, Withdraw
from restante.errors import ActionUnknown, GroupUnknown, InvalidRequest, MessageErased, RestanteError
from restante.hub.actions.outcomes import forget_texts
from restante.hub.doctor.doctor import examine
from restante.hub.publishing.delayed import publish_due
from restante.model.actions.action_answers import ActionProblem
from restante.model.actions.action_row import ActionState
from restante.model.actions.wanted_action import WantedAction
from restante.model.batches.batch_answers import BatchState
from restante.model.groups.group_answers import Running
from restante.model.mailboxes.answers import BundleAnswer, Reason, moment
from restante.model.publishing.message import Message, State
from restante.model.storage.changes import Space
from restante.model.work.results import OutcomeState, WorkProblem
from tests.actions.action_world import GROUP, ActionWorld, inside
from tests.groups.group_world import LEASE
from tests.waiting import wait_until

DAY = 86_400.0


def state_of(world: ActionWorld, message_id: str, recipient: str = "item") -> State | None:
    return world.hub.call(FindMessage(recipient, message_id)).state


def sound(world: ActionWorld) -> None:
    """What is stored makes sense to the doctor."""
    for core in world.cores:
        report = examine(core.store, owned=core.owned)
        assert report.sound, report.findings


@inside
def test_an_action_is_in_history_and_in_no_bundle_list_or_count(world: ActionWorld) -> None:
    world.send(id="a")
    world.hub.call(Publish.of([Message(recipient="item", data=1, id="mail"), Message(recipient="other", data=2)]))
    assert {own.id for own in world.hub.call(ReadHistory("item")).messages} == {"a", "mail"}
    found = world.hub.call(Peek("item"))
    assert isinstance(found, BundleAnswer)
    assert found.message_count == 1
    assert sum(own.waiting for own in world.hub.call(ListPartitions())) == 2
    listed = {own.recipient: own.waiting for own in world.hub.call(ListRecipients()).recipients}
    assert listed == {"item": 1, "other": 1}
    world.send(concerns="thing", id="b")
    assert world.hub.call(Peek("thing")) is Reason.RECIPIENT_UNKNOWN
    assert world.hub.call(Explain("thing")).waiting == ()
    sound(world)


@inside
def test_a_delayed_action_is_no_mail_to_come(world: ActionWorld) -> None:
    later = moment(world.clock()) + timedelta(seconds=60)
    for name in ("a", "b"):
        delayed = Message(
            recipient="item", id=name, kind="action", properties={"action": "add"}, data=1, visible_at=later
        )
        world.hub.call(Publish.of([delayed]))
    found = world.hub.call(Explain("item"))
    assert (found.reason, found.not_yet_visible) == (Reason.RECIPIENT_UNKNOWN, 0)
    assert world.hub.call(Peek("item")) is Reason.RECIPIENT_UNKNOWN
    world.hub.call(Publish.of([Message(recipient="item", data=1, visible_at=later)]))
    assert world.hub.call(Explain("item")).not_yet_visible == 1
    world.hub.call(Withdraw("item", "a"))
    assert world.hub.call(Explain("item")).not_yet_visible == 1
    world.advance(61)
    while sum(map(publish_due, world.cores)):
        pass
    assert [row["text_id"] for row in world.handed()] == ["b"]
    assert world.hub.call(Explain("item")).not_yet_visible == 0
    sound(world)


def test_a_delayed_action_is_no_mail_after_the_hub_is_opened_again_either() -> None:
    world = ActionWorld()
    later = moment(world.clock()) + timedelta(seconds=60)
    delayed = Message(recipient="item", kind="action", properties={"action": "add"}, data=1, visible_at=later)
    world.hub.call(Publish.of([delayed]))
    world.open_again()
    assert world.hub.call(Explain("item")).not_yet_visible == 0
    world.hub.close()


@pytest.mark.parametrize(
    ("state", "settled"),
    [
        (OutcomeState.DONE, State.COLLECTED),
        (OutcomeState.FAILED, State.COLLECTED),
        (OutcomeState.EXPIRED, State.EXPIRED),
        (OutcomeState.POISONED, State.SET_ASIDE),
    ],
)
def test_an_outcome_settles_the_message(world: ActionWorld, state: OutcomeState, settled: State) -> None:
    world.send(id="a")
    world.report(world.handed()[0], state)
    assert state_of(world, "a") is settled
    assert world.look("a").state.value == state.value
    assert world.handed() == []
    sound(world)


def test_actions_of_one_thing_may_end_out_of_turn(world: ActionWorld) -> None:
    for n in range(5):
        world.send(id=f"n{n}")
    rows = world.handed()
    for place in (3, 1, 4):
        world.report(rows[place])
    assert [row["text_id"] for row in world.handed()] == ["n0", "n2"]
    sound(world)
    world.report(rows[0])
    world.report(rows[2])
    assert world.handed() == []
    assert all(state_of(world, f"n{n}") is State.COLLECTED for n in range(5))
    sound(world)
    world.advance(31 * DAY)
    world.hub.call(RetainNow())
    assert world.hub.call(ReadHistory("item")).messages == ()
    with pytest.raises(ActionUnknown):
        world.look("n3")
    for space in (Space.ACTION, Space.ACTION_ID, Space.ACTION_TEXTS):
        assert not any(world.core_of(p).store.scan(p, space) for p in range(4))
    sound(world)


def test_one_that_waits_is_not_forgotten_with_a_later_one_that_ended_before_it(world: ActionWorld) -> None:
    late = moment(world.clock()) + timedelta(days=100)
    for name in ("slow", "quick"):
        action = Message(
            recipient="item", id=name, kind="action", properties={"action": "add"}, data={}, expires_at=late
        )
        world.hub.call(Publish.of([action]))
    rows = world.handed()
    world.report(rows[1])
    world.advance(31 * DAY)
    world.hub.call(RetainNow())
    assert [own.id for own in world.hub.call(ReadHistory("item")).messages] == ["slow"]
    assert world.look("slow").state is ActionState.ACCEPTED
    sound(world)


def test_poison_is_kept_with_why_and_done_again_at_the_end_with_a_fresh_count(world: ActionWorld) -> None:
    world.send(id="bad", data=b'{"n":1}')
    world.send(id="later")
    bad, later = world.handed()
    world.report(bad, OutcomeState.POISONED, attempts=11, problem=WorkProblem("retries_exhausted", "No database."))
    world.report(later)
    own = world.owned[later["partition"]]
    world.checkpoint(own, world.status(GROUP).partitions[own.partition].end, GROUP)
    (poison,) = world.poison()
    assert (poison.id, poison.action, poison.concerns, poison.attempts) == ("bad", "add", "item", 11)
    assert (bytes(poison.data), poison.member, poison.problem.detail) == (b'{"n":1}', "worker", "No database.")
    found = world.look("bad")
    assert (found.state, found.problem and found.problem.code) == (ActionState.POISONED, "retries_exhausted")
    world.advance(40 * DAY)
    world.hub.call(RetainNow())
    assert world.look("bad").state is ActionState.POISONED
    again = world.hub.call(RepeatPoison(GROUP, "bad"))
    assert (again.state, again.attempts) == (ActionState.ACCEPTED, 0)
    assert world.poison() == []
    (row,) = world.handed()
    assert (row["change"], row["data"], row["text_id"]) == ("released", b'{"n":1}', "bad")
    assert row["expires_at"] > datetime.fromtimestamp(world.clock() / 1e6, UTC)
    world.report(row)
    assert world.look("bad").state is ActionState.DONE
    with pytest.raises(ActionUnknown):
        world.hub.call(RepeatPoison(GROUP, "bad"))
    sound(world)


def test_poison_that_is_given_up_has_failed(world: ActionWorld) -> None:
    world.send(id="bad")
    world.report(world.handed()[0], OutcomeState.POISONED)
    world.hub.call(GiveUpPoison(GROUP, "bad"))
    found = world.look("bad")
    assert (found.state, found.problem and found.problem.code) == (ActionState.FAILED, "given_up")
    assert (state_of(world, "bad"), world.poison()) == (State.WITHDRAWN, [])
    sound(world)


def test_the_poison_of_a_deleted_group_is_listed_done_again_and_given_up(world: ActionWorld) -> None:
    for name in ("a", "b"):
        world.send(id=name, concerns=name)
    for row in world.handed():
        world.report(row, OutcomeState.POISONED)
    world.hub.call(DeleteGroup(GROUP))
    assert {own.id for own in world.poison()} == {"a", "b"}
    world.hub.call(RepeatPoison(GROUP, "a"))
    assert world.look("a").state is ActionState.ACCEPTED
    world.hub.call(GiveUpPoison(GROUP, "b"))
    assert world.look("b").problem == ActionProblem(code="given_up")
    with pytest.raises(GroupUnknown):
        world.poison()
    with pytest.raises(GroupUnknown):
        world.hub.call(RepeatPoison(GROUP, "b"))
    sound(world)


def test_poison_is_listed_page_by_page_over_all_partitions(world: ActionWorld) -> None:
    world.send_all(*(WantedAction(action="add", concerns=f"t{n}", id=f"p{n}") for n in range(25)))
    for row in world.handed():
        world.report(row, OutcomeState.POISONED)
    seen, after = [], None
    while True:
        page = world.hub.call(ListPoison(GROUP, limit=4, after=after))
        assert len(page.poison) <= 4
        seen += [own.id for own in page.poison]
        after = page.next
        if after is None:
            break
    assert sorted(seen) == sorted(f"p{n}" for n in range(25))
    for wrong in ("x", "1", "9-1", "1-", "-1", "1-99999999999999999999"):
        with pytest.raises(InvalidRequest):
            world.hub.call(ListPoison(GROUP, after=wrong))


def test_a_batch_is_complete_when_all_are_done_or_given_up(world: ActionWorld) -> None:
    batch = world.hub.call(OpenBatch()).id
    world.send(id="b0", batch=batch)
    world.send_all(*(WantedAction(action="add", concerns="item", id=f"b{n}") for n in (1, 2)), batch=batch)
    world.hub.call(SealBatch(batch))
    rows = world.handed()
    world.report(rows[0])
    world.report(rows[1], OutcomeState.FAILED)
    world.report(rows[2], OutcomeState.POISONED)
    assert world.hub.call(ReadBatch(batch)).state is BatchState.SEALED
    world.hub.call(RepeatPoison(GROUP, "b2"))
    assert world.hub.call(ReadBatch(batch)).state is BatchState.SEALED
    world.report(world.handed()[0])
    # Over several shards the batch's home hears of it a moment later.
    wait_until(
        lambda: world.hub.call(ReadBatch(batch)).state is BatchState.COMPLETE, "the batch is complete", seconds=20
    )
    sound(world)


def test_what_is_withdrawn_or_set_aside_before_it_is_handed_out_is_not_done(world: ActionWorld) -> None:
    for name in ("back", "aside", "purged"):
        world.send(id=name, concerns=name)
    world.hub.call(Withdraw("back", "back"))
    world.hub.call(SetAside("aside", "aside"))
    world.hub.call(Purge("purged", all=True))
    assert world.handed() == []
    found = world.look("back")
    assert (found.state, found.problem and found.problem.code) == (ActionState.FAILED, "action_withdrawn")
    assert world.look("purged").state is ActionState.FAILED
    assert world.look("aside").state is ActionState.ACCEPTED
    world.hub.call(Release("aside", "aside"))
    assert [(row["text_id"], row["change"]) for row in world.handed()] == [("aside", "released")]
    sound(world)


def test_what_was_done_happened_even_if_it_was_taken_back_meanwhile(world: ActionWorld) -> None:
    world.send(id="a")
    world.send(id="b", expires_in=10)
    first, second = world.handed()
    world.hub.call(Withdraw("item", "a"))
    world.advance(11)
    world.hub.call(ExpireNow())
    assert world.look("b").state is ActionState.EXPIRED
    assert world.report(first).taken == world.report(second).taken == 1
    assert world.look("a").state is world.look("b").state is ActionState.DONE
    assert world.report(second, OutcomeState.FAILED).taken == 0
    sound(world)


def test_what_is_being_done_does_not_expire(world: ActionWorld) -> None:
    world.send(id="a", expires_in=5)
    (row,) = world.handed()
    running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
    assert world.look("a").state is ActionState.UNDER_WAY
    world.advance(6)
    assert world.hub.call(ExpireNow()) == 0
    world.report(row)
    assert world.look("a").state is ActionState.DONE


def test_what_a_worker_did_that_is_gone_waits_again_and_expires(world: ActionWorld) -> None:
    world.send(id="a", expires_in=2 * LEASE)
    (row,) = world.handed()
    running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
    world.next(world.member_id, (world.owned[row["partition"]],), GROUP, running=running)
    world.advance(LEASE)
    world.end()
    assert world.look("a").state is ActionState.ACCEPTED
    world.advance(LEASE + 1)
    assert world.hub.call(ExpireNow()) == 1
    assert world.look("a").state is ActionState.EXPIRED


def test_the_third_worker_that_dies_makes_poison_of_what_it_did(world: ActionWorld) -> None:
    world.send(id="killer")
    world.send(id="bystander", concerns="other")
    for death in (1, 2, 3):
        row = next(row for row in world.handed() if row["text_id"] == "killer")
        running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
        world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
        if death == 2:
            world.enter("worker")  # under the same name, without having left
        else:
            world.advance(LEASE)
            world.end()
            world.enter("worker")
        assert world.look("killer").deaths == death
    found = world.look("killer")
    assert (found.state, found.problem and found.problem.code) == (ActionState.POISONED, "worker_died")
    assert [own.id for own in world.poison()] == ["killer"]
    assert world.look("bystander").deaths == 0
    assert [row["text_id"] for row in world.handed()] == ["bystander"]
    sound(world)


def test_deaths_count_on_when_the_hub_is_opened_again() -> None:
    world = ActionWorld()
    world.send(id="killer")
    for death in (1, 2, 3):
        (row,) = world.handed()
        assert row["deaths"] == death - 1, "a worker hears of the deaths before it, whatever became of the hub"
        running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
        world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
        world.advance(LEASE)
        world.end()
        world.open_again()
        world.enter("worker")
    found = world.look("killer")
    assert (found.state, found.deaths) == (ActionState.POISONED, 3)
    world.hub.close()


def test_a_member_that_leaves_has_not_died(world: ActionWorld) -> None:
    world.send(id="a")
    (row,) = world.handed()
    running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
    world.leave(world.member_id, GROUP)
    assert world.look("a").deaths == 0


def test_erasing_removes_outcomes_poison_and_ids_and_drops_a_late_report(world: ActionWorld) -> None:
    for name in ("done", "bad", "running"):
        world.send(id=name)
    rows = world.handed()
    world.report(rows[0], result=b'"secret"')
    world.report(rows[1], OutcomeState.POISONED, problem=WorkProblem("broken", "secret"))
    assert world.hub.call(Erase("item")) == 3
    for name in ("done", "bad", "running"):
        with pytest.raises(ActionUnknown):
            world.look(name)
        with pytest.raises(MessageErased):
            world.look(name, "item")
    assert world.poison() == []
    for space in (Space.ACTION, Space.ACTION_ID, Space.ACTION_POISON, Space.ACTION_TEXTS):
        assert not any(world.core_of(p).store.scan(p, space) for p in range(4))
    late = world.report(rows[2])
    assert (late.taken, late.known) == (0, 1)
    with pytest.raises(RestanteError):
        world.send(id="done")
    sound(world)


def test_results_and_texts_go_after_their_retention_and_the_state_stays(world: ActionWorld) -> None:
    world.send(id="a")
    world.send(id="b", concerns="b")
    for row in world.handed():
        if row["text_id"] == "a":
            world.report(row, result=b"42")
        else:
            world.report(row, OutcomeState.FAILED, problem=WorkProblem("refused", "No."))
    assert sum(map(forget_texts, world.cores)) == 0
    world.advance(DAY + 1)
    assert sum(map(forget_texts, world.cores)) == 2
    done, failed = world.look("a"), world.look("b")
    assert (done.state, done.value) == (ActionState.DONE, None)
    assert failed.problem
    assert (failed.problem.code, failed.problem.detail) == ("refused", "")


def test_a_result_that_is_too_large_or_a_location_that_is_none_makes_poison(world: ActionWorld) -> None:
    for n, given in enumerate(({"result": b'"' + b"x" * 70_000 + b'"'}, {"location": "http://insecure"})):
        world.send(id=f"a{n}")
        world.report(world.handed()[0], **given)  # type: ignore[arg-type]
    assert [own.problem.code for own in world.poison()] == ["result_too_large", "invalid_location"]


def test_the_positions_of_actions_hold_the_feed_back(world: ActionWorld) -> None:
    world.send(id="old", expires_in=20 * DAY)
    world.advance(10 * DAY)
    world.hub.call(RetainNow())
    assert [row["text_id"] for row in world.handed()] == ["old"]


def test_actions_stay_when_the_hub_is_opened_again() -> None:
    world = ActionWorld()
    for name in ("open", "done", "bad"):
        world.send(id=name, concerns=name)
    for row in world.handed():
        if row["text_id"] != "open":
            world.report(row, OutcomeState.DONE if row["text_id"] == "done" else OutcomeState.POISONED)
    row = world.handed()[0]
    world.open_again()
    assert [world.look(name).state.value for name in ("open", "done", "bad")] == ["accepted", "done", "poisoned"]
    assert world.report(row).taken == 1  # what was handed out before is found without memory
    assert world.look("open").state is ActionState.DONE
    assert [own.id for own in world.poison()] == ["bad"]
    world.hub.close()
