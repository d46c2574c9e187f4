"""Frames on their way to a hub or from it: in order for each recipient, made by a function, read with their positions.

`uuid_of` makes ids that follow from what a message is about: made again, they are the same, and the hub stores nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from restante.calls.mailboxes import ListPartitions
from restante.client.surface.connect import connect
from restante.errors import InvalidRequest
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.spark.jobs.work import Work
from restante.spark.source.columns import WRITTEN_FIELDS
from restante.spark.source.options import PartitionPositions, check_partitions, reading_of, writing_of

_TYPES: dict[str, DataType] = {
    "weight": IntegerType(),
    "bundleable": BooleanType(),
    "data": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "expires_at": TimestampType(),
}
_ROW_SHOWN = 200
"""Characters of a row in an error."""

Composing = Callable[[dict[str, object]], Mapping[str, object]]


def ordered(frame: DataFrame, by: str) -> DataFrame:
    """The same rows, so that the sink keeps each recipient's in the order of this column, from however many tasks.

    Write it with `.option("orderBy", by)`: the column itself is not sent, unless it is one of a message's own.
    """
    for name in ("recipient", by):
        if name not in frame.columns:
            raise InvalidRequest(f"The frame has no column {name!r}. It has: {', '.join(frame.columns)}.", column=name)
    together = frame.repartition(f.col("recipient"))
    # Spark cannot sort a stream: there the sink sorts what a task has of a micro-batch.
    return together if frame.isStreaming else together.sortWithinPartitions("recipient", by)


def bootstrap(spark: SparkSession, **options: str) -> tuple[DataFrame, PartitionPositions]:
    """All stored messages, and the position of each partition as of which they are read: a stream can go on from there.

    `options` are those of a batch read. A stream goes on with `startingPosition` = `json.dumps(positions)`.
    """
    reading = reading_of(options)
    with closing(reading.place.link()) as link:
        ends = {own.partition: own.visible_sequence for own in link.call(ListPartitions())}
    check_partitions(reading.partitions, len(ends))
    positions = {own: ends[own] for own in reading.partitions or ends}
    frame = spark.read.format("restante").options(**options).option("positions", json.dumps(positions)).load()
    return frame, positions


def compose(frame: DataFrame, function: Composing, *, columns: Sequence[str] = ("recipient", "data")) -> DataFrame:
    """A message for each row, by a function that gets the row as a dict and gives a dict of these columns of a message.

    Data that is neither bytes nor text becomes JSON. An exception of the function is reported with the row.
    """
    unknown = [name for name in columns if name not in WRITTEN_FIELDS]
    if unknown:
        raise InvalidRequest(
            f"A message has no {', '.join(unknown)}. It has: {', '.join(WRITTEN_FIELDS)}.", columns=unknown
        )
    schema = StructType([StructField(name, _TYPES.get(name, StringType())) for name in columns])
    arrow = to_arrow_schema(schema, timezone="UTC")

    def composed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = 0
        for batch in batches:
            rows = batch.to_pylist()
            made = [_made(function, row, before + place, arrow) for place, row in enumerate(rows)]
            yield pa.RecordBatch.from_pylist(made, schema=arrow)
            before += len(rows)

    return frame.mapInArrow(composed, schema)


class ComposingFailed(Exception):
    """A function that makes messages of rows has raised."""


def _made(function: Composing, row: dict[str, object], place: int, schema: pa.Schema) -> dict[str, object]:
    try:
        return _fitting(dict(function(row)), schema)
    except Exception as error:
        context = TaskContext.get()
        part = "" if context is None else f" of part {context.partitionId()}"
        shown = str(row)
        shown = shown if len(shown) <= _ROW_SHOWN else f"{shown[:_ROW_SHOWN]}…"
        raise ComposingFailed(f"row {place}{part}, {shown}: {type(error).__name__}: {error}") from error


def _fitting(made: dict[str, object], schema: pa.Schema) -> dict[str, object]:
    """The row as the columns have it; a value that no column takes would vanish, and is refused."""
    for name in made:
        if name not in schema.names:
            raise InvalidRequest(
                f"it gives {name!r}, which is none of the columns {', '.join(schema.names)}", column=name
            )
    data = made.get("data")
    if data is not None and not isinstance(data, bytes | str):
        data = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    made["data"] = data.encode() if isinstance(data, str) else data
    if isinstance(properties := made.get("properties"), Mapping):
        made["properties"] = list(properties.items())
    for name in schema.names:
        pa.scalar(made.get(name), schema.field(name).type)
    return {name: made.get(name) for name in schema.names}


@dataclass(frozen=True, kw_only=True)
class SentFrame:
    """A consignment that was delivered, now or before."""

    key: str
    consignment: str | None
    """The id of the consignment; None: there was nothing to send."""
    batch: str | None
    messages: int
    """How many messages are new. Duplicates of what the hub had are not among them."""
    duplicates: int


def send(work: Work, frame: DataFrame, *, key: str, order_by: str, batch: bool = False) -> SentFrame:
    """Deliver all rows at one moment. Each recipient gets its own in the order of `order_by`, which is not sent.

    A repetition with the same key delivers nothing, and gives the first answer again.
    """
    writer = ordered(frame, order_by).write.format("restante").options(**work.hub)
    writer.option("key", key).option("orderBy", order_by).option("batch", str(batch).lower()).mode("append").save()
    return sent(work, key=key)


def sent(work: Work, *, key: str) -> SentFrame:
    """The answer of the hub about the consignment of this key."""
    place = writing_of(work.hub).place
    with connect(place.url, token=place.token) as hub:
        for found in hub.consignments(state=ConsignmentState.COMMITTED, key=key):
            assert found.receipt is not None, "it was committed"
            return SentFrame(
                key=key,
                consignment=found.id,
                batch=found.batch,
                messages=found.receipt.accepted,
                duplicates=found.receipt.duplicates,
            )
    return SentFrame(key=key, consignment=None, batch=None, messages=0, duplicates=0)


_SEPARATOR = "\x1f"
"""Between the parts, so that `a` and `bc` are not `ab` and `c`. No name holds it."""


def uuid_of(*parts: Column) -> Column:
    """A UUID (version 8: made by a rule of one's own) of these values, as text. None of them may be null."""
    digest = f.md5(f.concat_ws(_SEPARATOR, *(part.cast("string") for part in parts)))
    return f.concat(
        f.substring(digest, 1, 8),
        f.lit("-"),
        f.substring(digest, 9, 4),
        f.lit("-8"),
        f.substring(digest, 14, 3),
        f.lit("-a"),
        f.substring(digest, 18, 3),
        f.lit("-"),
        f.substring(digest, 21, 12),
    )
