"""What a hub would do with the reports of a worker: small, and plainly right."""

from __future__ import annotations

from dataclasses import dataclass, field

from restante.model.work.actions import ActionPage, WorkAction
from restante.model.work.core import ReadOn
from restante.model.work.results import OutcomeReport, WorkOutcome

HUB_AHEAD = 1_000_000.0
"""The hub's time less the worker's."""


@dataclass
class PartitionModel:
    """One partition: its actions by number, and what was reported of them."""

    generation: int = 1
    position: int = 0
    end: int = 0
    actions: dict[int, WorkAction] = field(default_factory=dict)
    final: dict[int, WorkOutcome] = field(default_factory=dict)


@dataclass
class HubModel:
    """Partitions with fenced reports."""

    partitions: dict[int, PartitionModel]
    reports: int = 0

    def publish(self, partition: int, concerns: str, name: str | None = "do", **given: object) -> WorkAction:
        own = self.partitions[partition]
        own.end += 1
        action = WorkAction(number=own.end, id=f"{partition}-{own.end}", concerns=concerns, name=name, **given)  # type: ignore[arg-type]
        own.actions[own.end] = action
        return action

    def skip(self, partition: int, count: int) -> None:
        """Numbers that are no actions."""
        self.partitions[partition].end += count

    def page(self, read: ReadOn, now: float, limit: int = 100) -> ActionPage:
        own = self.partitions[read.partition]
        found = [action for number, action in own.actions.items() if number > read.position and number not in own.final]
        found = found[: min(limit, read.limit)]
        whole = len(found) < min(limit, read.limit)
        following = own.end if whole else found[-1].number
        return ActionPage(
            partition=read.partition,
            generation=read.generation,
            next=max(following, read.position),
            actions=tuple(found),
            now=now + HUB_AHEAD,
        )

    def take(self, report: OutcomeReport) -> bool:
        """Whether it was taken; another generation changes nothing."""
        own = self.partitions[report.partition]
        if own.generation != report.generation:
            return False
        self.reports += 1
        for outcome in report.outcomes:
            assert outcome.sequence_number in own.actions
            if outcome.is_final:
                before = own.final.setdefault(outcome.sequence_number, outcome)
                assert before == outcome, "an action has one final outcome"
        if report.position is not None:
            assert report.position <= own.end
            own.position = max(own.position, report.position)
            passed = [number for number in own.actions if number <= own.position]
            assert all(number in own.final for number in passed), "the position passed what has no outcome"
        return True
