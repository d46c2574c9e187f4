"""Facts of a batch of changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import msgspec


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Counted while the batch is taken in."""

    new: int = 0
    moved: int = 0
    settled: int = 0
    opened: int = 0
    erased: int = 0
    completed: int = 0
    moved_first: int | None = None
    moved_last: int | None = None
    """The numbers between which the messages lay that were moved."""
    oldest: datetime | None = None
    """When the first change happened. Messages of a snapshot are no changes."""
    newest: datetime | None = None
    mismatches: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether the changes are nothing but new messages, and messages that are settled where they are."""
        return not (self.moved or self.opened or self.erased or self.completed)


def counted_by_spark(values: Mapping[str, Any]) -> Facts:
    """The facts that Spark has counted. Its times are in the zone of this process, without saying so."""
    times = {name: values[name] and values[name].astimezone(UTC) for name in ("oldest", "newest")}
    return Facts(**{**values, **times})


def together(parts: Iterable[Facts]) -> Facts:
    """The facts of a micro-batch, put together from those of its parts."""
    return reduce(_sum, parts, Facts())


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def last(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def _sum(one: Facts, other: Facts) -> Facts:
    return Facts(
        new=one.new + other.new,
        moved=one.moved + other.moved,
        settled=one.settled + other.settled,
        opened=one.opened + other.opened,
        erased=one.erased + other.erased,
        completed=one.completed + other.completed,
        moved_first=min((own.moved_first for own in (one, other) if own.moved_first is not None), default=None),
        moved_last=max((own.moved_last for own in (one, other) if own.moved_last is not None), default=None),
        oldest=earliest(one.oldest, other.oldest),
        newest=last(one.newest, other.newest),
        mismatches=one.mismatches + other.mismatches,
    )
