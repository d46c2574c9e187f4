"""The columns that Spark sees. Spark does not say whether it will read a batch or a stream, so both have the same."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from restante.errors import InvalidRequest

_PROPERTIES = MapType(StringType(), StringType())
_TYPES: dict[str, DataType] = {
    "partition": IntegerType(),
    "sequence_number": LongType(),
    "message_sequence_number": LongType(),
    "weight": IntegerType(),
    "bundleable": BooleanType(),
    "data": BinaryType(),
    "properties": _PROPERTIES,
    "at": TimestampType(),
    "expires_at": TimestampType(),
    "collected_at": TimestampType(),
}
"""All others are texts; ids among them, as UUIDs are written."""


def _schema(*names: str) -> StructType:
    return StructType([StructField(name, _TYPES.get(name, StringType())) for name in names])


CHANGES = _schema(
    "partition",
    "sequence_number",
    "change",
    "at",
    "message_sequence_number",
    "id",
    "recipient",
    "origin",
    "kind",
    "document_type",
    "weight",
    "bundleable",
    "data",
    "media_type",
    "properties",
    "expires_at",
    "bundle_id",
    "batch",
    "key",
    "state",
    "collected_at",
)
"""A row of the feed. `stored` rows, of a batch read and of a stream's bootstrap, are messages in whatever state."""


_ALSO = _schema("text")
"""The columns that are made of other ones, for those who ask for them."""


def chosen(names: tuple[str, ...]) -> StructType:
    """The schema with these columns, in this order; none: all of `CHANGES`."""
    known = {field.name: field for field in (*CHANGES, *_ALSO)}
    for name in names:
        if name not in known:
            raise InvalidRequest(f"There is no column {name!r}. There are: {', '.join(known)}.", column=name)
    return StructType([known[name] for name in names]) if names else CHANGES


def check_known(schema: StructType) -> None:
    """A schema that was given may have fewer columns, in any order, but no others."""
    for own, asked in zip(chosen(tuple(schema.fieldNames())), schema, strict=True):
        if own.dataType != asked.dataType:
            raise InvalidRequest(
                f"The column {own.name} is of type {own.dataType.simpleString()}, not "
                f"{asked.dataType.simpleString()}. Read it as it is, and cast it then.",
                column=own.name,
            )
