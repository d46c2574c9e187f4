"""The nightly run, a sample: a settlement of generated meter readings, delivered as one consignment bound to a batch.

Run again it delivers nothing twice: the consignment has the night's key, and every message an id that follows from the
night, the actor and the document.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Annotated

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from restante.backplanes.kafka_library import DEFAULT_BROKERS
from restante.errors import InvalidRequest
from restante.limits import CONSIGNMENT_KEY_CHARACTERS_MAX, NIGHT_ACTORS_MAX, NIGHT_GROUPS_MAX, NIGHT_READINGS_MAX
from restante.spark.jobs.topic_options import Brokers, KafkaSettings, topic_source
from restante.spark.jobs.work import Figure, Outcome, Work
from restante.spark.nightly.nightly_readings import (
    AREAS,
    QUARTERS,
    NightInput,
    transform_prices,
    transform_readings,
    transform_records,
)
from restante.spark.nightly.nightly_settlement import (
    PRODUCTS,
    transform_documents,
    transform_messages,
    transform_settlement,
)
from restante.spark.nightly.nightly_settlement import (
    SUMMARY as SUMMARY_PRODUCT,
)
from restante.spark.running.hub_frames import send
from restante.spark.source.topic_frames import topic_frame

NAME = "nightly-run"
SUMMARY = "A sample: settle a night of generated meter readings and deliver it to every actor."


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the job: how large the night is."""

    night: Annotated[date | None, msgspec.Meta(description="The day that is settled. Today in UTC, if left out.")] = (
        None
    )
    readings: Annotated[
        int, msgspec.Meta(ge=1, le=NIGHT_READINGS_MAX, description="How many meter readings are made up.")
    ] = 1_000_000
    actors: Annotated[
        int, msgspec.Meta(ge=1, le=NIGHT_ACTORS_MAX, description="How many actors the readings are of.")
    ] = 1_000
    groups: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=NIGHT_GROUPS_MAX,
            description="The meter groups of an actor. It gets four messages for each, and one that sums them up.",
        ),
    ] = 8
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Another seed makes other readings.")] = 1
    prefix: Annotated[str, msgspec.Meta(description="How the actors' names begin.")] = "actor-"
    key: Annotated[
        str,
        msgspec.Meta(
            max_length=CONSIGNMENT_KEY_CHARACTERS_MAX,
            description="The key of the consignment. settlement- and the night, if left out.",
        ),
    ] = ""
    topic: Annotated[
        str,
        msgspec.Meta(
            description="A Kafka topic with the readings, each as JSON with meter, actor, area, meter_group, quarter and "
            "energy_wh. Then none are made up: readings, actors, groups and prefix have no say. Needs restante[kafka]."
        ),
    ] = ""
    brokers: Brokers = DEFAULT_BROKERS
    kafka: KafkaSettings = []


def run(work: Work, options: Options) -> Outcome:
    """Make the readings, settle them, deliver the documents, and name the batch that completes when all were collected."""
    night = _night(options)
    key = options.key or f"settlement-{night.day.isoformat()}"
    seconds: dict[str, Figure] = {}
    given = _given(work, options)
    documents = settled(work, night, given).persist(StorageLevel.MEMORY_AND_DISK)
    what = (
        f"{night.readings:,} readings of {night.actors:,} actors"
        if given is None
        else f"the readings of {options.topic}"
    )
    try:
        with _timed(work, seconds, "settle", f"Settling {what}."):
            table = _by_product(documents).toArrow()
            actors = documents.where(f.col("product") == f.lit(SUMMARY_PRODUCT)).count()
        with _timed(work, seconds, "deliver", f"Delivering the documents as consignment {key}."):
            sent = send(work, transform_messages(documents), key=key, order_by="item", batch=True)
    finally:
        documents.unpersist()
    figures: dict[str, Figure] = {
        "night": night.day.isoformat(),
        "readings": night.readings if given is None else int(table.column("readings").to_numpy().sum()),
        "actors": actors,
        "messages": sent.messages,
        "duplicates": sent.duplicates,
        "consignment": sent.consignment,
        "key": key,
        "batch": sent.batch,
    }
    return Outcome(figures=figures | seconds, table=table, title=f"The settlement of {night.day.isoformat()}")


def settled(work: Work, night: NightInput, given: DataFrame | None = None) -> DataFrame:
    """The documents of the night, of readings that are given or made up."""
    readings = transform_readings(work.spark.range(night.readings), night) if given is None else given
    prices = transform_prices(work.spark.range(len(AREAS) * QUARTERS), night)
    return transform_documents(transform_settlement(readings, prices), day=night.day)


def _night(options: Options) -> NightInput:
    if options.readings < options.actors * options.groups:
        raise InvalidRequest(
            f"{options.readings:,} readings are too few for {options.actors:,} actors with {options.groups} meter groups"
            f" each: make it at least {options.actors * options.groups:,}."
        )
    return NightInput(
        day=options.night or datetime.now(UTC).date(),
        seed=options.seed,
        readings=options.readings,
        actors=options.actors,
        groups=options.groups,
        prefix=options.prefix,
    )


def _given(work: Work, options: Options) -> DataFrame | None:
    """The readings of the topic, if one is named."""
    return transform_records(topic_frame(work.spark, topic_source(options))) if options.topic else None


def _by_product(documents: DataFrame) -> DataFrame:
    """The rows of every product, in the order of the day."""
    number = f.array_position(f.array(*map(f.lit, PRODUCTS)), f.col("product"))
    details = documents.where(f.col("product") != f.lit(SUMMARY_PRODUCT))
    return (
        details.groupBy("product")
        .agg(
            f.count(f.lit(1)).alias("documents"),
            *(f.sum(name).alias(name) for name in ("readings", "energy_wh", "amount_microcents")),
        )
        .orderBy(number)
        .select("product", "documents", "readings", "energy_wh", "amount_microcents")
    )


@contextmanager
def _timed(work: Work, seconds: dict[str, Figure], step: str, words: str) -> Iterator[None]:
    work.tell(words)
    started = time.perf_counter()
    yield
    seconds[f"{step}_seconds"] = round(time.perf_counter() - started, 3)
