"""The columns of a frame that is written: checked before anything is sent, and made what the hub takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from restante.errors import InvalidOperation, InvalidRequest
from restante.model.columns.arrow import Column, column_of
from restante.model.publishing.validation import FIELDS
from restante.spark.source.options import Writing

WRITTEN_FIELDS = tuple(name for name in FIELDS if name not in ("visible_at", "source_position"))
"""The fields that a column of a frame may be: a consignment is delivered at one moment, so nothing of it is delayed."""
_TEXT = (StringType,)
_EXPECTED: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "id": ((StringType, BinaryType), "string or binary"),
    "recipient": (_TEXT, "string"),
    "origin": (_TEXT, "string"),
    "kind": (_TEXT, "string"),
    "document_type": (_TEXT, "string"),
    "weight": ((ByteType, ShortType, IntegerType, LongType), "int"),
    "bundleable": ((BooleanType,), "boolean"),
    "data": ((BinaryType, StringType), "binary or string; make JSON of others: to_json(struct(…))"),
    "text": (_TEXT, "string"),
    "media_type": (_TEXT, "string"),
    "properties": ((MapType,), "map<string,string>"),
    "expires_at": ((TimestampType,), "timestamp"),
}
_TAKEN_TOGETHER = (("origin", "origin"), ("kind", "kind"), ("media_type", "mediaType"))


def check_columns(schema: StructType, writing: Writing) -> None:
    """`InvalidRequest` that names every column that is missing, unknown, or of the wrong type."""
    wrong = [*_missing(schema, writing), *_unknown(schema, writing), *_mistyped(schema), *_doubled(schema, writing)]
    if wrong:
        raise InvalidRequest(f"The frame cannot be sent: {'; '.join(wrong)}. Nothing was sent.", columns=wrong)


def _missing(schema: StructType, writing: Writing) -> list[str]:
    names = schema.fieldNames()
    found = [] if "recipient" in names else ["the column recipient is missing: every message needs one"]
    if not {"data", "text"} & {*names} and not writing.claim_check:
        found.append("the column data is missing (messages whose data the origin keeps: option claimCheck = true)")
    if writing.order_by is not None and writing.order_by not in names:
        found.append(f"the column {writing.order_by} is missing, by which the option orderBy wants them in order")
    return found


def _unknown(schema: StructType, writing: Writing) -> list[str]:
    known = (*WRITTEN_FIELDS, writing.order_by)
    return [
        f"the column {name} is unknown: a message has {', '.join(WRITTEN_FIELDS)}"
        for name in schema.fieldNames()
        if name not in known
    ]


def _mistyped(schema: StructType) -> list[str]:
    found = []
    for field in schema:
        kinds, words = _EXPECTED.get(field.name, ((), ""))
        own = field.dataType
        fits = isinstance(own, (*kinds, NullType)) or not words
        if isinstance(own, MapType):
            fits = fits and isinstance(own.keyType, StringType) and isinstance(own.valueType, StringType)
        if not fits:
            hint = ", with a time zone" if isinstance(own, TimestampNTZType) else ""
            found.append(f"the column {field.name} is {own.simpleString()}: expected is {words}{hint}")
    return found


def _doubled(schema: StructType, writing: Writing) -> list[str]:
    given = {name for name, _ in writing.constants}
    return [
        f"{column} is there as a column and as the option {option}: leave one of them out"
        for column, option in _TAKEN_TOGETHER
        if column in given and column in schema.fieldNames()
    ]


@dataclass(slots=True)
class Shaping:
    """Makes Spark's batches what the hub takes: constants added, the column of the order checked and taken off."""

    writing: Writing
    _last: pa.RecordBatch | None = None
    """The last row of the batch before: recipient and order."""

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        order_by = self.writing.order_by
        if order_by is not None:
            self._check_order(batch.select(["recipient", order_by]))
            if order_by not in WRITTEN_FIELDS:
                batch = batch.drop_columns([order_by])
        if "id" in batch.schema.names and pa.types.is_binary(batch.schema.field("id").type):
            batch = _with_sized_ids(batch)
        for name, value in self.writing.constants:
            codes: Column = column_of(np.zeros(batch.num_rows, np.int32))
            batch = batch.append_column(name, pa.DictionaryArray.from_arrays(codes, pa.array([value])))
        return batch

    def _check_order(self, own: pa.RecordBatch) -> None:
        """Within this task, as `ordered` brings them: by recipient, then by the column. Other tasks are not seen from here."""
        if not own.num_rows:
            return
        rows = pa.Table.from_batches([own] if self._last is None else [self._last, own]).combine_chunks()
        self._last = own.slice(own.num_rows - 1)
        before, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
        same = pc.equal(before.column(0), after.column(0))
        falls = pc.and_(same, pc.greater(before.column(1), after.column(1)))
        if pc.any(pc.or_(falls, pc.greater(before.column(0), after.column(0)))).as_py():
            raise InvalidOperation(
                f"The rows are not in the order of {self.writing.order_by}. Write restante.spark.ordered(frame, "
                f"{self.writing.order_by!r}), which brings each recipient's rows together, in order."
            )


def _with_sized_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark's binary has no length; the hub takes ids of 16 octets."""
    place = batch.schema.get_field_index("id")
    ids: Column = batch.column(place)
    lengths: Column = pc.binary_length(ids)
    if not pc.all(pc.equal(lengths, pa.scalar(16, lengths.type)), min_count=0).as_py():
        raise InvalidRequest("The column id is binary, but not all ids have 16 octets: a UUID has.", column="id")
    return batch.set_column(place, "id", ids.cast(pa.binary(16)))
