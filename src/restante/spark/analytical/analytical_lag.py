"""How far the analytical store is behind the hub: in numbers of the feed, and in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from restante.calls.mailboxes import ListPartitions
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.options import Retrying, terms_of
from restante.decoders import json_decoder
from restante.spark.source.options import HubPlace


@dataclass(frozen=True, slots=True)
class Lag:
    """0 of both: everything is in the tables."""

    numbers: int | None
    """Over all partitions; None: nothing was read yet."""
    seconds: float | None
    """How old the newest change in the tables is, unless everything is there; None: nothing has happened since the stream
    began. After a quiet hour, one change that is not in yet makes it an hour."""


def ends_of(place: HubPlace) -> dict[int, int]:
    """The last number of each partition. Asked once: who only wants to know need not wait for a hub that is away."""
    with closing(HttpLink(terms_of(place.url, token=place.token, retries=Retrying(times=0)))) as link:
        return {own.partition: own.visible_sequence for own in link.call(ListPartitions())}


def lag_of(
    progress: StreamingQueryProgress | None, ends: Mapping[int, int], newest: datetime | None, *, now: datetime
) -> Lag:
    """The lag of a stream, from how far it has read, where the hub ends, and when the newest change was that is in the tables."""
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
    return json_decoder(dict[str, int]).decode(offset)
