"""What a worker decides, case by case, without a hub, a clock or a handler."""

from __future__ import annotations

import pytest

from restante.model.work.core import WorkAttempt, WorkCore
from restante.model.work.results import (
    AttemptDone,
    AttemptFailed,
    AttemptNoData,
    AttemptPassing,
    AttemptRefused,
    AttemptResult,
    OutcomeReport,
    OutcomeState,
    WorkOutcome,
    sent_together,
)
from restante.model.work.rules import PROBLEM_BYTES_MAX, REPORT_OUTCOMES_MAX, RESULT_BYTES_MAX, ActionRule, WorkPolicy
from tests.work.hub_model import HUB_AHEAD, HubModel, PartitionModel

PASSING = AttemptPassing(detail="not now")
DONE = AttemptDone()


class Bench:
    """A worker with one partition, and the hub that it reports to."""

    def __init__(self, rules: dict[str, ActionRule] | None = None, partitions: int = 1, **policy: object) -> None:
        self.hub = HubModel({number: PartitionModel() for number in range(partitions)})
        self.core = WorkCore(rules or {"do": ActionRule()}, WorkPolicy(**policy))  # type: ignore[arg-type]
        self.now = 0.0
        for number in range(partitions):
            self.core.assigned(number, generation=1, position=0, now=0.0)

    def publish(self, *things: str, **given: object) -> None:
        for thing in things:
            self.hub.publish(0, thing, **given)  # type: ignore[arg-type]
        self.read()

    def read(self) -> None:
        for read in self.core.reads():
            self.core.page(self.hub.page(read, self.now), self.now)

    def begin(self) -> list[WorkAttempt]:
        return self.core.begin(self.now)

    def begun(self) -> list[str]:
        return [attempt.action.concerns for attempt in self.begin()]

    def end(self, attempt: WorkAttempt, result: AttemptResult) -> None:
        self.core.ended(attempt.attempt_id, result, now=self.now)

    def after(self, seconds: float) -> list[WorkAttempt]:
        self.now += seconds
        return self.begin()

    def report(self) -> list[OutcomeReport]:
        """After the time in which outcomes are gathered."""
        self.now += 0.005
        reports = self.core.reports(self.now)
        for report in reports:
            assert self.hub.take(report)
            self.core.report_taken(report, self.now)
        return reports

    def final(self) -> dict[int, tuple[OutcomeState, int, str | None]]:
        self.report()
        found: dict[int, WorkOutcome] = self.hub.partitions[0].final
        return {
            number: (one.state, one.attempts, None if one.problem is None else one.problem.code)
            for number, one in found.items()
        }


def test_actions_of_one_thing_are_done_one_after_another_and_others_side_by_side() -> None:
    bench = Bench()
    bench.publish("a", "a", "b", "c")
    first = bench.begin()
    assert [(one.action.number, one.number) for one in first] == [(1, 1), (3, 1), (4, 1)]
    assert bench.begun() == []
    bench.end(first[0], DONE)
    assert [one.action.number for one in bench.begin()] == [2]


def test_with_order_by_partition_everything_is_strictly_one_after_another() -> None:
    bench = Bench(order="partition", partitions=2)
    bench.publish("a", "b", "c")
    done = []
    while begun := bench.begin():
        (attempt,) = begun
        done.append(attempt.action.number)
        bench.end(attempt, DONE)
    assert done == [1, 2, 3]


def test_at_most_concurrency_attempts_are_under_way_over_all_partitions() -> None:
    bench = Bench(concurrency=3, partitions=2)
    for number in range(4):
        bench.hub.publish(0, f"a{number}")
        bench.hub.publish(1, f"b{number}")
    bench.read()
    first = bench.begin()
    assert len(first) == 3
    bench.end(first[0], DONE)
    assert len(bench.begin()) == 1


