"""Actions in the hands of a worker, and the things that they concern."""

from __future__ import annotations

from collections import deque
from enum import Enum

from restante.model.work.actions import WorkAction


class EntryState(Enum):
    """How far an action is."""

    OPEN = 1
    DECIDED = 2
    """The action has an outcome, which is not reported yet."""
    REPORTING = 3
    SETTLED = 4
    """The hub has its outcome, or it needs none."""


class WorkEntry:
    """An action that was read."""

    __slots__ = ("action", "attempts", "begun_at", "state", "thing")

    def __init__(self, action: WorkAction, thing: WorkThing) -> None:
        self.action = action
        self.thing = thing
        self.attempts = action.attempts
        """Attempts so far, the one under way included."""
        self.begun_at: float | None = None
        self.state = EntryState.OPEN


class ThingState(Enum):
    """The states of a thing: only the first of its actions is ever tried."""

    READY = 1
    RUNNING = 2
    PARKED = 3
    """Until a time: for a retry, or because its action may not be begun so often."""
    HELD = 4
    """Until an operator has decided about its poison."""
    LACKING = 5
    """This worker has no handler for its next action; a newer one has."""
    EMPTY = 6


class WorkThing:
    """A thing that actions concern: they are done one after another."""

    __slots__ = ("due_at", "key", "queue", "state")

    def __init__(self, key: str) -> None:
        self.key = key
        self.queue: deque[WorkEntry] = deque()
        self.state = ThingState.EMPTY
        self.due_at = 0.0

    @property
    def first(self) -> WorkEntry:
        return self.queue[0]
