"""Holds of the feed: what a subject has still to read stays, though it is past its retention; for a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from restante.hub.engine.core import Core


@dataclass(slots=True)
class FeedHolds:
    """The subjects that may hold the feed back."""

    holders: list[Callable[[int], int | None]] = field(default_factory=list)
    """Functions of a partition: the number up to which a subject has passed it; None if it holds nothing back."""


@dataclass(frozen=True, slots=True)
class FeedHold:
    """The changes that are held back in one partition."""

    passed: int | None
    """The number up to which all readers have passed; None: nobody holds anything back."""
    since: int
    """The time up to which nothing is held any more."""

    def has(self, number: int, at: int) -> bool:
        """Whether what has this number, and happened then, is held back."""
        return self.passed is not None and number > self.passed and at > self.since


def hold_of(core: Core, partition: int) -> FeedHold:
    told = [held(partition) for held in core.memory(FeedHolds).holders]
    passed = min((number for number in told if number is not None), default=None)
    return FeedHold(passed, core.clock() - int(core.settings.groups.hold_seconds * 1_000_000))