def test_a_passing_error_is_tried_ten_times_more_and_waits_longer_each_time() -> None:
    bench = Bench()
    bench.publish("a", "a")
    waits = []
    (attempt,) = bench.begin()
    for _ in range(10):
        bench.end(attempt, PASSING)
        bench.report()
        wake = bench.core._partitions[0].parked_until()
        assert wake is not None
        waits.append(round(wake - bench.now + 0.005))
        assert bench.after(wake - bench.now - 0.001) == []
        (attempt,) = bench.after(0.002)
    assert waits == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    assert sum(waits) == 275
    assert attempt.number == 11
    bench.end(attempt, PASSING)
    assert bench.final() == {1: (OutcomeState.POISONED, 11, "retries_exhausted")}
    # The next one of the thing begins with its own full count.
    (following,) = bench.begin()
    assert (following.action.number, following.number) == (2, 1)


def test_waits_are_spread_by_up_to_a_tenth_and_a_handler_may_say_how_long() -> None:
    rule = ActionRule(wait_seconds=10)
    assert [round(rule.pause(2, chance), 3) for chance in (0, 0.5, 1)] == [20, 21, 22]
    bench = Bench()
    bench.publish("a")
    (attempt,) = bench.begin()
    bench.end(attempt, AttemptPassing(detail="busy", seconds=0.5))
    assert bench.after(0.4) == []
    assert len(bench.after(0.1)) == 1


def test_while_a_thing_is_parked_the_others_go_on() -> None:
    bench = Bench()
    bench.publish("a", "a", "b", "b")
    first, other = bench.begin()
    bench.end(first, PASSING)
    bench.end(other, DONE)
    assert [one.action.number for one in bench.begin()] == [4]
    (report,) = bench.report()
    states = [(one.sequence_number, one.state, one.attempts) for one in report.outcomes]
    assert states == [(1, OutcomeState.UNDER_WAY, 1), (3, OutcomeState.DONE, 1)]
    assert report.outcomes[0].next_attempt_at == pytest.approx(HUB_AHEAD + 5)


def test_the_position_stands_before_the_first_action_without_an_outcome() -> None:
    bench = Bench()
    bench.publish("a", "b", "c")
    bench.hub.skip(0, 7)
    bench.read()
    first, second, third = bench.begin()
    bench.end(second, DONE)
    bench.now += 10
    assert [report.position for report in bench.report()] == [None]
    bench.end(first, DONE)
    assert [report.position for report in bench.report()] == [2]
    bench.end(third, DONE)
    assert [report.position for report in bench.report()] == [None]  # at most every ten seconds
    assert bench.core.wake_at(bench.now) == pytest.approx(bench.now + 10 - 0.005, abs=0.02)
    bench.now += 10
    assert [(report.position, report.outcomes) for report in bench.report()] == [(10, ())]
    assert bench.report() == []


def test_outcomes_are_gathered_for_five_milliseconds() -> None:
    bench = Bench()
    bench.publish("a", "b", "c")
    first, second, _ = bench.begin()
    bench.end(first, DONE)
    bench.now += 0.003
    assert bench.core.reports(bench.now) == []
    bench.end(second, DONE)
    assert bench.core.wake_at(bench.now) == pytest.approx(0.005)
    bench.now += 0.002
    (report,) = bench.core.reports(bench.now)
    assert len(report.outcomes) == 2
    assert bench.core.reports(bench.now) == []  # one at a time


def test_when_nothing_runs_any_more_nobody_waits_for_what_might_end() -> None:
    bench = Bench(partitions=2)
    bench.hub.publish(1, "b")
    bench.publish("a")
    first, second = bench.begin()
    bench.end(first, DONE)
    assert bench.core.reports(bench.now) == []
    bench.end(second, DONE)
    assert len(bench.core.reports(bench.now)) == 2


