"""Captured files brought back into a hub, with the ids that the messages had: again and again, and each message is there once.

Messages that were waiting wait again. Those that were set aside had not been collected either, so they wait too. Messages that
were collected, expired or withdrawn come back only if all are asked for, and without a time to expire that has passed. Erased
messages never come back, nor do the hub's own, of the origin `restante`. A replay is one consignment, whose key follows from
the captured files and the options.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from restante.model.publishing.message import HUB_ORIGIN
from restante.spark.jobs.work import Outcome, Work
from restante.spark.running.hub_frames import send
from restante.spark.tables.captured_files import (
    ERASED,
    HOUR,
    captured_rows,
    carries_message,
    number_of_message,
    transform_without,
)
from restante.spark.tables.folders import absolute

NAME = "replay"
SUMMARY = "Bring captured messages back into a hub, each once."
_SETTLED = ("collected", "expired", "withdrawn")
_MESSAGE = (
    "recipient",
    "id",
    "origin",
    "kind",
    "document_type",
    "weight",
    "bundleable",
    "data",
    "media_type",
    "properties",
    "expires_at",
)
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of messages that are to come back."""

    path: Annotated[
        str, msgspec.Meta(description="Where the captured files lie. By default capture beside the tables.")
    ] = ""
    all: Annotated[
        bool, msgspec.Meta(description="Bring back messages that were collected, expired or withdrawn, too.")
    ] = False
    recipients: Annotated[tuple[str, ...], msgspec.Meta(description="Only messages of these. By default of all.")] = ()
    published_after: Annotated[
        _Time | None, msgspec.Meta(description="Only messages that were published at this time or later.")
    ] = None
    published_before: Annotated[
        _Time | None, msgspec.Meta(description="Only messages that were published before this time.")
    ] = None


def transform(changes: DataFrame, options: Options, *, now: datetime) -> DataFrame:
    """The messages that are to come back, with the number that gives their order, and the state they were in.

    A reader that asks for what is settled wants to see it. So it does not expire, where it would do so at once.
    """
    wanted = transform_last(changes).where(_is_wanted(options))
    is_over = f.col("state").isin(*_SETTLED) & ((f.col("state") == "expired") | (f.col("expires_at") <= f.lit(now)))
    return wanted.withColumn("expires_at", f.when(~is_over, f.col("expires_at"))).select(
        *_MESSAGE, "sequence_number", "state"
    )


def transform_last(changes: DataFrame) -> DataFrame:
    """Each message that was not erased, with its state after all that was captured.

    A message that was released to the end has two numbers and lives under the later one. Something captured twice counts
    once. Nothing happens to what is settled, so a change that says that a message is settled is right. A message of which only
    the release was captured has no time of publishing.
    """
    is_erased = f.col("change") == ERASED
    left = transform_without(changes, changes.where(is_erased)).where(f.col("id").isNotNull() & ~is_erased)
    state = _state()
    known = f.struct(state.isin(*_SETTLED), f.col("sequence_number"), f.col("change") == "stored")
    number = f.when(carries_message(), number_of_message())
    folded = left.groupBy("partition", "recipient", "id").agg(
        f.max_by(state, known).alias("state"),
        f.max(number).alias("sequence_number"),
        f.min(f.when(f.col("change").isin("published", "stored"), f.col("at"))).alias("published_at"),
        f.max_by(f.struct(*_MESSAGE[2:]), number).alias("message"),
    )
    return folded.where("sequence_number IS NOT NULL").select("*", "message.*").drop("message")


def transform_ranges(changes: DataFrame) -> DataFrame:
    """How far the capture reaches, in each partition, and a sum over all changes: two hubs have the same numbers."""
    told = f.xxhash64("sequence_number", "change", "id", "recipient")
    return changes.groupBy("partition").agg(
        f.min("sequence_number").alias("first"),
        f.max("sequence_number").alias("last"),
        f.count("*").alias("changes"),
        f.bit_xor(told).alias("sum"),
    )


def run(work: Work, options: Options) -> Outcome:
    """Deliver them as one consignment, in the order that each recipient had them in."""
    changes = captured_rows(work.spark, absolute(options.path or work.place("capture")))
    if options.published_after is not None:
        changes = changes.where(f.col("hour") >= _hour(options.published_after))
    key = key_of(changes, options)
    messages = transform(changes, options, now=datetime.now(UTC))
    states = messages.groupBy("state").count().orderBy("state").collect()
    counted = {f"was_{row['state']}": row["count"] for row in states}
    if not counted:
        return Outcome(figures={"messages": 0, "duplicates": 0})
    work.tell(f"Delivering {sum(counted.values()):,} messages as consignment {key}.")
    sent = send(work, messages.drop("state"), key=key, order_by="sequence_number")
    return Outcome(figures={"key": key, "messages": sent.messages, "duplicates": sent.duplicates, **counted})


def key_of(changes: DataFrame, options: Options) -> str:
    """The consignment's: the same for the same changes and the same wish, wherever the files lie."""
    ranges = [tuple(row) for row in transform_ranges(changes).orderBy("partition").collect()]
    wish = msgspec.structs.replace(options, path="")
    told = msgspec.json.encode((ranges, wish), order="sorted")
    return f"{NAME}-{hashlib.sha256(told).hexdigest()[:32]}"


def _state() -> Column:
    """The state in which a change leaves its message."""
    change = f.col("change")
    back = change.isin("published", "released")
    return f.when(change == "stored", f.col("state")).when(back, f.lit("waiting")).otherwise(change)


def _is_wanted(options: Options) -> Column:
    # The hub's own messages are its own to send.
    wanted = ~f.col("origin").eqNullSafe(HUB_ORIGIN)
    if not options.all:
        wanted &= ~f.col("state").isin(*_SETTLED)
    if options.recipients:
        wanted &= f.col("recipient").isin(*options.recipients)
    if options.published_after is not None:
        wanted &= f.col("published_at") >= f.lit(options.published_after)
    if options.published_before is not None:
        wanted &= f.col("published_at") < f.lit(options.published_before)
    return wanted


def _hour(time: datetime) -> str:
    """The folder of this time. Nothing that happens to a message happens before it is published."""
    return time.astimezone(UTC).strftime(HOUR)
