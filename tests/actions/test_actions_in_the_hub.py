"""Actions in a hub: accepted, handed out, reported, and looked up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from restante.errors import ActionUnknown, GenerationStale, InvalidRequest, MessageConflict
from restante.model.actions.action_row import ActionState
from restante.model.actions.wanted_action import WantedAction
from restante.model.work.results import OutcomeState
from tests.actions.action_world import GROUP, ActionWorld, inside, outcome


def test_an_action_is_accepted_handed_out_done_and_looked_up(world: ActionWorld) -> None:
    sent = world.send("add", "item-7", id="a-1", data=b'{"x":1}')
    assert (sent.state, sent.id, sent.declared) == (ActionState.ACCEPTED, "a-1", True)
    (row,) = world.handed()
    assert (row["recipient"], row["data"], row["properties"]["action"]) == ("item-7", b'{"x":1}', "add")
    assert (row["owner"], row["attempts"], row["text_id"]) == ("group", 0, "a-1")
    taken = world.report(row, result=b'{"ok":true}', location="/items/7")
    assert (taken.taken, taken.known) == (1, 0)
    found = world.look("a-1")
    assert (found.state, found.attempts, found.value, found.location) == (ActionState.DONE, 1, {"ok": True}, "/items/7")
    assert found.ended_at is not None
    assert world.handed() == []


def test_the_same_again_answers_as_it_is_now_and_anything_different_is_a_conflict(world: ActionWorld) -> None:
    world.send("add", "item", id="a", data=b"1")
    world.report(world.handed()[0])
    assert world.send("add", "item", id="a", data=b"1").state is ActionState.DONE
    differing: list[dict[str, Any]] = [{"action": "drop"}, {"data": b"2"}, {"origin": "other"}]
    for different in differing:
        with pytest.raises(MessageConflict):
            world.send(**{"action": "add", "concerns": "item", "id": "a", "data": b"1", **different})
    many = [WantedAction(action=name, concerns="item", id="twin") for name in ("add", "drop")]
    with pytest.raises(MessageConflict):
        world.send_all(*many)
    with pytest.raises(ActionUnknown):
        world.look("twin")


@inside
def test_when_an_action_was_accepted_is_the_same_in_every_answer(world: ActionWorld) -> None:
    world.hub.core.clock = Ticking(world.clock)
    accepted = world.send(id="a")
    assert world.send(id="a").accepted_at == world.look("a").accepted_at == accepted.accepted_at
    data = b'"' + b"x" * 300_000 + b'"'
    assert world.send(id="large", data=data).accepted_at == world.look("large").accepted_at


class Ticking:
    """A clock that goes on with every look."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._looks = 0

    def __call__(self) -> int:
        self._looks += 1
        return self._clock() + self._looks * 1_000


def test_an_action_waits_no_longer_than_groups_hold_the_feed(world: ActionWorld) -> None:
    most = world.settings.groups.hold_seconds
    world.send(id="a", expires_in=most)
    for seconds in (most + 1, 0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest) as refused:
            world.send(id="b", expires_in=seconds)
        assert refused.value.details["field"] == "expires_in"
        with pytest.raises(InvalidRequest):
            world.send_all(WantedAction(action="add", concerns="item", expires_in=seconds))


def test_many_are_accepted_whole_and_in_their_order(world: ActionWorld) -> None:
    wanted = [WantedAction(action="add", concerns=f"thing-{n}", id=f"n-{n}") for n in range(100)]
    accepted = world.send_all(*wanted).actions
    assert [own.id for own in accepted] == [f"n-{n}" for n in range(100)]
    assert len(world.handed()) == 100
    bad = WantedAction(action="add", concerns="", id="bad")
    with pytest.raises(InvalidRequest):
        world.send_all(WantedAction(action="add", concerns="x", id="good"), bad)
    with pytest.raises(ActionUnknown):
        world.look("good")


def test_the_same_id_for_several_things_is_told_apart_by_the_thing(world: ActionWorld) -> None:
    world.send(concerns="one", id="same")
    world.send(concerns="two", id="same")
    with pytest.raises(InvalidRequest, match="concerns"):
        world.look("same")
    assert world.look("same", "two").concerns == "two"
    with pytest.raises(ActionUnknown):
        world.look("same", "three")


def test_a_report_of_another_generation_changes_nothing(world: ActionWorld) -> None:
    world.send(id="a")
    (row,) = world.handed()
    with pytest.raises(GenerationStale):
        world.report_all(row["partition"], outcome(row["sequence_number"]), generation=1, position=1)
    assert world.look("a").state is ActionState.ACCEPTED


def test_the_same_report_again_is_harmless_and_the_first_outcome_stays(world: ActionWorld) -> None:
    world.send(id="a")
    (row,) = world.handed()
    world.report(row, result=b"1")
    again = world.report(row, OutcomeState.FAILED)
    assert (again.taken, again.known) == (0, 1)
    assert world.look("a").value == 1


def test_what_is_tried_again_is_under_way_until_the_hub_is_opened_again() -> None:
    world = ActionWorld()
    world.send(id="a")
    (row,) = world.handed()
    soon = time.time() + 5
    world.report(row, OutcomeState.UNDER_WAY, attempts=2, next_attempt_at=soon)
    found = world.look("a")
    assert (found.state, found.attempts) == (ActionState.UNDER_WAY, 2)
    assert found.next_attempt_at
    assert world.handed()[0]["attempts"] == 2
    world.open_again()
    assert world.look("a").state is ActionState.ACCEPTED
    world.hub.close()


def test_an_action_whose_worker_does_not_say_when_it_began_began_when_it_was_handed_out(world: ActionWorld) -> None:
    world.send(id="a", concerns="one")
    world.send(id="b", concerns="two")
    world.advance(5)
    first, second = world.handed()
    world.advance(2)
    world.report(first)
    world.report(second, OutcomeState.UNDER_WAY)
    world.advance(2)
    world.handed()
    world.report(second, attempts=2)
    begun = [world.look(name).begun_at for name in ("a", "b")]
    assert all(at is not None and (at - world.look("a").accepted_at).total_seconds() in range(5, 7) for at in begun)
    world.send(id="c")
    world.report(world.handed()[0], OutcomeState.EXPIRED, attempts=0)
    assert world.look("c").begun_at is None


def test_a_position_in_a_report_is_the_checkpoint(world: ActionWorld) -> None:
    world.send(id="a")
    (row,) = world.handed()
    taken = world.report_all(row["partition"], outcome(row["sequence_number"]), position=row["sequence_number"])
    assert taken.position == row["sequence_number"]
    assert world.status(GROUP).partitions[row["partition"]].checkpoint_at is not None


def test_the_actions_of_another_group_are_passed_over_and_those_of_nobody_are_not(world: ActionWorld) -> None:
    world.define("other", actions=("count",))
    for name in ("add", "count", "unheard_of"):
        world.send(name, "thing", id=name)
    assert [(row["text_id"], row["owner"]) for row in world.handed()] == [("add", "group"), ("unheard_of", "nobody")]
