"""A hub with a group that does actions, whose clocks go on only when they are told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from restante.calls.actions import ListPoison, ReadAction, ReportOutcomes, SendAction, SendActions
from restante.model.actions.action_answers import AcceptedActions, ActionStatus, OutcomesTaken
from restante.model.actions.wanted_action import WantedAction
from restante.model.groups.group_answers import Assigned, NextPage
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem
from restante.ports.store import Store
from restante.settings import Settings
from tests.groups.group_world import QUIET, GroupWorld, SeveralWorld

inside = pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
"""Of tests that look at what lies in one process, or peek: doors hand requests for mailboxes through, and carry no such call."""
GROUP = "shop"
ACTIONS = ("add", "drop")


class ActionWorld(GroupWorld):
    """One hub, one group with two actions, one member that has every partition."""

    def __init__(self, store: Store | None = None, settings: Settings = QUIET) -> None:
        super().__init__(store, settings)
        self.define(GROUP, actions=ACTIONS)
        self.enter("worker")

    def enter(self, member: str) -> None:
        """Join, and have what the member gets."""
        joined = self.join(member, GROUP)
        self.member_id = joined.member_id
        self.owned = {own.partition: own for own in joined.partitions}

    def send(
        self, action: str = "add", concerns: str = "item", *, wait: float = 0, batch: str | None = None, **given: Any
    ) -> ActionStatus:
        wanted = WantedAction(action=action, concerns=concerns, **given)
        return self.hub.call(SendAction(wanted, wait, batch=batch))

    def send_all(self, *wanted: WantedAction, batch: str | None = None) -> AcceptedActions:
        return self.hub.call(SendActions(wanted, batch))

    def look(self, action_id: str, concerns: str | None = None) -> ActionStatus:
        return self.hub.call(ReadAction(action_id, concerns))

    def pages(self, group: str = GROUP) -> tuple[NextPage, ...]:
        return self.next(self.member_id, tuple(self.owned.values()), group)

    def handed(self, group: str = GROUP) -> list[dict[str, Any]]:
        """What is handed out now, with the partition of each."""
        return [
            {**row, "partition": page.partition, "properties": dict(row["properties"] or ())}
            for page in self.pages(group)
            for row in page.table.to_pylist()
        ]

    def report(
        self, row: dict[str, Any], state: OutcomeState = OutcomeState.DONE, *, group: str = GROUP, **given: Any
    ) -> OutcomesTaken:
        return self.report_all(row["partition"], outcome(row["sequence_number"], state, **given), group=group)

    def finish(self, row: dict[str, Any]) -> OutcomesTaken:
        """Report an action as a worker does that has a handler for each name of its group: done, or of an unknown name."""
        if row["owner"] == "group":
            return self.report(row)
        return self.report(row, OutcomeState.FAILED, problem=WorkProblem("action_unknown", "Nobody has declared it."))

    def report_all(
        self, partition: int, *outcomes: WorkOutcome, group: str = GROUP, generation: int | None = None, **given: Any
    ) -> OutcomesTaken:
        own: Assigned = self.owned[partition]
        number = own.generation if generation is None else generation
        return self.hub.call(ReportOutcomes(group, partition, number, outcomes, **given))

    def poison(self, group: str = GROUP) -> list[Any]:
        return list(self.hub.call(ListPoison(group)).poison)


class SeveralActionWorld(ActionWorld, SeveralWorld):
    """The same behind a door, with a shard for each of the four partitions."""

    def __init__(self, folder: Path, settings: Settings = QUIET) -> None:
        SeveralWorld.__init__(self, folder, settings)
        self.define(GROUP, actions=ACTIONS)
        self.enter("worker")


def outcome(number: int, state: OutcomeState = OutcomeState.DONE, **given: Any) -> WorkOutcome:
    """One that says why, where it must."""
    if state in (OutcomeState.POISONED, OutcomeState.FAILED):
        given.setdefault("problem", WorkProblem("broken", "It broke."))
    return WorkOutcome(sequence_number=number, state=state, attempts=given.pop("attempts", 1), **given)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found
