"""How far the analytical store is behind the hub: in numbers of the feed, and in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress


@dataclass(frozen=True, slots=True)
class Lag:
    """0 of both: everything is in the tables."""

    numbers: int | None
    """Over all partitions; None: nothing was read yet."""
    seconds: float | None
    """How long ago the newest change in the tables happened; None: nothing has happened since the stream began."""


def lag_of(progress: StreamingQueryProgress | None, newest: datetime | None, *, now: datetime | None = None) -> Lag:
    """From what Spark tells of a stream, and from when the newest change was that is in the tables."""
    numbers = _numbers(progress.sources[0]) if progress is not None and progress.sources else None
    if numbers == 0:
        return Lag(0, 0.0)
    behind = None if newest is None else ((now or datetime.now(UTC)) - newest).total_seconds()
    return Lag(numbers, behind)


def _numbers(source: SourceProgress) -> int | None:
    latest, reached = _positions(source.latestOffset), _positions(source.endOffset)
    if not latest or not reached:
        return None
    return sum(max(end - max(reached.get(partition, 0), 0), 0) for partition, end in latest.items())


def _positions(offset: str | None) -> dict[str, int]:
    if not offset or offset == "null":
        return {}
    return msgspec.json.decode(offset, type=dict[str, int])
