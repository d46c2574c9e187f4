"""Progress of the analytical store: micro-batches taken in one after the other, with the upkeep between them, and the lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from restante.calls.mailboxes import ListPartitions
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.options import Retrying, terms_of
from restante.decoders import json_decoder
from restante.spark.analytical.analytical_batches import ByFiles, apply
from restante.spark.analytical.analytical_facts import Facts
from restante.spark.analytical.analytical_tables import Tables, folders_of
from restante.spark.analytical.analytical_upkeep import Upkeep, clean, cleaned_on, compact, expire, remember_cleaning
from restante.spark.documents import Fidelity
from restante.spark.jobs.work import Outcome
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


_COUNTED = ("messages", "deliveries", "completed_batches", "erased_recipients", "mismatches")


class AnalyticalProgress:
    """The progress of one run of the job."""

    def __init__(self, tables: Tables, fidelity: Fidelity, upkeep: Upkeep, tell: Callable[[str], None]) -> None:
        self._tables = tables
        self._fidelity = fidelity
        folders = folders_of(tables) if fidelity is Fidelity.NONE else None
        self._by_files = None if folders is None else ByFiles(tables, folders)
        self._upkeep = upkeep
        self._tell = tell
        self._counts: Counter[str] = Counter()
        self._batches = 0
        self._cleaned_on: date | None = None
        self._slowest = 0.0
        self.newest: datetime | None = None
        """When the newest change happened that is in the tables."""

    def take_in(self, changes: DataFrame, number: int) -> None:
        """Take in a micro-batch, each time Spark calls."""
        begun = self.newest is not None
        if self._by_files is not None:
            facts = self._by_files.apply(changes, number=number)
        else:
            facts = apply(self._tables, changes, number=number, fidelity=self._fidelity, feed_has_begun=begun)
        self._note(facts, datetime.now(UTC))
        if (number + 1) % self._upkeep.every == 0:
            compact(self._tables, self._upkeep)
        self.tidy(datetime.now(UTC).date())

    def tidy(self, today: date) -> None:
        """Delete what is too old, once a day; of tables that were just made there is nothing."""
        if self._cleaned_on is None:
            self._cleaned_on = cleaned_on(self._tables) or remember_cleaning(self._tables, today)
        if self._cleaned_on == today:
            return
        self._cleaned_on = today
        expire(self._tables, self._upkeep, today=today)
        clean(self._tables, self._upkeep, today=today)

    def outcome(self, lag: Lag) -> Outcome:
        counts = {name: self._counts[name] for name in _COUNTED}
        seconds = None if lag.seconds is None else round(lag.seconds, 3)
        behind = {"slowest_seconds": round(self._slowest, 3), "lag_numbers": lag.numbers, "lag_seconds": seconds}
        return Outcome(figures={"micro_batches": self._batches, **counts, "watermark": self._watermark, **behind})

    @property
    def _watermark(self) -> str | None:
        return None if self.newest is None else self.newest.isoformat(timespec="milliseconds")

    def _note(self, facts: Facts, now: datetime) -> None:
        self._batches += 1
        happened = facts.settled + facts.opened
        values = (facts.new, happened, facts.completed, facts.erased, facts.mismatches)
        self._counts.update(dict(zip(_COUNTED, values, strict=True)))
        if facts.oldest is not None:
            self._slowest = max(self._slowest, (now - facts.oldest).total_seconds())
        if facts.newest is not None:
            self.newest = max(self.newest or facts.newest, facts.newest)
        until = "" if self._watermark is None else f", up to {self._watermark}"
        self._tell(f"{facts.new:,} messages and {happened:,} deliveries taken in{until}")
