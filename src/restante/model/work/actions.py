"""Actions of a worker: as pages of one partition bring them, in the order of their numbers, and as entries in its hands."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

HEALTH_PROPERTY = "HEALTHCHECK"
HEALTH_VALUE = "TRUE"
"""Exactly this: `true` is an ordinary message."""


NameOwner = Literal["group", "elsewhere", "nobody"]


class WorkAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One action to be done. Times are the hub's, in seconds since 1970 UTC."""

    number: int
    """The sequence number of the change that brought it."""
    id: str
    concerns: str
    name: str | None = None
    data: bytes = b""
    media_type: str = "application/json"
    properties: Mapping[str, str] = {}
    accepted_at: float = 0.0
    expires_at: float | None = None
    owner: NameOwner | None = None
    """The owner of the action's name when the hub gave the page. The names that a worker got when it joined may be out of date."""
    attempts: int = 0
    """Attempts by members before this one, as far as the hub knows."""
    deaths: int = 0
    """Workers that died while they did it, as far as the hub knows."""

    @property
    def is_health_check(self) -> bool:
        return self.properties.get(HEALTH_PROPERTY) == HEALTH_VALUE


class ActionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The actions that one read of a partition gave."""

    partition: int
    generation: int
    next: int
    """Up to where the partition was read."""
    actions: tuple[WorkAction, ...]
    now: float
    """The hub's time when it answered."""


class EntryState(Enum):
    """The states of an action at a worker."""

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

    __slots__ = ("due_at", "key", "poison", "queue", "state")

    def __init__(self, key: str) -> None:
        self.key = key
        self.queue: deque[WorkEntry] = deque()
        self.state = ThingState.EMPTY
        self.due_at = 0.0
        self.poison: WorkEntry | None = None
        """The poison that this worker held the thing for: until the hub has it, nobody can decide about it."""

    @property
    def first(self) -> WorkEntry:
        return self.queue[0]
