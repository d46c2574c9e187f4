"""A night computed by Spark: settled, delivered at one moment, collected by every actor, and reported from tables.

The jobs are those that `restante jobs run` runs. Each night has actors of its own. Every actor checks what it collects:
its documents are all there, each once and in order, and add up to its summary. Nothing here prints: `tour` shows what
happened. Only a tour that has Spark imports this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import functions as f

from restante.client.surface.surface import Bundle, Hub
from restante.decoders import json_decoder
from restante.samples.night_steps import (
    Advance,
    NightStep,
    PlotPoint,
    SettledNight,
    WatchStep,
    followed,
    side_by_side,
    timed,
)
from restante.samples.onlookers import Tell, looking_on
from restante.samples.sample_night import night_name
from restante.spark.jobs import analytical_store, collection_report, nightly_run
from restante.spark.jobs.work import Figure, Outcome, Work
from restante.spark.nightly.nightly_settlement import PRODUCTS
from restante.spark.reports.kept_reports import ADDED
from restante.spark.reports.outcomes import fates
from restante.spark.reports.report_run import opened

STEPS = _SETTLE, _COLLECT, _FILL, _REPORT = "settle and deliver", "collect and confirm", "fill the tables", "report"
"""The steps of the night, in order."""
_GROUPS_MAX = 8
_COMPLETE_SECONDS = 60.0
_SLOWEST_SHOWN = 8
_PLACES = {name: place for place, name in enumerate(PRODUCTS)}


class Shows(NamedTuple):
    """A display of how far the night is: a bar for a step of Spark, bars of messages, lines of messages that arrive."""

    stages: Callable[[str], AbstractContextManager[None]]
    bars: Callable[[], AbstractContextManager[WatchStep]]
    live: Tell
    """Shows a message that has arrived."""
    reported: Callable[[str, Callable[[], Outcome]], Outcome]
    """Runs a job of this name, and reports the run to the hub."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkNightPlan:
    """The plan of a night: its size and its name."""

    readings: int
    actors: int
    name: str

    @classmethod
    def of(cls, *, readings: int, actors: int) -> SparkNightPlan:
        """A night with a name of its own: what an earlier night left is not in the way."""
        return cls(readings=readings, actors=actors, name=night_name(time.time_ns()))

    @property
    def prefix(self) -> str:
        return f"{self.name}-"

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}{number:06d}" for number in range(self.actors)]


def play(hub: Hub, work: Work, plan: SparkNightPlan, shows: Shows) -> SettledNight:
    """The whole night."""
    night = SettledNight(messages=0, recipients=plan.actors, readings=plan.readings, tables=work.tables)
    since = datetime.now(UTC) - timedelta(seconds=1)  # The hub's clock may be a little behind.
    with looking_on(hub, plan.names, night, shows.live):
        batch = _settle(work, plan, night, shows)
    with shows.bars() as watch:
        _collect(hub, plan, night, watch, batch)
    _complete(hub, night, batch)
    _fill(work, night, shows)
    _report(work, night, shows, since)
    return night


