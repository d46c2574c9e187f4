"""What an operator decides, as one frozen value."""

from __future__ import annotations

import math

import msgspec

from restante import limits
from restante.errors import InvalidRequest

DAY_SECONDS = 86_400.0


class OriginSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One origin. `group` is the origin group it belongs to; alone by default."""

    group: str | None = None


class OriginGroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One origin group. `strict_order`: a bundle ends before the first waiting message of another cabinet."""

    strict_order: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a hub."""

    partition_count: int = limits.PARTITIONS_DEFAULT
    """Fixed when the data folder is created."""
    collected_retention_seconds: float = 30 * DAY_SECONDS
    """How long collected messages stay as history."""
    feed_retention_seconds: float = 7 * DAY_SECONDS
    """How far back the feed reaches; never more than the history."""
    housekeeping_seconds: float = 30.0
    """How often expiry and retention are looked after in the background; 0 leaves it to explicit calls."""
    filing: bool = True
    """Whether mailbags are filed in the background; otherwise only by explicit calls."""
    origins: dict[str, OriginSettings] = {}
    origin_groups: dict[str, OriginGroupSettings] = {}

    def __post_init__(self) -> None:
        if not 1 <= self.partition_count <= limits.PARTITIONS_MAX:
            raise InvalidRequest(f"partition_count must be 1 to {limits.PARTITIONS_MAX}, not {self.partition_count}.")
        for name in ("collected_retention_seconds", "feed_retention_seconds", "housekeeping_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidRequest(f"{name} must be a number of seconds, 0 or more, not {getattr(self, name)}.")

    @property
    def feed_reach_seconds(self) -> float:
        """How far back the feed really reaches: what history has let go, it cannot tell."""
        return min(self.feed_retention_seconds, self.collected_retention_seconds)

    def group_of(self, origin: str) -> str:
        """The origin group of an origin: its own name unless configured."""
        known = self.origins.get(origin)
        return known.group if known is not None and known.group is not None else origin

    def strict_order(self, group: str) -> bool:
        known = self.origin_groups.get(group)
        return known is not None and known.strict_order