def test_what_other_partitions_have_to_say_goes_with_a_report_that_is_due() -> None:
    bench = Bench(partitions=3)
    bench.hub.publish(1, "b")
    bench.hub.publish(2, "c")
    bench.publish("a")
    first, second, _ = bench.begin()
    bench.end(first, DONE)
    bench.now += 0.004
    bench.end(second, DONE)
    bench.now += 0.001
    reports = bench.core.reports(bench.now)
    assert sorted((report.partition, len(report.outcomes)) for report in reports) == sorted(
        [
            (first.partition, 1),
            (second.partition, 1),
        ]
    )
    assert bench.core.reports(bench.now) == []
    assert sent_together(reports) == [reports]


def test_a_report_that_failed_waits_for_its_own_time_and_holds_no_other() -> None:
    bench = Bench(partitions=2)
    bench.hub.publish(1, "b")
    bench.publish("a")
    for attempt in bench.begin():
        bench.end(attempt, DONE)
    bench.now += 0.005
    one, other = bench.core.reports(bench.now)
    bench.core.report_failed(one, bench.now)
    bench.hub.take(other)
    bench.core.report_taken(other, bench.now)
    bench.hub.publish(other.partition, "c")
    bench.read()
    (attempt,) = bench.begin()
    bench.end(attempt, DONE)
    assert [report.partition for report in bench.report()] == [other.partition]


def test_reports_share_a_request_up_to_its_bound_of_outcomes() -> None:
    done = WorkOutcome(sequence_number=1, state=OutcomeState.DONE, attempts=1)
    reports = [
        OutcomeReport(partition=number, generation=1, outcomes=(done,) * count)
        for number, count in enumerate([REPORT_OUTCOMES_MAX - 1, 1, 0, 1, REPORT_OUTCOMES_MAX, 0])
    ]
    assert [[report.partition for report in own] for own in sent_together(reports)] == [[0, 1, 2], [3], [4, 5]]
    assert sent_together([]) == []


def test_a_report_that_is_not_answered_is_made_again_the_same_until_it_is_taken() -> None:
    bench = Bench()
    bench.publish("a", "b")
    first, second = bench.begin()
    bench.end(first, AttemptFailed(code="error", detail="boom"))
    bench.now += 0.005
    (report,) = bench.core.reports(bench.now)
    bench.core.report_failed(report, bench.now)
    bench.end(second, DONE)
    assert bench.core.reports(bench.now) == []
    bench.now += 0.1
    (again,) = bench.core.reports(bench.now)
    assert again == report
    bench.core.report_failed(again, bench.now)
    bench.now += 0.1
    assert bench.core.reports(bench.now) == []  # longer and longer
    bench.now += 0.1
    (third,) = bench.core.reports(bench.now)
    bench.hub.take(third)
    bench.core.report_taken(third, bench.now)
    assert bench.final().keys() == {1, 2}


def test_other_errors_are_poison_at_once_and_a_refusal_is_none() -> None:
    bench = Bench()
    bench.publish("a", "b", "c")
    failed, refused, empty = bench.begin()
    bench.end(failed, AttemptFailed(code="error", detail="x" * 9_000 + "the end"))
    bench.end(refused, AttemptRefused(detail="no"))
    bench.end(empty, AttemptNoData())
    assert bench.final() == {
        1: (OutcomeState.POISONED, 1, "error"),
        2: (OutcomeState.FAILED, 1, "refused"),
        3: (OutcomeState.FAILED, 1, "no_data"),
    }
    problem = bench.hub.partitions[0].final[1].problem
    assert problem is not None
    assert problem.detail.endswith("the end")
    assert len(problem.detail) + len(problem.code) == PROBLEM_BYTES_MAX
    counts = bench.core.counts.of("do")
    assert (counts.poisoned, counts.refused, counts.no_data, counts.done) == (1, 1, 1, 0)


