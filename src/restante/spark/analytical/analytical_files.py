"""A micro-batch goes into files of the analytical store's tables in the tasks that read it: columns stay columns.

The driver tells the tasks where the tables lie. Then it reads from them not the rows of the micro-batch, but a description of
the files that the rows went into, one for each part, in the column `data`. The driver commits the files to the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from restante.decoders import json_decoder
from restante.spark.analytical.analytical_columns import split
from restante.spark.analytical.analytical_facts import Facts, together
from restante.spark.source.narrowed_reads import Narrow, narrowed
from restante.spark.tables.table_files import FileShape, FileWriter, NewFile

MESSAGE_STATISTICS = ("partition", "sequence_number", "recipient", "published_at")
DELIVERY_STATISTICS = ("partition", "message_sequence_number", "recipient", "at")
MESSAGES_BY = "published_on"
DELIVERIES_BY = "settled"
_MADE_BY = f"{__name__}:filed"
_DESCRIPTION = "data"
_FILED = "filed"
"""The name that stands in the place of a change: there is none of this name."""
_REPEATING = (
    *("partition", "recipient", "origin", "kind", "document_type", "weight", "media_type"),
    *("state", "bundle_id", "expires_at"),
)


NumbersByPartition = dict[int, list[int]]
"""Sequence numbers of messages, by partition."""


class TaskFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of the tables, as tasks name them."""

    messages: str
    deliveries: str


class FilingWish(msgspec.Struct, frozen=True, kw_only=True):
    """The order for the tasks."""

    messages: str
    """The folder into which files are wanted."""
    deliveries: str | None
    open: NumbersByPartition
    """The messages whose deliveries are open, as far as known: has anything happened to one of them?"""


class Filed(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a micro-batch, or of a part of it."""

    facts: Facts
    is_stored: bool
    touches_open: bool
    messages: list[NewFile]
    deliveries: list[NewFile]


def file_changes(changes: DataFrame, number: int, wish: FilingWish) -> Filed | None:
    """Have the tasks write the files. None of them belongs to its table yet. None: the tasks did not hear of it."""
    narrow = Narrow(
        batch=number,
        columns=tuple(changes.columns),
        made_by=_MADE_BY,
        told=msgspec.json.encode(wish).decode(),
    )
    seen = Observation()
    described = f.col("change") == f.lit(_FILED)
    told = changes.observe(seen, f.count_if(~described).alias("changes")).where(described)
    with narrowed(changes.sparkSession, narrow):
        rows = told.select(_DESCRIPTION).collect()
    if seen.get["changes"]:
        return None
    return whole_of(json_decoder(Filed).decode(row[0]) for row in rows)


def whole_of(filed_parts: Iterable[Filed]) -> Filed:
    """The outcome of all of a micro-batch."""
    parts = list(filed_parts)
    return Filed(
        facts=together(part.facts for part in parts),
        is_stored=any(part.is_stored for part in parts),
        touches_open=any(part.touches_open for part in parts),
        messages=[file for part in parts for file in part.messages],
        deliveries=[file for part in parts for file in part.deliveries],
    )


def filed(changes: Iterator[pa.RecordBatch], told: str, name: str) -> Iterator[pa.RecordBatch]:
    """Write the changes to files, in a task, and give one row that describes the files."""
    wish = json_decoder(FilingWish).decode(told)
    writers = [_writer(wish.messages, MESSAGES_BY, MESSAGE_STATISTICS, name)]
    if wish.deliveries is not None:
        writers.append(_writer(wish.deliveries, DELIVERIES_BY, DELIVERY_STATISTICS, name))
    facts, is_stored, touches_open = Facts(), False, False
    schema: pa.Schema | None = None
    try:
        for batch in changes:
            schema, found = batch.schema, split(batch)
            facts = together((facts, found.facts))
            is_stored = is_stored or found.is_stored
            touches_open = touches_open or _touch(found.deliveries, wish.open)
            for writer, rows in zip(writers, (found.messages, found.deliveries), strict=False):
                writer.write(rows)
        messages, *others = [writer.finish() for writer in writers]
    except BaseException:
        for writer in writers:
            writer.discard()
        raise
    made = Filed(
        facts=facts,
        is_stored=is_stored,
        touches_open=touches_open,
        messages=messages,
        deliveries=others[0] if others else [],
    )
    if schema is not None:
        yield _row(schema, msgspec.json.encode(made))


def _touch(deliveries: pa.Table, numbers: NumbersByPartition) -> bool:
    for partition, own in numbers.items():
        known = pc.is_in(deliveries.column("message_sequence_number"), value_set=pa.array(own, pa.int64()))
        there = pc.equal(deliveries.column("partition"), pa.scalar(partition, pa.int32()))
        if pc.any(pc.and_(known, there)).as_py():
            return True
    return False


def _writer(folder: str, partitioned_by: str, statistics: tuple[str, ...], name: str) -> FileWriter:
    shape = FileShape(folder=folder, partitioned_by=partitioned_by, statistics=statistics, repeating=_REPEATING)
    return FileWriter(shape, name)


def _row(schema: pa.Schema, description: bytes) -> pa.RecordBatch:
    values: dict[str, str | bytes] = {"change": _FILED, _DESCRIPTION: description}
    arrays = [pa.array([values.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
