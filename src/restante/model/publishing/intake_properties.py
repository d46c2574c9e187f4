"""The rules for the properties of messages: maps in Arrow in, one compact JSON object a message and faults out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.limits import PROPERTIES_BYTES_MAX, PROPERTIES_JSON_BYTES_MAX, PROPERTIES_MAX, SEND_BYTES_MAX
from restante.model.columns.arrow import Column, column_of, nulls_of, numbers_of, offsets_of, texts_of
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.properties import joined, json_texts, need_escapes, no_properties
from restante.model.columns.texts import as_bytes
from restante.model.publishing.validation import Faults


@dataclass(frozen=True, slots=True)
class _Entries:
    """All entries of a map column, one after another; message i has those from offsets[i] to offsets[i + 1]."""

    keys: pa.StringArray
    items: pa.StringArray
    offsets: NDArray[np.int64]
    absent: NDArray[np.bool_]
    """Messages whose map is null, whatever lies between their offsets."""

    def counts(self) -> NDArray[np.int64]:
        return np.where(self.absent, 0, np.diff(self.offsets))

    def rows(self) -> NDArray[np.int64]:
        """The message of each entry."""
        return np.repeat(np.arange(len(self.absent)), np.diff(self.offsets))


def encode_properties(maps: pa.MapArray[Any, Any] | None, n: int, faults: Faults) -> pa.BinaryArray:
    """One compact JSON object a message; empty bytes where there are none, or where they are faulty."""
    if maps is None:
        return no_properties(n)
    offsets: NDArray[np.int64] = numbers_of(maps.offsets).astype(np.int64)
    absent = nulls_of(maps)
    if not np.diff(offsets)[~absent].any():
        return no_properties(n)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, bad_keys = _texts(maps.keys.slice(first, last - first))
    items, bad_items = _texts(maps.items.slice(first, last - first))
    entries = _Entries(keys, items, offsets - first, absent)
    _check(entries, bad_keys | bad_items, faults)
    return _bounded(_objects(entries, ~faults.without(~absent, "properties")), faults)


def _texts(column: Column) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """The texts, and which of them are null or no UTF-8; those are empty."""
    values = as_bytes(column).cast(pa.binary())
    bad = nulls_of(values)
    try:
        texts_of(values).validate(full=True)
    except pa.ArrowInvalid:
        bad = np.array([value is None or not is_utf8(value) for value in values.to_pylist()], np.bool_)
    if bad.any():
        values = pc.if_else(column_of(bad), pa.scalar(b""), values)
    return texts_of(values), bad


def _check(entries: _Entries, bad: NDArray[np.bool_], faults: Faults) -> None:
    rows = entries.rows()
    live = ~entries.absent
    faults.add(np.unique(rows[bad & live[rows]]), "properties", "properties must map valid Unicode text to such")
    counts = entries.counts()
    faults.add(
        np.flatnonzero(counts > PROPERTIES_MAX),
        "properties",
        lambda row: f"properties has {counts[row]} entries: at most {PROPERTIES_MAX} are allowed",
    )
    sizes = _sizes(entries)
    faults.add(
        np.flatnonzero(sizes > PROPERTIES_BYTES_MAX),
        "properties",
        lambda row: f"properties takes {sizes[row]} bytes, keys and values in all: at most {PROPERTIES_BYTES_MAX}",
    )
    if sizes.sum() > SEND_BYTES_MAX:
        raise InvalidRequest(f"the properties take {sizes.sum()} bytes: a send is at most {SEND_BYTES_MAX}")
    repeated = _repeated(entries, rows)
    faults.add(repeated[live[repeated]], "properties", "properties has a key twice: each may be there once")


def _sizes(entries: _Entries) -> NDArray[np.int64]:
    lengths = pc.add(pc.binary_length(entries.keys), pc.binary_length(entries.items))
    ends = np.concatenate(([0], np.cumsum(numbers_of(lengths), dtype=np.int64)))
    return np.where(entries.absent, 0, np.diff(ends[entries.offsets]))


def _repeated(entries: _Entries, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The messages that name a key more than once."""
    if len(rows) <= 1 or int(np.diff(entries.offsets).max()) <= 1:
        return np.zeros(0, np.int64)
    encoded = entries.keys.dictionary_encode()
    pairs = np.sort(rows * len(encoded.dictionary) + encoded.indices.to_numpy())
    again = pairs[1:][pairs[1:] == pairs[:-1]]
    return np.unique(again // max(1, len(encoded.dictionary)))


def _objects(entries: _Entries, empty: NDArray[np.bool_]) -> pa.BinaryArray:
    rows = _pairs(entries.keys, entries.items)
    if empty.any() or bool((np.diff(entries.offsets) != 1).any()):  # else each message has one entry
        offsets = column_of(entries.offsets.astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, rows, mask=column_of(empty | (entries.counts() == 0)))
        rows = pc.binary_join(lists, ",")
    objects: pa.BinaryArray = joined("{", rows, "}", "").fill_null("").view(pa.binary())
    return objects


def _pairs(keys: pa.StringArray, items: pa.StringArray) -> Column:
    """Each entry as JSON writes it."""
    if need_escapes(keys) or need_escapes(items):
        return joined(json_texts(keys), json_texts(items), ":")
    return joined('"', keys, '":"', items, '"', "")


def _bounded(objects: pa.BinaryArray, faults: Faults) -> pa.BinaryArray:
    """The objects without those that are too long: JSON writes a control character as six."""
    lengths = np.diff(offsets_of(objects))
    long = lengths > PROPERTIES_JSON_BYTES_MAX
    if not long.any():
        return objects
    faults.add(
        np.flatnonzero(long),
        "properties",
        lambda row: f"properties takes {lengths[row]} bytes as JSON: at most {PROPERTIES_JSON_BYTES_MAX}",
    )
    short: pa.BinaryArray = pc.if_else(column_of(long), pa.scalar(b""), objects)
    return short
