"""Answers of the hub about actions, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.errors import RestanteError
from restante.model.actions.action_row import FINAL_STATES, ActionState


class ActionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why an action was not done, or not yet."""

    code: str
    detail: str = ""


class ActionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An action, and what became of it."""

    id: str
    action: str
    concerns: str
    state: ActionState
    attempts: int
    deaths: int
    """How many workers died while they did it."""
    accepted_at: datetime
    begun_at: datetime | None
    """When the last attempt began, as far as the hub knows."""
    ended_at: datetime | None
    next_attempt_at: datetime | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    """The value that its handler returned, as JSON."""
    location: str | UnsetType = UNSET
    problem: ActionProblem | UnsetType = UNSET
    declared: bool | UnsetType = UNSET
    """Whether a group has declared its name; said when it is accepted."""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever the handler returned
        """The result as a value; None if there is none, or no longer."""
        return None if self.result is UNSET else msgspec.json.decode(self.result)


class AcceptedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of many that were accepted together."""

    id: str
    action: str
    concerns: str
    state: ActionState


class AcceptedActions(msgspec.Struct, frozen=True, kw_only=True):
    """Many that were accepted together, in the order in which they were sent."""

    actions: tuple[AcceptedAction, ...]


class OutcomesTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a report: where the group is now, and how many outcomes were new."""

    partition: int
    generation: int
    position: int
    taken: int
    """Outcomes that were written."""
    known: int
    """Outcomes that changed nothing: of actions that had one already, are not there any more, or are not of the group."""


class PartitionReported(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the report of one partition among several: it was taken, or there is a problem, and nothing changed."""

    partition: int
    report: OutcomesTaken | UnsetType = UNSET
    problem: ActionProblem | UnsetType = UNSET


def reported(partition: int, answer: OutcomesTaken | RestanteError) -> PartitionReported:
    if isinstance(answer, RestanteError):
        return PartitionReported(partition=partition, problem=ActionProblem(code=answer.code, detail=answer.message))
    return PartitionReported(partition=partition, report=answer)


class OutcomesReported(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to the reports of several partitions, in the order in which they were sent."""

    partitions: tuple[PartitionReported, ...]


class PoisonedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that could not be done, with all that is needed to do it again."""

    id: str
    action: str
    concerns: str
    origin: str
    partition: int
    sequence_number: int
    published_at: datetime
    media_type: str
    properties: dict[str, str]
    attempts: int
    deaths: int
    problem: ActionProblem
    at: datetime
    member: str
    """The member that reported the outcome; empty if none is known."""
    data: Raw | UnsetType = UNSET
    """The body, if it is JSON."""
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


class PoisonPage(msgspec.Struct, frozen=True, kw_only=True):
    poison: tuple[PoisonedAction, ...]
    next: str | None
