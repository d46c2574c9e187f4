"""When leases end, and when a partition goes on though nobody released it. Times are of a clock that only goes forward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

HEARTBEATS_MISSED_MAX = 3
"""The number of heartbeats after which a member that misses them loses its partitions."""


def lease_seconds(heartbeat_seconds: float) -> float:
    return HEARTBEATS_MISSED_MAX * heartbeat_seconds


def lapsed(heard: Mapping[bytes, float], now: float, heartbeat_seconds: float) -> frozenset[bytes]:
    """The members whose leases have ended; `heard` says when each was heard last."""
    length = lease_seconds(heartbeat_seconds)
    return frozenset(member for member, at in heard.items() if now - at >= length)


def overdue(told: Mapping[int, float], now: float, handover_seconds: float) -> frozenset[int]:
    """The partitions that go on without a release; `told` says since when their holders know."""
    return frozenset(partition for partition, at in told.items() if now - at >= handover_seconds)


def seconds_left(
    heard: Iterable[float], told: Iterable[float], now: float, *, heartbeat_seconds: float, handover_seconds: float
) -> float | None:
    """How long until something ends next; None if nothing does."""
    ends = [at + lease_seconds(heartbeat_seconds) for at in heard] + [at + handover_seconds for at in told]
    return max(0.0, min(ends) - now) if ends else None
