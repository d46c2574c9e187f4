"""Actions as a worker gets them: pages of one partition, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Whose name it is, as the hub knew when it gave the page: what a worker was told when it joined may be old."""
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
