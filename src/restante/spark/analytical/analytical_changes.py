"""Makes the rows of the analytical store's tables of changes: pure functions of frames.

A message that is collected, expired or withdrawn is settled: nothing more can happen to it. So is a number whose message
was released to the end, and lives on under another. Each number is settled once at most, so those rows need no comparing
with one another, and no shuffle. Only a message that is set aside, or released into its place, can change again; there
are few of those, and of each the last change counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from restante.spark.source.schemas import CHANGES

MESSAGE_COLUMNS = (
    *("partition", "sequence_number", "id", "recipient", "origin", "kind", "document_type", "weight"),
    *("bundleable", "data", "media_type", "properties", "published_at", "expires_at"),
)
_ADDED = {"published_at": TimestampType(), "published_on": DateType()}
MESSAGES = StructType(
    [
        StructField(name, _ADDED[name]) if name in _ADDED else CHANGES[name]
        for name in (*MESSAGE_COLUMNS, "published_on")
    ]
)
"""Without the column `document`, which depends on the schema of the documents."""
DELIVERIES = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("message_sequence_number", LongType()),
        *(StructField(name, StringType()) for name in ("id", "recipient", "origin", "kind", "state")),
        StructField("at", TimestampType()),
        StructField("bundle_id", StringType()),
        StructField("change_sequence_number", LongType()),
        StructField("moved_to", LongType()),
        StructField("settled", BooleanType()),
    ]
)
BATCHES = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("sequence_number", LongType()),
        StructField("batch", StringType()),
        StructField("key", StringType()),
        StructField("completed_at", TimestampType()),
    ]
)
KEY = ("partition", "message_sequence_number")
"""The columns that tell one delivery from another."""
NEW = ("published",)
SETTLING = ("collected", "expired", "withdrawn")
MESSAGE_NEEDS = (
    "change",
    "at",
    "message_sequence_number",
    *(name for name in MESSAGE_COLUMNS if name != "published_at"),
)
"""The columns of changes that messages are made of, and those that show which other changes there are."""
DELIVERY_NEEDS = (
    *("partition", "sequence_number", "change", "at", "message_sequence_number", "id", "recipient", "origin", "kind"),
    *("weight", "expires_at", "bundle_id", "state", "collected_at"),
)
"""The columns of changes that deliveries are made of."""
BESIDE_NEEDS = (*DELIVERY_NEEDS, "batch", "key")
"""The columns of everything but messages, if none was moved."""
_SECONDS_A_DAY = 86_400


def is_new() -> Column:
    return f.col("change").isin("published", "stored")


def is_moved() -> Column:
    """Released to the end: the change carries the message, which lives on under the number of the change."""
    return (f.col("change") == "released") & f.col("weight").isNotNull()


def is_settled() -> Column:
    return _state().isin(*SETTLING) | is_moved()


def is_open() -> Column:
    """Whether a message waits again, or lies aside: more will happen to it."""
    return (_state() == "set_aside") | ((f.col("change") == "released") & f.col("weight").isNull())


def messages_of(changes: DataFrame) -> DataFrame:
    """The messages that were published, or stored when the stream began."""
    return _messages(changes.where(is_new()), f.col("at"))


def beside_messages(changes: DataFrame) -> DataFrame:
    """Everything but messages that are new. In changes of the feed, only moved messages have data here."""
    return changes.where(~is_new())


def moved_of(changes: DataFrame, messages: DataFrame) -> DataFrame:
    """The messages that were released to the end, under their new numbers. The table of messages knows when they were published.

    A message keeps its id wherever it goes. If the table has forgotten it, the release is all that is known.
    """
    moved = changes.where(is_moved())
    ids = moved.select("partition", "id").distinct()
    first = messages.join(ids, ["partition", "id"], "left_semi").groupBy("partition", "id").agg(f.min("published_at"))
    known = first.toDF("partition", "id", "first_at")
    return _messages(moved.join(known, ["partition", "id"], "left"), f.coalesce(f.col("first_at"), f.col("at")))


def settled_of(changes: DataFrame) -> DataFrame:
    """Deliveries to which nothing more can happen."""
    return _deliveries(changes.where(is_settled()))


def latest(deliveries: DataFrame) -> DataFrame:
    """The last row of each message. Only messages that were open on the way can have several."""
    often = deliveries.where(~f.col("settled")).select(*KEY).distinct()
    once = deliveries.join(often, list(KEY), "left_anti")
    order = Window.partitionBy(*KEY).orderBy(f.desc("change_sequence_number"), f.desc("settled"))
    ranked = deliveries.join(often, list(KEY), "left_semi").withColumn("_rank", f.row_number().over(order))
    last = ranked.where(f.col("_rank") == 1)
    return once.unionByName(last.drop("_rank")).select(*DELIVERIES.names)


def happened_to(changes: DataFrame) -> DataFrame:
    """Every change of a message's state, as a delivery; a message may have several."""
    return _deliveries(changes.where(is_settled() | is_open()))


