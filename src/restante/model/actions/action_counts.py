"""Counts of the actions of one name, since the hub was opened."""

from __future__ import annotations

from dataclasses import dataclass, fields

from restante.model.actions.action_row import ActionState


@dataclass(slots=True)
class ActionTotals:
    accepted: int = 0
    done: int = 0
    failed: int = 0
    expired: int = 0
    poisoned: int = 0
    begun: int = 0
    """How many actions there are of which it is known when they were begun."""
    queued_seconds: float = 0.0
    """The seconds from acceptance until the last attempt was begun, of all actions together."""
    doing_seconds: float = 0.0
    """The seconds that the last attempts of all actions took together."""

    def add(self, state: ActionState, *, queued: float, took: float) -> None:
        setattr(self, state.value, getattr(self, state.value) + 1)
        self.begun += queued >= 0
        self.queued_seconds += max(0.0, queued)
        self.doing_seconds += max(0.0, took)

    def take_in(self, other: ActionTotals) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
