"""The memory of the health checks that go through groups."""

from __future__ import annotations

from dataclasses import dataclass, field

LATE_SECONDS = 60.0
"""A check that no worker dropped within this time has failed. Two leases and a hand-over are shorter."""
_SECOND = 1_000_000


@dataclass(slots=True)
class GroupCheck:
    """The last check of one group."""

    action_id: str
    recipient: str
    partition: int
    sent_at: int
    took: float | None = None
    """Seconds until it was dropped; None: it was not yet."""


@dataclass(slots=True)
class GroupChecks:
    """The last health check of each group."""

    checks: dict[str, GroupCheck] = field(default_factory=dict)

    def problem(self, group: str, now: int) -> str | None:
        """The problem with a group, by its last check."""
        check = self.checks.get(group)
        if check is None or check.took is not None or now - check.sent_at < LATE_SECONDS * _SECOND:
            return None
        age = (now - check.sent_at) / _SECOND
        return f"A check in partition {check.partition} waits for a worker since {age:.0f} s: it is stuck, or too busy."
