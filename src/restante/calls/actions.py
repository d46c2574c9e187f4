"""Actions: asked for, looked at, waited for, reported; and what could not be done, done again or given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from restante.calls.call import Call, Count, Home, Number, Seconds
from restante.model.actions.action_answers import (
    AcceptedActions,
    ActionStatus,
    OutcomesReported,
    OutcomesTaken,
    PoisonPage,
)
from restante.model.actions.wanted_action import WantedAction
from restante.model.work.results import WorkOutcome


class SendAction(Call[ActionStatus], frozen=True):
    """Have something done. The answer comes when it is accepted, or within `wait` seconds with its outcome.

    It becomes an item of the batch, if one is named.
    """

    wanted: WantedAction
    wait: Seconds = 0
    carried: Mapping[str, str] = {}
    """Further properties of the message."""
    batch: str | None = None


class SendActions(Call[AcceptedActions], frozen=True):
    """Have many things done: all are accepted, or none. They become items of the batch, if one is named."""

    wanted: Sequence[WantedAction]
    batch: str | None = None
    carried: Mapping[str, str] = {}


class ReadAction(Call[ActionStatus], frozen=True):
    """Read what became of an action; if that is not final, `wait` seconds for it."""

    action_id: str
    concerns: str | None = None
    """The thing: to be named if the same id was used for several."""
    wait: Seconds = 0


class ReportOutcomes(Call[OutcomesTaken], frozen=True):
    """Report what became of actions of one partition, and how far the group is there: all of it in one commit."""

    group: str
    partition: int
    generation: Number
    outcomes: Sequence[WorkOutcome]
    position: Number | None = None
    release: bool | None = None
    """Whether this gives up a partition that is to go to another member; None: only if its holder was told to give it up."""


class ReportEach(Call[OutcomesReported], frozen=True):
    """Reports of several partitions at once, each taken or refused by itself. All taken ones go into one commit."""

    reports: Sequence[ReportOutcomes]


class ListPoison(Call[PoisonPage], frozen=True):
    """List the actions that a group could not do."""

    home = Home.ALL

    group: str
    limit: Count | None = None
    after: str | None = None


class RepeatPoison(Call[ActionStatus], frozen=True):
    """Have an action that is poison done again, at the end and with a fresh count."""

    home = Home.ALL

    group: str
    action_id: str
    concerns: str | None = None


class GiveUpPoison(Call[None], frozen=True):
    """An action that is poison will not be done."""

    home = Home.ALL

    group: str
    action_id: str
    concerns: str | None = None