def test_a_result_that_is_too_large_is_poison() -> None:
    bench = Bench()
    bench.publish("a", "b")
    fits, large = bench.begin()
    bench.end(fits, AttemptDone(result=b'"' + b"x" * (RESULT_BYTES_MAX - 2) + b'"', location="/items/7"))
    bench.end(large, AttemptDone(result=b"1" * (RESULT_BYTES_MAX + 1)))
    assert bench.final() == {1: (OutcomeState.DONE, 1, None), 2: (OutcomeState.POISONED, 1, "result_too_large")}
    assert bench.hub.partitions[0].final[1].location == "/items/7"


def test_after_poison_a_thing_may_be_held_until_an_operator_decided() -> None:
    bench = Bench({"do": ActionRule(after_poison="hold")})
    bench.publish("a", "a", "b")
    first, other = bench.begin()
    bench.end(first, AttemptFailed(code="error", detail=""))
    bench.end(other, DONE)
    assert bench.begun() == []
    bench.publish("a", "b")
    assert bench.begun() == ["b"]
    bench.core.decided(0, "b")
    bench.core.decided(0, "a")
    assert [one.action.number for one in bench.begin()] == [2]


def test_what_is_held_may_be_decided_about_as_soon_as_the_hub_has_its_poison() -> None:
    bench = Bench({"do": ActionRule(after_poison="hold")}, order="partition")
    bench.publish("a", "b")
    bench.end(bench.begin()[0], AttemptFailed(code="error", detail=""))
    assert bench.core.held() == frozenset()
    bench.report()
    assert bench.core.held() == {(0, "")}
    bench.core.decided(0, "")
    assert (bench.core.held(), bench.begun()) == (frozenset(), ["b"])
    bench.core.hold(0, "c")
    assert bench.core.held() == frozenset(), "what runs is not the one that is held"


def test_a_member_that_takes_over_is_told_what_is_held() -> None:
    bench = Bench()
    bench.core.hold(0, "a")
    assert bench.core.held() == {(0, "a")}
    bench.publish("a", "b")
    assert bench.begun() == ["b"]
    bench.core.decided(0, "a")
    assert bench.begun() == ["a"]


def test_health_checks_are_dropped_and_counted_and_only_those_that_say_it_exactly() -> None:
    bench = Bench()
    bench.now = 5.0
    bench.publish("a", properties={"HEALTHCHECK": "TRUE"}, accepted_at=HUB_AHEAD + 2)
    bench.publish("a", properties={"HEALTHCHECK": "true"})
    assert [one.action.number for one in bench.begin()] == [2]
    assert (bench.core.counts.health_checks, bench.core.counts.health_check_seconds) == (1, 3)
    assert bench.final() == {1: (OutcomeState.DONE, 0, None)}


def test_a_health_check_of_a_name_that_nobody_has_declared_is_an_unknown_action() -> None:
    bench = Bench()
    bench.publish("a", name="strange", properties={"HEALTHCHECK": "TRUE"})
    assert not bench.begin()
    assert bench.core.counts.health_checks == 0
    assert bench.final() == {1: (OutcomeState.FAILED, 0, "action_unknown")}


def test_what_has_expired_by_the_clock_of_the_hub_is_not_begun() -> None:
    bench = Bench()
    bench.publish("a", expires_at=HUB_AHEAD + 7)
    bench.publish("b", expires_at=HUB_AHEAD)
    (attempt,) = bench.begin()
    bench.end(attempt, PASSING)
    assert bench.after(5) != []  # it began before its end
    bench.end(bench_attempt(bench), PASSING)
    assert bench.after(10) == []
    assert bench.final() == {1: (OutcomeState.EXPIRED, 2, None), 2: (OutcomeState.EXPIRED, 0, None)}


def bench_attempt(bench: Bench) -> WorkAttempt:
    """The only one that is under way."""
    ((attempt_id, running),) = bench.core._running.items()
    return WorkAttempt(
        attempt_id=attempt_id, partition=0, generation=1, action=running.entry.action, number=0, timeout_seconds=0
    )


