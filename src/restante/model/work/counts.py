"""Counts of a worker, by the names that its app declares; all others are one."""

from __future__ import annotations

from dataclasses import dataclass, field

OTHERS = ""
"""Names that the app does not have are counted together: strangers choose them."""
UNKNOWN_NAMES_MAX = 100


@dataclass(slots=True)
class ActionCounts:
    """The counts of one action."""

    begun: int = 0
    done: int = 0
    retried: int = 0
    """Attempts that failed in passing, and are made again."""
    poisoned: int = 0
    refused: int = 0
    expired: int = 0
    no_data: int = 0
    unknown: int = 0
    queue_seconds: float = 0.0
    """The time from acceptance to the first attempt, all together."""
    queued: int = 0
    do_seconds: float = 0.0
    """The time of the attempts, all together."""


@dataclass(slots=True)
class WorkCounts:
    """The counts of one worker."""

    actions: dict[str, ActionCounts] = field(default_factory=dict)
    health_checks: int = 0
    health_check_seconds: float = 0.0
    """The age of the last one when it was dropped."""
    passed_over: int = 0
    """Actions of other groups."""
    orphaned: int = 0
    """Attempts that ended after the partition was lost: nothing is reported of them."""

    unknown_names: list[str] = field(default_factory=list)
    """Names that no group declared, each once, in the order in which they came; as many as are worth telling."""

    def meet(self, name: str) -> None:
        if len(self.unknown_names) < UNKNOWN_NAMES_MAX and name not in self.unknown_names:
            self.unknown_names.append(name)

    def of(self, name: str) -> ActionCounts:
        found = self.actions.get(name)
        if found is None:
            found = self.actions[name] = ActionCounts()
        return found
