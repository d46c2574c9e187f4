"""Numbers that a member claims or reports without having been handed them: they cost next to nothing, least of all in a commit."""

from __future__ import annotations

from typing import Any

import pytest

from restante.calls.actions import ReportEach
from restante.calls.groups import SendHeartbeat
from restante.calls.publishing import Publish
from restante.calls.removal import ExpireNow
from restante.hub.actions import outcomes
from restante.hub.feed.feed import read_feed
from restante.model.actions.action_row import ActionState
from restante.model.groups.group_answers import Running
from restante.model.publishing.message import Message
from restante.model.work.results import OutcomeState
from tests.actions.action_world import GROUP, ActionWorld, inside, outcome
from tests.actions.test_joint_reports import codes, report

NUMBERS = range(1, 1_001)


def claim(world: ActionWorld, partition: int) -> None:
    """State work on all numbers of a partition."""
    running = tuple(Running(partition=partition, sequence_number=number) for number in NUMBERS)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))


@pytest.fixture
def mail(world: ActionWorld) -> int:
    """The partition of a recipient with much mail."""
    world.hub.call(Publish.of([Message(recipient="ada", data=number) for number in NUMBERS]))
    return world.hub.core.address("ada").partition


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers after which the feed was read for claims or reports."""
    found = []

    def counted(core: Any, partition: int, after: int, *rest: Any, **given: Any) -> Any:
        found.append(after)
        return read_feed(core, partition, after, *rest, **given)

    monkeypatch.setattr(outcomes, "read_feed", counted)
    return found


@inside
def test_for_work_that_a_lost_member_claimed_the_feed_is_not_read(
    world: ActionWorld, mail: int, reads: list[int]
) -> None:
    claim(world, mail)
    world.enter("worker")
    assert reads == []


@inside
def test_what_was_handed_out_counts_among_all_that_is_claimed(world: ActionWorld, mail: int, reads: list[int]) -> None:
    world.send(id="killer", concerns="ada")
    (row,) = world.handed()
    running = [Running(partition=mail, sequence_number=number) for number in (1, 2, row["sequence_number"])]
    world.hub.call(SendHeartbeat(GROUP, world.member_id, tuple(running)))
    world.enter("worker")
    assert world.look("killer").deaths == 1
    assert reads == []


@inside
def test_for_claimed_work_expiry_does_not_read_the_feed(world: ActionWorld, mail: int, reads: list[int]) -> None:
    world.send(id="a", concerns="ada", expires_in=5)
    claim(world, mail)
    world.advance(6)
    world.hub.call(ExpireNow())
    assert world.look("a").state is ActionState.EXPIRED
    assert reads == []


def test_what_runs_since_before_the_hub_was_opened_does_not_expire() -> None:
    world = ActionWorld()
    world.send(id="a", expires_in=5)
    (row,) = world.handed()
    world.open_again()
    running = (Running(partition=row["partition"], sequence_number=row["sequence_number"]),)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
    world.advance(6)
    assert world.hub.call(ExpireNow()) == 0
    assert world.report(row).taken == 1
    world.hub.close()


@inside
def test_for_a_report_of_many_unknown_numbers_the_feed_is_read_once(
    world: ActionWorld, mail: int, reads: list[int]
) -> None:
    told = world.hub.call(ReportEach([report(world, mail, *map(outcome, range(1, 5_001)))]))
    assert codes(told) == {mail: None}
    (one,) = told.partitions
    assert one.report
    assert (one.report.taken, one.report.known) == (0, 5_000)
    assert len(reads) <= 1


def test_a_report_of_much_that_was_handed_out_before_the_hub_was_opened_is_taken(reads: list[int]) -> None:
    world = ActionWorld()
    for number in range(300):
        world.send(id=f"a{number}", concerns="ada")
    handed = world.handed()
    world.open_again()
    numbers = [row["sequence_number"] for row in handed]
    partition = handed[0]["partition"]
    assert world.report_all(partition, *map(outcome, [*numbers, max(numbers) + 10**6])).taken == 300
    assert {world.look(f"a{number}").state for number in range(300)} == {ActionState.DONE}
    assert len(reads) == 1
    assert world.report_all(partition, outcome(numbers[0], OutcomeState.FAILED)).taken == 0
    world.hub.close()
