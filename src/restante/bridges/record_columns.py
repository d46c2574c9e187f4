"""Headers and recipients of many records as columns, where all of them are plain: no Python value is made for a record.

The rules are those of one record (`in_rules`); a function gives None where some records need a closer look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.bridges.in_rules import RecordHeaders, json_steps, rule_parts
from restante.bridges.topic_records import TopicRecords
from restante.decoders import json_decoder
from restante.model.columns.arrow import Column, column_of, numbers_of

_CLOSER = ("content-type", "kafka.key", "kafka.time")
"""Names of headers that say more than a property does."""


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """All headers of some records, one after the other."""

    counts: NDArray[np.int64]
    """How many each record has."""
    names: Column
    values: Column

    def of_name(self, name: str) -> Column | None:
        """The values of a header that each record has once; None if some have not."""
        rows = np.flatnonzero(numbers_of(pc.equal(pc.utf8_lower(self.names), pa.scalar(name.lower()))))
        owner = np.repeat(np.arange(len(self.counts)), self.counts)[rows]
        if len(rows) != len(self.counts) or bool((np.diff(owner, prepend=-1) != 1).any()):
            return None
        found: Column = self.values.take(column_of(rows))
        return found


def header_columns(headers: Sequence[RecordHeaders | None] | None, count: int) -> HeaderColumns | None:
    """The headers of so many records; None if some need a closer look: events, media types, no texts, names that come twice."""
    if headers is None:
        nothing: Column = pa.array([], pa.string())
        return HeaderColumns(np.zeros(count, np.int64), nothing, nothing)
    pairs = list(chain.from_iterable(own or () for own in headers))
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    if any(_is_special(name) for name in set(names)) or any(own and _is_twice(own) for own in headers):
        return None
    found: Column = pa.array(values, pa.binary())
    texts = found.view(pa.string())
    try:
        texts.validate(full=True)
        own_names: Column = pa.array(names, pa.string())
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return None
    if found.null_count:
        return None
    counts = np.fromiter((len(own) if own else 0 for own in headers), np.int64, len(headers))
    return HeaderColumns(counts, own_names, texts)


def _is_special(name: str) -> bool:
    lower = name.lower()
    return lower in _CLOSER or lower.startswith("ce_")


def _is_twice(headers: RecordHeaders) -> bool:
    return len(headers) > 1 and len({name for name, _ in headers}) < len(headers)


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
