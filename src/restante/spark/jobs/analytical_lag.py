"""How far the analytical store is behind the hub: in numbers of the feed, and in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress


@dataclass(frozen=True, slots=True)
class Lag:
    """0 of both: everything is in the tables."""

    numbers: int | None
    """Over all partitions; None: nothing was read yet."""
    seconds: float | None
    """How long ago the newest change in the tables happened; None: nothing has happened since the stream began."""


def lag_of(
    progress: StreamingQueryProgress | None, ends: Mapping[int, int], newest: datetime | None, *, now: datetime
) -> Lag:
    """From how far a stream has read, where the hub ends, and when the newest change was that is in the tables."""
    numbers = _numbers(progress.sources[0], ends) if progress is not None and progress.sources else None
    if numbers == 0:
        return Lag(0, 0.0)
    return Lag(numbers, None if newest is None else (now - newest).total_seconds())


def _numbers(source: SourceProgress, ends: Mapping[int, int]) -> int | None:
    reached = _positions(source.endOffset)
    if not reached:
        return None
    return sum(max(end - max(reached.get(str(partition), 0), 0), 0) for partition, end in ends.items())


def _positions(offset: str | None) -> dict[str, int]:
    if not offset or offset == "null":
        return {}
    return msgspec.json.decode(offset, type=dict[str, int])
