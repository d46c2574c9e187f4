"""Any history of pages, attempts, reports, clocks and leases: what must stay true of a worker's decisions does."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from restante.model.work.actions import ActionPage
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
)
from restante.model.work.rules import BRAKE_THINGS, ActionRule, WorkPolicy
from tests.work.hub_model import HUB_AHEAD, HubModel, PartitionModel

PARTITIONS = 2
READ_AHEAD = 12
ROUNDING = 1e-6
"""Seconds: a worker knows the hub's time as a difference of two numbers that are rounded."""
CONCURRENCY = 3
RULES = {"do": ActionRule(retries=2, wait_seconds=1), "strict": ActionRule(retries=1, after_poison="hold")}
THINGS = st.sampled_from("aaabbbcdefg")
NUMBERS = st.integers(0, PARTITIONS - 1)
RESULTS: st.SearchStrategy[AttemptResult] = st.one_of(
    st.just(AttemptPassing(detail="not now")),
    st.just(AttemptPassing(detail="not now")),
    st.just(AttemptDone()),
    st.just(AttemptPassing(detail="soon", seconds=0.0)),
    st.just(AttemptRefused(detail="no")),
    st.just(AttemptFailed(code="error", detail="boom")),
    st.just(AttemptNoData()),
)


class Working(RuleBasedStateMachine):
    """A worker, a hub, and everything that comes between them."""

    order = "thing"

    def __init__(self) -> None:
        super().__init__()
        policy = WorkPolicy(order=self.order, concurrency=CONCURRENCY, read_ahead=READ_AHEAD)  # type: ignore[arg-type]
        self.hub = HubModel({number: PartitionModel() for number in range(PARTITIONS)})
        self.core = WorkCore(RULES, policy)
        self.core.names(declared=RULES, elsewhere={"bill"})
        self.now = 0.0
        self.under_way: dict[int, WorkAttempt] = {}
        self.reports: list[OutcomeReport] = []
        self.decided: dict[tuple[int, int], set[int]] = {}
        """Of each partition and generation: what the worker knows an end of."""
        self.said_done: set[tuple[int, int, int]] = set()
        self.ends: dict[str, int] = {}
        self.failing: dict[int, set[str]] = {}
        self.pages: list[ActionPage] = []
        for number in range(PARTITIONS):
            self.assign(number)

    def key(self, concerns: str) -> str:
        return concerns if self.order == "thing" else ""

    def assign(self, number: int) -> None:
        own = self.hub.partitions[number]
        self.core.assigned(number, generation=own.generation, position=own.position, now=self.now)
        self.decided[number, own.generation] = set()
        self.failing[number] = set()

    def is_live(self, attempt: WorkAttempt) -> bool:
        return self.core.partitions.get(attempt.partition) == attempt.generation

    # What happens at the hub

    @rule(number=NUMBERS, things=st.lists(THINGS, min_size=1, max_size=8), at_once=st.booleans())
    def publish(self, number: int, things: list[str], at_once: bool) -> None:
        for thing in things:
            self.hub.publish(number, thing, "do", accepted_at=self.now + HUB_AHEAD)
        if at_once:
            self.read(8)
            self.begin()

    @rule(
        number=NUMBERS, thing=THINGS, odd=st.sampled_from(["strict", "bill", "nobodys", "check", "late", "soon late"])
    )
    def publish_something_odd(self, number: int, thing: str, odd: str) -> None:
        if odd == "check":
            self.hub.publish(number, thing, None, properties={"HEALTHCHECK": "TRUE"})
        elif odd in ("late", "soon late"):
            self.hub.publish(
                number, thing, "do", expires_at=self.now + HUB_AHEAD + (2.0 if odd == "soon late" else 0.0)
            )
        else:
            self.hub.publish(number, thing, odd)
            self.settle_at_hub(number)

    def settle_at_hub(self, number: int) -> None:
        """Actions of other groups get their outcomes there: to this one they are as if they were not."""
        own = self.hub.partitions[number]
        for action in [one for one in own.actions.values() if one.name == "bill"]:
            del own.actions[action.number]

    # What the runner does

    @rule(limit=st.integers(1, 8))
    def read(self, limit: int) -> None:
        for read in self.core.reads():
            self.pages.append(self.hub.page(read, self.now, limit))
            self.core.page(self.pages[-1], self.now)
        del self.pages[:-4]

    @precondition(lambda self: self.pages)
    @rule()
    def read_again(self) -> None:
        """A page comes twice, or late."""
        self.core.page(self.pages[0], self.now)

    @rule(seconds=st.sampled_from([0.001, 0.005, 1.0, 3.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        braked = {number: self.braked(number) for number in self.core.partitions}
        for attempt in self.core.begin(self.now):
            self.check_begun(attempt, braked[attempt.partition])
            self.under_way[attempt.attempt_id] = attempt

    def check_begun(self, attempt: WorkAttempt, braked: bool) -> None:
        action, thing = attempt.action, self.key(attempt.action.concerns)
        same = [
            one
            for one in self.under_way.values()
            if one.partition == attempt.partition and self.key(one.action.concerns) == thing
        ]
        assert not same, "two attempts at one thing"
        own = self.hub.partitions[attempt.partition]
        known = self.known_ends(attempt.partition)
        earlier = [
            number
            for number, one in own.actions.items()
            if number < action.number and self.key(one.concerns) == thing and number not in known
        ]
        assert not earlier, "an action overtook another of its thing"
        assert action.number not in known, "an action with an outcome was begun"
        assert action.expires_at is None or action.expires_at > self.now + HUB_AHEAD - ROUNDING
        if braked:
            triable = [one for one in self.open_heads(attempt.partition) if one <= action.number]
            assert triable == [action.number], "the brake is on, and another than the oldest was begun"

    def known_ends(self, partition: int) -> set[int]:
        """What has a final outcome, at the hub or on its way there."""
        work = self.core._partitions[partition]
        open_ones = {entry.action.number for entry in work.open_entries()}
        own = self.hub.partitions[partition]
        read = {number for number in own.actions if number <= work.read and number > work.position}
        return {*own.final, *(read - open_ones)}

    def open_heads(self, partition: int) -> list[int]:
        work = self.core._partitions[partition]
        standing = {"HELD", "LACKING"}
        return [one.action.number for one in work.open_entries() if one.thing.state.name not in standing]

    def braked(self, partition: int) -> bool:
        """By the rule as it is written: five things, or all that wait, failed with no success between."""
        failing = self.failing[partition]
        work = self.core._partitions[partition]
        waiting = {
            entry.thing.key for entry in work.open_entries() if entry.thing.state.name not in {"HELD", "LACKING"}
        }
        return len(failing) >= BRAKE_THINGS or (bool(waiting) and waiting <= failing)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), result=RESULTS, chance=st.floats(0, 1))
    def end(self, data: st.DataObject, result: AttemptResult, chance: float) -> None:
        attempt = self.under_way.pop(data.draw(st.sampled_from(sorted(self.under_way))))
        live = self.is_live(attempt)
        counts = live and self.is_counted(attempt)
        self.core.ended(attempt.attempt_id, result, now=self.now, chance=chance)
        if not live:
            self.ends["orphaned"] = self.ends.get("orphaned", 0) + 1
            return
        kind = type(result).__name__
        self.ends[kind] = self.ends.get(kind, 0) + 1
        if isinstance(result, AttemptDone):
            self.said_done.add((attempt.partition, attempt.generation, attempt.action.number))
        if isinstance(result, AttemptPassing):
            self.failing[attempt.partition].add(self.key(attempt.action.concerns))
            self.check_count(attempt, attempt.number if counts else attempt.number - 1)
        elif not isinstance(result, AttemptFailed):
            self.failing[attempt.partition].clear()

    def is_counted(self, attempt: WorkAttempt) -> bool:
        """While the brake is on, only attempts at the oldest action count."""
        return not self.braked(attempt.partition) or self.open_heads(attempt.partition)[0] == attempt.action.number

    def check_count(self, attempt: WorkAttempt, expected: int) -> None:
        own = [one for one in self.core._partitions[attempt.partition].open_entries() if one.action == attempt.action]
        assert [one.attempts for one in own] in ([], [expected])

    @rule()
    def make_reports(self) -> None:
        self.reports += self.core.reports(self.now)

    @precondition(lambda self: self.reports)
    @rule(fate=st.sampled_from(["taken", "taken", "refused", "unanswered"]))
    def answer(self, fate: str) -> None:
        """Refused, it was not taken; unanswered, it was, and the worker does not know."""
        report = self.reports.pop(0)
        if fate == "refused":
            self.core.report_failed(report, self.now)
        elif not self.hub.take(report):
            self.core.report_stale(report)
        elif fate == "unanswered":
            self.core.report_failed(report, self.now)
        else:
            self.core.report_taken(report, self.now)
            self.reassign_released(report)

    def reassign_released(self, report: OutcomeReport) -> None:
        if report.release:
            self.hub.partitions[report.partition].generation += 1
            self.assign(report.partition)

    @rule(number=NUMBERS, what=st.sampled_from(["lose", "fence", "give up", "suspend", "decide"]), thing=THINGS)
    def disturb(self, number: int, what: str, thing: str) -> None:
        match what:
            case "lose":
                self.lose(number)
            case "fence":  # another generation is in force, and the worker does not know yet; its next report tells
                self.hub.partitions[number].generation += 1
            case "give up":
                self.core.given_up(number)
            case "suspend":
                self.core.suspended = not self.core.suspended
            case _:
                self.core.decided(number, thing)

    def lose(self, number: int) -> None:
        """The lease ends, and the worker gets the partition back under a new generation."""
        self.hub.partitions[number].generation += 1
        self.core.lost(number)
        self.assign(number)

    # What must stay true

    @invariant()
    def bounds_hold(self) -> None:
        assert self.core.attempts_running == len(self.under_way) <= CONCURRENCY
        for work in self.core._partitions.values():
            assert len(work._order) <= READ_AHEAD

    @invariant()
    def done_is_only_what_was(self) -> None:
        for number, own in self.hub.partitions.items():
            for outcome in own.final.values():
                action = own.actions[outcome.sequence_number]
                if outcome.state is OutcomeState.DONE and not action.is_health_check:
                    said = [one for one in self.said_done if (one[0], one[2]) == (number, outcome.sequence_number)]
                    assert said, "done, and no attempt said so"

    @invariant()
    def counts_are_right(self) -> None:
        counts = self.core.counts
        total = [counts.of(name) for name in RULES]
        assert sum(one.done for one in total) == self.ends.get("AttemptDone", 0)
        assert sum(one.refused for one in total) == self.ends.get("AttemptRefused", 0)
        assert sum(one.no_data for one in total) == self.ends.get("AttemptNoData", 0)
        assert counts.orphaned == self.ends.get("orphaned", 0)
        passing = self.ends.get("AttemptPassing", 0)
        poisoned = sum(one.poisoned for one in total) - self.ends.get("AttemptFailed", 0)
        assert sum(one.retried for one in total) + poisoned == passing

    def teardown(self) -> None:
        """None is lost: when all goes well from now on, everything has an outcome, and the position passes it."""
        self.core.suspended = False
        self.reports.clear()
        for number in range(PARTITIONS):
            self.lose(number)
        for _ in range(400):
            if self.finish_a_little():
                break
        for number, own in self.hub.partitions.items():
            assert own.final.keys() == own.actions.keys(), f"lost in partition {number}"
            assert own.position == own.end

    def finish_a_little(self) -> bool:
        self.now += 11
        self.read(8)
        for number in range(PARTITIONS):
            for thing in "abcdefg":
                self.core.decided(number, thing)
        self.begin()
        for attempt_id in tuple(self.under_way):
            attempt = self.under_way.pop(attempt_id)
            if self.is_live(attempt):
                self.said_done.add((attempt.partition, attempt.generation, attempt.action.number))
                self.ends["AttemptDone"] = self.ends.get("AttemptDone", 0) + 1
                self.failing[attempt.partition].clear()
            else:
                self.ends["orphaned"] = self.ends.get("orphaned", 0) + 1
            self.core.ended(attempt_id, AttemptDone(), now=self.now)
        self.now += 11
        for report in self.core.reports(self.now):
            assert self.hub.take(report)
            self.core.report_taken(report, self.now)
        return all(own.position == own.end and own.final.keys() == own.actions.keys() for own in self.owned())

    def owned(self) -> list[PartitionModel]:
        return list(self.hub.partitions.values())


class WorkingInOrder(Working):
    """The same, with everything of a partition strictly one after another."""

    order = "partition"


TestWorking: Any = Working.TestCase
TestWorkingInOrder: Any = WorkingInOrder.TestCase