def batches_of(changes: DataFrame) -> DataFrame:
    completed = changes.where(f.col("change") == "batch_completed")
    return completed.select("partition", "sequence_number", "batch", "key", f.col("at").alias("completed_at"))


def erased_of(changes: DataFrame) -> DataFrame:
    """The erased recipients, each with the number up to which its messages are erased."""
    erased = changes.where(f.col("change") == "erased").groupBy("partition", "recipient")
    return erased.agg(f.max("message_sequence_number").alias("until"))


def states(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Every message as people want it: what has become of it, since when, and in which bundle.

    A message that was released to the end is there once, under the number that it has now.
    """
    told = deliveries.select(
        "partition",
        f.col("message_sequence_number").alias("sequence_number"),
        "state",
        f.col("at").alias("since"),
        "bundle_id",
    )
    joined = messages.join(told, ["partition", "sequence_number"], "left")
    state = f.coalesce(f.col("state"), f.lit("waiting"))
    return joined.where(state != "moved").select(
        *(name for name in messages.columns if name != "state"),
        state.alias("state"),
        f.coalesce(f.col("since"), f.col("published_at")).alias("since"),
        f.when(state == "collected", f.col("since")).alias("collected_at"),
        "bundle_id",
    )


def _state() -> Column:
    return f.when(f.col("change") == "stored", f.col("state")).otherwise(f.col("change"))


def _happened() -> Column:
    """The time of a change. A message of a snapshot counts from when it was collected, or expired; else from its publishing."""
    return (
        f.when(f.col("change") != "stored", f.col("at"))
        .when(f.col("state") == "expired", f.coalesce(f.col("expires_at"), f.col("at")))
        .otherwise(f.coalesce(f.col("collected_at"), f.col("at")))
    )


def _messages(changes: DataFrame, published_at: Column) -> DataFrame:
    taken = (name for name in MESSAGE_COLUMNS if name != "published_at")
    rows = changes.select(*taken, published_at.alias("published_at"))
    return rows.select(*MESSAGE_COLUMNS, _day("published_at").alias("published_on"))


def _day(moment: str) -> Column:
    """The day in UTC: reckoned, so that no session's time zone takes part."""
    days = f.floor(f.unix_seconds(moment) / f.lit(_SECONDS_A_DAY))
    return f.date_from_unix_date(days.cast("int"))


def _deliveries(changes: DataFrame) -> DataFrame:
    return changes.select(
        *KEY,
        "id",
        "recipient",
        "origin",
        "kind",
        f.when(is_moved(), "moved").when(f.col("change") == "released", "waiting").otherwise(_state()).alias("state"),
        _happened().alias("at"),
        "bundle_id",
        f.col("sequence_number").alias("change_sequence_number"),
        f.when(is_moved(), f.col("sequence_number")).alias("moved_to"),
        is_settled().alias("settled"),
    )