def test_names_of_other_groups_are_passed_over_and_unknown_ones_fail() -> None:
    bench = Bench()
    bench.core.names(declared=["do"], elsewhere=["bill", "do"])
    bench.publish("a", name="bill")
    bench.publish("a", name="nobodys")
    bench.publish("a", name=None)
    bench.publish("a")
    assert [one.action.number for one in bench.begin()] == [4]
    code = (OutcomeState.FAILED, 0, "action_unknown")
    assert bench.final() == {2: code, 3: code}
    assert (bench.core.counts.passed_over, bench.core.counts.of("").unknown) == (1, 2)
    kept = Bench(undeclared="poison")
    kept.publish("a", name="nobodys")
    assert kept.begin() == []
    assert kept.final() == {1: (OutcomeState.POISONED, 0, "action_unknown")}


def test_a_declared_name_without_a_handler_here_parks_its_thing() -> None:
    bench = Bench()
    bench.core.names(declared=["do", "newer"], elsewhere=[])
    bench.publish("a", name="newer")
    bench.publish("a", "b")
    assert bench.begun() == ["b"]
    bench.now += 10
    assert bench.final() == {}
    assert bench.hub.partitions[0].position == 0


def test_what_the_hub_says_of_a_name_goes_before_what_the_worker_was_told() -> None:
    """A newer member declared a name after this one had joined."""
    bench = Bench()
    bench.core.names(declared=["do"], elsewhere=["moved"])
    bench.publish("a", name="newer", owner="group")
    bench.publish("b", name="moved", owner="nobody")
    bench.publish("c", name="bill", owner="elsewhere")
    bench.publish("d", name="do", owner="nobody")
    assert bench.begun() == ["d"]
    assert bench.final() == {2: (OutcomeState.FAILED, 0, "action_unknown")}
    assert bench.core.counts.passed_over == 1


def test_the_time_of_a_heartbeat_decides_what_has_expired() -> None:
    bench = Bench()
    bench.publish("a", expires_at=HUB_AHEAD + 7)
    bench.core.heard(HUB_AHEAD + 8, bench.now)
    assert bench.begun() == []
    assert bench.final() == {1: (OutcomeState.EXPIRED, 0, None)}


def test_a_page_that_comes_late_does_not_turn_the_time_back() -> None:
    bench = Bench()
    bench.publish("a", expires_at=HUB_AHEAD + 7)
    (read,) = bench.core.reads()
    late = bench.hub.page(read, bench.now)
    bench.now += 8
    bench.core.page(late, bench.now)
    assert bench.begun() == []
    assert bench.final() == {1: (OutcomeState.EXPIRED, 0, None)}


def test_so_many_actions_are_read_ahead_and_no_more() -> None:
    bench = Bench(read_ahead=10, concurrency=1)
    bench.publish(*["a"] * 25)
    assert [read.limit for read in bench.core.reads()] == []
    (attempt,) = bench.begin()
    bench.end(attempt, DONE)
    assert bench.core.reads() == []
    bench.report()
    assert [(read.position, read.limit) for read in bench.core.reads()] == [(10, 1)]


def test_an_action_that_may_not_be_begun_so_often_waits_without_a_count() -> None:
    bench = Bench({"do": ActionRule(max_per_second=2), "other": ActionRule()})
    bench.publish("a", "b")
    bench.publish("c", name="other")
    assert bench.begun() == ["a", "c"]
    assert bench.after(0.4) == []
    assert [one.number for one in bench.after(0.1)] == [1]


# The brake


def failing(bench: Bench, things: str) -> list[WorkAttempt]:
    bench.publish(*things)
    attempts = bench.begin()
    for attempt in attempts:
        bench.end(attempt, PASSING)
    return attempts


