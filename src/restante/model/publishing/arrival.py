"""Messages on their way in: where each goes, what identifies it, and the mailbags they become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, column_of
from restante.model.columns.hashing import Hashes, fingerprints, text_hashes
from restante.model.columns.text_ids import has_text
from restante.model.columns.texts import Texts
from restante.model.publishing.message import MessageColumns
from restante.model.storage.partition import partitions_of
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.rows import (
    BUNDLEABLE,
    INLINE,
    MADE_ID,
    TEXT_ID,
    Cabinets,
    StoredRows,
    cabinet_hashes,
    lay_out,
    sort_rows,
)
from restante.model.storage.segment import binary_offsets, encode
from restante.model.storage.segment_frame import EncodedSegment

_DENSE_MAX = 4_000_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages of one commit, in the order of arrival."""

    columns: MessageColumns
    recipient_hash: Hashes
    """The hash of each distinct recipient."""
    partition: NDArray[np.int64]
    fingerprint: Hashes

    def __len__(self) -> int:
        return len(self.partition)


def arrive(columns: MessageColumns, *, key: int, partition_count: int) -> Arrivals:
    """Route and identify messages."""
    hashes = text_hashes(columns.recipient.values, key)
    partitions = partitions_of(columns.recipient.values, partition_count)
    codes = columns.recipient.codes
    return Arrivals(columns, hashes, partitions[codes], fingerprints(hashes[codes], columns.id))


@dataclass(frozen=True, slots=True)
class Grouped:
    """The arrivals by partition, of each the rows in about ascending order of fingerprints."""

    rows: NDArray[np.int64]
    partitions: list[int]
    borders: list[int]
    near: NDArray[np.int64]
    """Rows that may share their fingerprint with another arrival: a few too many, never one too few."""

    def parts(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each partition with its rows."""
        for partition, first, last in zip(self.partitions, self.borders[:-1], self.borders[1:], strict=True):
            yield partition, self.rows[first:last]


def group(arrivals: Arrivals) -> Grouped:
    """One sort of packed keys: partition, the upper bits of the fingerprint, row."""
    bits = max(1, len(arrivals).bit_length())
    room = np.uint64(64 - 14 - bits)
    packed = arrivals.partition.astype(np.uint64) << np.uint64(50)
    packed |= (arrivals.fingerprint >> (np.uint64(64) - room)) << np.uint64(bits)
    packed |= np.arange(len(arrivals), dtype=np.uint64)
    packed.sort()
    rows = (packed & np.uint64((1 << bits) - 1)).astype(np.int64)
    upper = packed >> np.uint64(bits)
    alike = upper[1:] == upper[:-1]
    near = np.zeros(len(rows), np.bool_)
    near[1:] |= alike
    near[:-1] |= alike
    partition = arrivals.partition[rows]
    begins = np.flatnonzero(np.diff(partition, prepend=-1))
    return Grouped(rows, partition[begins].tolist(), [*begins.tolist(), len(rows)], np.sort(rows[near]))


def places(partition: NDArray[np.int64], partition_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of each message in its partition's mailbag, in arrival order, and the count of each partition."""
    counts = np.bincount(partition, minlength=partition_count)
    # Sixteen bits are sorted by radix, ten times faster than longer integers.
    order = np.argsort(partition.astype(np.uint16), kind="stable")
    starts = np.cumsum(counts) - counts
    place = np.empty(len(partition), np.int64)
    place[order] = np.arange(len(partition)) - np.repeat(starts, counts)
    return place, counts


def mailbags(arrivals: Arrivals, place: NDArray[np.int64], *, published_at: int, key: int) -> list[EncodedSegment]:
    """The segments of one commit; the group of each is its partition."""
    columns = arrivals.columns
    cabinets, cabinet = _cabinets(arrivals, key)
    rows = StoredRows(
        cabinets,
        cabinet,
        _records(columns, place, published_at),
        columns.document_type.values,
        columns.media_type.values,
        _properties(columns),
        columns.data,
    )
    group_of = np.empty(len(cabinets), np.int64)
    group_of[cabinet] = arrivals.partition
    ordered, _ = sort_rows(rows, group_of)
    return encode(lay_out(ordered, group_of))


def _cabinets(arrivals: Arrivals, key: int) -> tuple[Cabinets, NDArray[np.int64]]:
    """The distinct cabinets, and that of each row."""
    columns = arrivals.columns
    origins, kinds = len(columns.origin.values), len(columns.kind.values)
    packed = columns.recipient.codes.astype(np.int64)
    if origins * kinds > 1:
        packed = (packed * origins + columns.origin.codes) * kinds + columns.kind.codes
    used, cabinet = _distinct(packed, len(columns.recipient.values) * origins * kinds)
    recipient = used // (origins * kinds)
    origin = Texts((used // kinds % origins).astype(np.int32), columns.origin.values)
    kind = Texts((used % kinds).astype(np.int32), columns.kind.values)
    hashes = arrivals.recipient_hash[recipient]
    texts = columns.recipient.values.take(column_of(recipient))
    return Cabinets(hashes, cabinet_hashes(hashes, origin, kind, key), texts, origin, kind), cabinet


def _distinct(values: NDArray[np.int64], bound: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values in order, and the place of each value among them; without sorting where a table will do."""
    if bound > _DENSE_MAX:
        used, place = np.unique(values, return_inverse=True)
        return used, place
    present = np.zeros(bound, np.bool_)
    present[values] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[values]


def _records(columns: MessageColumns, place: NDArray[np.int64], published_at: int) -> RecordArray:
    records = np.empty(len(columns), RECORD)
    records["reserved"] = 0
    records["id"] = columns.id
    records["expires_at"] = columns.expires_at
    records["published_at"] = published_at
    records["place"] = place
    records["weight"] = columns.weight
    records["data_length"] = _lengths(columns.data)
    records["document_type"] = columns.document_type.codes
    records["media_type"] = columns.media_type.codes
    records["properties_length"] = pc.binary_length(columns.properties).to_numpy(zero_copy_only=False)
    flags = columns.bundleable * np.uint8(BUNDLEABLE)
    flags |= columns.inline * np.uint8(INLINE)
    flags |= columns.made_id * np.uint8(MADE_ID)
    flags |= has_text(columns.properties) * np.uint8(TEXT_ID)
    records["flags"] = flags
    return records


def _lengths(column: pa.LargeBinaryArray) -> NDArray[np.int64]:
    return np.diff(binary_offsets(column))


def _properties(columns: MessageColumns) -> pa.LargeBinaryArray | None:
    if not pc.any(pc.greater(pc.binary_length(columns.properties), pa.scalar(0, pa.int32()))).as_py():
        return None
    properties: Column = columns.properties
    widened: pa.LargeBinaryArray = properties.cast(pa.large_binary())
    return widened
