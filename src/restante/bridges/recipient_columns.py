"""The recipients of many records at once, by the same rules as those of one; None where some need a closer look."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import msgspec
import pyarrow as pa

from restante.bridges.header_columns import HeaderColumns
from restante.bridges.in_rules import json_steps, rule_parts
from restante.bridges.topic_records import TopicRecords
from restante.decoders import json_decoder
from restante.model.columns.arrow import Column

PickColumn = Callable[[TopicRecords, HeaderColumns], Column | None]


def column_picker(rule: str) -> PickColumn:
    """The function that finds the recipients of records as a column."""
    form, rest = rule_parts(rule)
    if form == "key":
        return lambda records, _: key_column(records)
    return _json_column(rest) if form == "json" else lambda _, headers: headers.of_name(rest)


def key_column(records: TopicRecords) -> Column | None:
    """The keys as texts; None if one of them is none."""
    texts: Column = records.keys.view(pa.large_string())
    if texts.null_count:
        return None
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return texts


def _json_column(path: str) -> PickColumn:
    """The column that lies on the path, decoded as texts or whole numbers; whatever else a value has is passed over."""
    kind, depth = json_steps(path, str | int)
    decode, leaf = json_decoder(kind).decode, attrgetter(".".join(["found"] * depth))

    def pick(records: TopicRecords, _headers: HeaderColumns) -> Column | None:
        try:
            found = [leaf(decode(value or b"")) for value in records.values.to_pylist()]
            return pa.array([value if type(value) is str else str(value) for value in found], pa.string())
        except (msgspec.MsgspecError, ValueError, RecursionError, TypeError):
            return None

    return pick
