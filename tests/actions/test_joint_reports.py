"""Reports of several partitions in one call: each is taken or refused by itself, and what is taken is one commit."""

from __future__ import annotations

import pytest

from restante.calls.actions import ReportEach, ReportOutcomes
from restante.errors import GroupUnknown, InvalidRequest, StorageFull
from restante.hub.actions import outcomes
from restante.hub.engine import commit_outcomes
from restante.model.actions.action_answers import OutcomesReported
from restante.model.actions.action_row import ActionState
from restante.model.work.results import WorkOutcome
from tests.actions.action_world import GROUP, ActionWorld, inside, outcome


def sent(world: ActionWorld, count: int = 12) -> dict[int, list[int]]:
    """Actions for so many things; the numbers of those handed out, by partition."""
    for number in range(count):
        world.send(concerns=f"thing {number}", id=f"a {number}")
    found: dict[int, list[int]] = {}
    for row in world.handed():
        found.setdefault(row["partition"], []).append(row["sequence_number"])
    assert len(found) > 2
    return found


def report(world: ActionWorld, partition: int, *outcomes: WorkOutcome, generation: int | None = None) -> ReportOutcomes:
    own = world.owned[partition].generation if generation is None else generation
    return ReportOutcomes(GROUP, partition, own, outcomes)


def codes(reported: OutcomesReported) -> dict[int, str | None]:
    return {one.partition: getattr(one.problem, "code", None) for one in reported.partitions}


def states(world: ActionWorld, count: int = 12) -> list[ActionState]:
    return [world.look(f"a {number}").state for number in range(count)]


@inside
def test_the_reports_of_all_partitions_are_one_commit(world: ActionWorld) -> None:
    found = sent(world)
    before = world.hub.core.committer.totals.commits
    reported = world.hub.call(
        ReportEach([report(world, partition, *map(outcome, own)) for partition, own in found.items()])
    )
    assert world.hub.core.committer.totals.commits == before + 1
    assert [one.partition for one in reported.partitions] == list(found)
    assert {one.partition: one.report.taken for one in reported.partitions if one.report} == {
        partition: len(own) for partition, own in found.items()
    }
    assert set(states(world)) == {ActionState.DONE}
    assert world.handed() == []


def test_a_partition_that_was_lost_is_refused_by_itself(world: ActionWorld) -> None:
    found = sent(world)
    lost, ahead, *others = found
    assert others
    stale = world.owned[lost].generation - 1
    reports = [
        report(world, lost, *map(outcome, found[lost]), generation=stale),
        ReportOutcomes(GROUP, ahead, world.owned[ahead].generation, list(map(outcome, found[ahead])), position=10**9),
        report(world, 99, outcome(1), generation=1),
        *(report(world, other, *map(outcome, found[other])) for other in others),
    ]
    reported = world.hub.call(ReportEach(reports))
    refused = {lost: "generation_stale", ahead: "position_ahead", 99: "partition_unknown"}
    assert codes(reported) == {**refused, **dict.fromkeys(others)}
    left = {(row["partition"], row["sequence_number"]) for row in world.handed()}
    assert left == {(partition, number) for partition in (lost, ahead) for number in found[partition]}
    # What was refused changes nothing, and is taken when it is right.
    again = world.hub.call(ReportEach([report(world, lost, *map(outcome, found[lost]))]))
    assert codes(again) == {lost: None}


def test_the_same_reports_again_are_harmless(world: ActionWorld) -> None:
    found = sent(world)
    call = ReportEach([report(world, partition, *map(outcome, own)) for partition, own in found.items()])
    world.hub.call(call)
    again = world.hub.call(call)
    assert [(one.report.taken, one.report.known) for one in again.partitions if one.report] == [
        (0, len(own)) for own in found.values()
    ]


def test_what_concerns_no_partition_refuses_all(world: ActionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sent(world)
    reports = [report(world, partition, *map(outcome, own)) for partition, own in found.items()]
    with pytest.raises(InvalidRequest, match="once"):
        world.hub.call(ReportEach([*reports, reports[0]]))
    with pytest.raises(InvalidRequest, match="10,000"):
        world.hub.call(ReportEach([report(world, 0, *[outcome(1)] * 9_999), report(world, 1, *[outcome(1)] * 2)]))
    with pytest.raises(InvalidRequest, match="attempts"):
        world.hub.call(ReportEach([*reports[1:], report(world, reports[0].partition, outcome(1, attempts=-1))]))
    with pytest.raises(GroupUnknown):
        world.hub.call(ReportEach([ReportOutcomes("nobody", 0, 1, ()), ReportOutcomes("nobody", 1, 1, ())]))

    def full(*_: object) -> None:
        raise StorageFull("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(commit_outcomes, "_store", full)
        with pytest.raises(StorageFull):
            world.hub.call(ReportEach(reports))
    assert set(states(world)) == {ActionState.ACCEPTED}
    assert set(codes(world.hub.call(ReportEach(reports))).values()) == {None}


def test_for_a_report_that_is_stale_nothing_is_read(world: ActionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand numbers that nobody was handed would be looked for in the feed, one by one."""
    monkeypatch.setattr(outcomes, "read_feed", lambda *_, **__: pytest.fail("the feed was read"))
    stale = report(world, 0, *[outcome(number) for number in range(1, 5_000)], generation=1)
    assert codes(world.hub.call(ReportEach([stale]))) == {0: "generation_stale"}


def test_none_at_all_is_no_error(world: ActionWorld) -> None:
    assert world.hub.call(ReportEach([])).partitions == ()