def test_when_five_things_failed_only_the_oldest_is_tried_and_the_others_keep_their_counts() -> None:
    bench = Bench()
    failing(bench, "abcde")
    bench.publish(*"fgh")
    assert bench.begun() == []  # the oldest waits for its retry
    (oldest,) = bench.after(6)
    assert (oldest.action.concerns, oldest.number) == ("a", 2)
    bench.end(oldest, PASSING)
    bench.now += 100
    (again,) = bench.begin()
    assert (again.action.concerns, again.number) == ("a", 3)
    bench.end(again, DONE)
    assert sorted((one.action.concerns, one.number) for one in bench.begin()) == [
        *((thing, 2) for thing in "bcde"),
        *((thing, 1) for thing in "fgh"),
    ]


def test_if_fewer_wait_all_of_them_must_have_failed() -> None:
    bench = Bench()
    failing(bench, "ab")
    assert bench.begun() == []
    assert [one.action.concerns for one in bench.after(6)] == ["a"]
    bench.publish("c")  # one that has not failed: so it is no outage yet
    assert bench.begun() == ["b", "c"]


def test_a_success_between_keeps_the_brake_off() -> None:
    bench = Bench()
    bench.publish(*"abcdef")
    attempts = bench.begin()
    for attempt in attempts[:4]:
        bench.end(attempt, PASSING)
    bench.end(attempts[4], DONE)
    bench.end(attempts[5], PASSING)
    assert sorted(one.action.concerns for one in bench.after(6)) == list("abcdf")


def test_attempts_that_end_while_the_brake_is_on_do_not_count_but_for_the_oldest() -> None:
    bench = Bench()
    bench.publish(*"abcdefg")
    attempts = bench.begin()
    for attempt in attempts[1:6]:
        bench.end(attempt, PASSING)  # five things: from here on the brake is on
    bench.end(attempts[6], PASSING)
    bench.end(attempts[0], PASSING)
    counts = {entry.action.concerns: entry.attempts for entry in bench.core._partitions[0].open_entries()}
    assert counts == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 0}


def test_an_outage_poisons_the_oldest_alone() -> None:
    bench = Bench()
    failing(bench, "abcdefgh")
    while bench.now < 400:
        wake = bench.core.wake_at(bench.now)
        bench.now = max(bench.now + 0.005, wake if wake is not None else bench.now + 1)
        bench.report()
        for attempt in bench.begin():
            bench.end(attempt, PASSING)
    poisoned = {number for number, (state, _, _) in bench.final().items() if state is OutcomeState.POISONED}
    assert poisoned == {1}


# Leases


def test_a_lost_partition_reports_nothing_and_its_attempts_are_waited_for() -> None:
    bench = Bench()
    bench.publish("a", "a", "b")
    first, other = bench.begin()
    bench.end(other, DONE)
    bench.core.lost(0)
    bench.hub.partitions[0].generation = 2
    assert bench.core.reports(bench.now + 1) == []
    bench.core.assigned(0, generation=2, position=0, now=bench.now)
    bench.read()
    assert bench.begun() == ["b"]  # of a, a handler still runs
    assert bench.core.attempts_running == 2
    bench.end(first, DONE)
    assert bench.core.counts.orphaned == 1
    (again,) = bench.begin()
    assert (again.action.number, again.generation) == (1, 2)


def test_a_stale_report_loses_the_partition() -> None:
    bench = Bench()
    bench.publish("a")
    (attempt,) = bench.begin()
    bench.end(attempt, DONE)
    bench.now += 0.005
    (report,) = bench.core.reports(bench.now)
    bench.core.report_stale(report)
    assert bench.core.partitions == {}
    bench.core.report_taken(report, bench.now)  # an answer that comes late
    assert bench.core.idle


def test_a_page_of_an_older_generation_is_passed_by() -> None:
    bench = Bench()
    bench.hub.publish(0, "a")
    (read,) = bench.core.reads()
    page = bench.hub.page(read, 0.0)
    bench.core.assigned(0, generation=2, position=0, now=0.0)
    bench.core.assigned(0, generation=1, position=0, now=0.0)
    bench.core.page(page, 0.0)
    assert bench.begun() == []
    assert bench.core.partitions == {0: 2}


