"""What a handler may know of the action that it does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from restante.model.work.core import WorkAttempt


class ActionJob(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at an action."""

    id: str
    action: str
    concerns: str
    attempt: int
    """1 for the first."""
    partition: int
    number: int
    generation: int
    published_at: datetime
    properties: Mapping[str, str]

    @property
    def correlation_id(self) -> str | None:
        return self.properties.get("correlation_id")

    @property
    def traceparent(self) -> str | None:
        """The trace that the action belongs to, as W3C Trace Context writes it."""
        return self.properties.get("traceparent")


def job_of(attempt: WorkAttempt) -> ActionJob:
    action = attempt.action
    return ActionJob(
        id=action.id,
        action=action.name or "",
        concerns=action.concerns,
        attempt=attempt.number,
        partition=attempt.partition,
        number=action.number,
        generation=attempt.generation,
        published_at=datetime.fromtimestamp(action.accepted_at, UTC),
        properties=action.properties,
    )