def _settle(work: Work, plan: SparkNightPlan, night: SettledNight, shows: Shows) -> str:
    """Compute and deliver. Says which batch counts what is collected."""
    groups = max(1, min(_GROUPS_MAX, plan.readings // plan.actors))
    options = nightly_run.Options(
        readings=plan.readings, actors=plan.actors, groups=groups, prefix=plan.prefix, key=plan.name
    )
    with shows.stages(_SETTLE):
        outcome = shows.reported(nightly_run.NAME, lambda: nightly_run.run(work, options))
    figures = outcome.figures
    night.messages, night.duplicates = int(_number(figures["messages"])), int(_number(figures["duplicates"]))
    night.settlement = _rows(outcome)
    settled = NightStep(step="settle", messages=plan.readings, seconds=_number(figures["settle_seconds"]))
    settled.detail = (
        f"{plan.readings:,} meter readings of {plan.actors:,} actors, aggregated, priced and made into documents"
    )
    delivered = NightStep(step="deliver", messages=night.messages, seconds=_number(figures["deliver_seconds"]))
    delivered.detail = (
        "staged by Spark's tasks, and visible at one moment, exactly once: one consignment, bound to a batch"
    )
    night.steps += [settled, delivered]
    return str(figures["batch"])


def _collect(hub: Hub, plan: SparkNightPlan, night: SettledNight, watch: WatchStep, batch: str) -> None:
    with (
        timed(night, watch, _COLLECT, night.messages) as (step, advance),
        followed(hub.batches.get(batch), watch, night.messages),
    ):
        actors = side_by_side(plan.names, lambda names: _Actors(hub, names, advance))
    night.bundles = sum(one.bundles for one in actors)
    night.last = max(one.latest for one in actors)[1]
    night.wrong += [text for one in actors for text in one.wrong]
    step.detail = f"{night.bundles:,} bundles, each peeked and then dequeued in a commit of its own"
    readings = sum(one.readings for one in actors)
    if readings != plan.readings:
        night.wrong.append(f"The actors have got {readings:,} of {plan.readings:,} readings.")


def _complete(hub: Hub, night: SettledNight, batch: str) -> None:
    """The hub's own account: everyone has collected everything."""
    found = hub.batches.get(batch)
    try:
        night.batch = found.completed(timeout=_COMPLETE_SECONDS)
    except TimeoutError:
        night.batch = found.status()
        night.wrong.append(f"The batch is not complete: {night.batch.pending:,} messages are pending.")
    if night.batch.collected != night.messages:
        night.wrong.append(f"The batch counts {night.batch.collected:,} of {night.messages:,} messages as collected.")


def _fill(work: Work, night: SettledNight, shows: Shows) -> None:
    """The tables, up to now."""
    with _staged(night, shows, _FILL):
        shows.reported(analytical_store.NAME, lambda: analytical_store.run(work, analytical_store.Options()))
    night.steps[-1].detail = "the feed, read into Delta tables of messages and deliveries; each change applied once"


def _report(work: Work, night: SettledNight, shows: Shows, since: datetime) -> None:
    as_of = datetime.now(UTC)
    with _staged(night, shows, _REPORT):
        options = collection_report.Options(as_of=as_of, since=since)
        outcome = shows.reported(collection_report.NAME, lambda: collection_report.run(work, options))
        night.report = _slowest(work, as_of, outcome)
        night.collected = list(_moments(work, as_of, since))
    night.steps[-1].detail = "per actor, from the tables: published, collected, waiting, and the time to collect"
    reported = night.collected[-1].collected if night.collected else 0
    if reported != night.messages:
        night.wrong.append(f"The tables have {reported:,} of {night.messages:,} messages as collected.")


def _slowest(work: Work, as_of: datetime, outcome: Outcome) -> list[dict[str, Any]]:
    """The slowest of all rows of the report. Its outcome has them, unless they are many; the table has all."""
    if outcome.table is not None and outcome.table.num_rows == outcome.figures["rows"]:
        return sorted(outcome.table.to_pylist(), key=_seconds_to_collect, reverse=True)[:_SLOWEST_SHOWN]
    kept = work.spark.read.format("delta").load(work.place("reports", collection_report.NAME))
    longest = kept.where(f.col("computed_at") == f.lit(as_of)).orderBy(f.desc_nulls_last("collect_seconds_p95"))
    return longest.drop(*ADDED).limit(_SLOWEST_SHOWN).toArrow().to_pylist()


def _seconds_to_collect(row: dict[str, Any]) -> float:
    return row["collect_seconds_p95"] if row["collect_seconds_p95"] is not None else -1.0


@contextmanager
def _staged(night: SettledNight, shows: Shows, name: str) -> Iterator[None]:
    """A step that Spark takes."""
    started = time.perf_counter()
    with shows.stages(name):
        yield
    night.steps.append(NightStep(step=name, messages=night.messages, seconds=time.perf_counter() - started))


def _moments(work: Work, as_of: datetime, since: datetime) -> Iterator[PlotPoint]:
    """How many messages were collected by when, to a tenth of a second."""
    messages, deliveries = opened(work)
    told = fates(messages, deliveries, as_of=as_of, since=since).where("state = 'collected'")
    tenth = f.ceil(f.col("collect_seconds") * f.lit(10)).cast("int").alias("tenth")
    collected = 0
    for row in told.groupBy(tenth).count().orderBy("tenth").collect():
        collected += row["count"]
        yield PlotPoint(row["tenth"] / 10, collected)


class Document(msgspec.Struct, frozen=True):
    """A document that an actor reads of its mail: lines of a product, or the summary of them all."""

    readings: int
    energy_wh: int
    amount_microcents: int
    meter_group: int | None = None
    product: str | None = None
    documents: int | None = None

    @property
    def sums(self) -> tuple[int, int, int]:
        return self.readings, self.energy_wh, self.amount_microcents

    @property
    def place(self) -> tuple[int, int]:
        if self.meter_group is None or self.product is None:
            raise ValueError("a summary has no place among what it sums up")
        return self.meter_group, _PLACES[self.product]


class _Actors:
    """A collector, which empties the mailbox of one actor after another."""

    def __init__(self, hub: Hub, names: Sequence[str], advance: Advance) -> None:
        self._hub, self._names, self._advance = hub, names, advance
        self.bundles = 0
        self.readings = 0
        self.wrong: list[str] = []
        self.latest = (0.0, "")
        """When the night was last done with an actor, and with which."""

    def walk(self) -> None:
        for name in self._names:
            documents: list[Document] = []
            for bundle in self._hub.recipient(name).bundles(idle=0):
                documents += _documents(bundle)
                bundle.dequeue()
                self.bundles += 1
                self._advance(bundle.raw_table.num_rows)
                self.latest = (time.perf_counter(), name)
            self.wrong += [f"{name}: {text}" for text in faults(documents)]
            self.readings += documents[-1].readings if documents else 0


def _documents(bundle: Bundle) -> list[Document]:
    return [json_decoder(Document).decode(data or b"") for data in bundle.raw_table.column("data").to_pylist()]


def faults(documents: Sequence[Document]) -> Iterator[str]:
    """The faults of an actor's mail: none, if all is there, once, in order, and adds up."""
    if not documents:
        yield "nothing has come."
        return
    *lines, summary = documents
    if summary.documents is None or any(line.documents is not None for line in lines):
        yield "the summary is not the last that has come."
        return
    places = [line.place for line in lines]
    if any(first >= second for first, second in pairwise(places)):
        yield "documents came out of order, or more than once."
    if len(lines) != summary.documents:
        yield f"{len(lines):,} of {summary.documents:,} documents have come."
    if tuple(map(sum, zip(*(line.sums for line in lines), strict=True))) != summary.sums:
        yield "the documents do not add up to the summary."


def _rows(outcome: Outcome) -> list[dict[str, Any]]:
    return [] if outcome.table is None else outcome.table.to_pylist()


def _number(figure: Figure) -> float:
    assert isinstance(figure, int | float), "a count, or seconds"
    return figure