def test_what_was_read_twice_is_done_once() -> None:
    bench = Bench()
    bench.hub.publish(0, "a")
    (read,) = bench.core.reads()
    page = bench.hub.page(read, 0.0)
    bench.core.page(page, 0.0)
    bench.core.page(page, 0.0)
    (attempt,) = bench.begin()
    bench.end(attempt, DONE)
    assert bench.begun() == []


def test_a_partition_that_is_given_up_ends_what_runs_and_releases_with_its_position() -> None:
    bench = Bench()
    bench.publish("a", "b", "a")
    first, second = bench.begin()
    bench.core.given_up(0)
    bench.end(first, DONE)
    assert bench.begun() == []
    assert bench.core.reads() == []
    (report,) = bench.report()
    assert not report.release
    bench.end(second, DONE)
    (last,) = bench.report()
    assert (last.release, last.position) == (True, 2)
    assert bench.core.idle


def test_a_partition_without_work_is_released_at_once_when_the_worker_stops() -> None:
    bench = Bench(partitions=2)
    bench.core.stop()
    assert [(report.release, report.position) for report in bench.report()] == [(True, 0), (True, 0)]
    bench.core.assigned(0, generation=2, position=0, now=bench.now)
    assert [report.release for report in bench.core.reports(bench.now)] == [True]


def test_an_attempt_that_cannot_be_ended_leaves_its_action_without_an_outcome() -> None:
    bench = Bench()
    bench.publish("a", "b", "c")
    hangs, other, _ = attempts = bench.begin()
    bench.end(other, DONE)
    bench.core.abandoned(hangs.attempt_id)
    assert bench.report()[0].release is False
    bench.end(attempts[2], DONE)
    (last,) = bench.report()
    assert (last.release, last.position) == (False, None), "its lease ends with the worker: that is a death"
    assert bench.core.running == [(0, 1)]
    assert bench.hub.partitions[0].final.keys() == {2, 3}
    assert bench.core.idle


def test_a_worker_without_an_answered_heartbeat_begins_nothing() -> None:
    bench = Bench()
    bench.publish("a")
    bench.core.suspended = True
    assert bench.begun() == []
    assert bench.core.wake_at(0.0) is None
    bench.core.suspended = False
    assert bench.begun() == ["a"]
    assert bench.core.running == [(0, 1)]


def test_time_in_queue_and_time_to_do_are_measured() -> None:
    bench = Bench()
    bench.now = 3.0
    bench.publish("a", accepted_at=HUB_AHEAD + 1)
    (attempt,) = bench.begin()
    bench.now = 3.5
    bench.end(attempt, DONE)
    counts = bench.core.counts.of("do")
    assert (counts.queue_seconds, counts.queued, counts.do_seconds, counts.begun) == (2, 1, 0.5, 1)


def test_attempts_of_members_before_count() -> None:
    bench = Bench({"do": ActionRule(retries=3)})
    bench.publish("a", attempts=3)
    (attempt,) = bench.begin()
    assert attempt.number == 4
    bench.end(attempt, PASSING)
    assert bench.final() == {1: (OutcomeState.POISONED, 4, "retries_exhausted")}


def test_what_lay_in_a_partition_when_it_was_taken_is_doubtful_and_what_comes_later_is_not() -> None:
    bench = Bench()
    bench.publish("a")
    bench.publish("b")
    assert [(each.action.concerns, each.doubtful) for each in bench.begin()] == [("a", True), ("b", False)]


def test_of_actions_that_the_next_death_poisons_one_is_under_way_at_a_time() -> None:
    bench = Bench()
    bench.publish("a", "b", deaths=2)
    bench.publish("c", deaths=1)
    first, fresh = bench.begin()
    assert (first.action.concerns, fresh.action.concerns) == ("a", "c")
    bench.end(fresh, DONE)
    assert bench.begun() == []
    bench.end(first, DONE)
    (second,) = bench.begin()
    assert (second.action.concerns, second.doubtful) == ("b", True)
