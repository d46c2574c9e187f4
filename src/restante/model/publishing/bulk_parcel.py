"""Many messages of one publish, checked, routed and laid out as mailbags; and the same as bytes, for the way between processes.

Most of it is the data of the messages. Where that lies in the body as it was sent, the bytes only say where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import (
    Column,
    binaries,
    bytes_of,
    content_of,
    large_binaries,
    offsets_of,
    strings,
)
from restante.model.columns.texts import Texts
from restante.model.publishing.arrival import Arrivals, Grouped
from restante.model.publishing.message import MessageColumns
from restante.model.storage.changes import Buffer
from restante.model.storage.segment_frame import EncodedSegment

_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class BulkParcel:
    """Messages laid out as mailbags, as if all of them were new."""

    arrivals: Arrivals
    grouped: Grouped
    place: NDArray[np.int64]
    counts: NDArray[np.int64]
    segments: list[EncodedSegment]
    published_at: int


class BytePlace(msgspec.Struct, frozen=True, array_like=True):
    """The place of bytes: in the body, or in what goes beside it."""

    in_body: bool
    start: int
    length: int


class PackedSegment(msgspec.Struct, frozen=True, array_like=True):
    group: int
    rows: int
    length: int
    parts: list[BytePlace]


class PackedParcel(msgspec.Struct, frozen=True, array_like=True):
    """The directory of a parcel: where each of its columns lies."""

    columns: list[BytePlace]
    partitions: list[int]
    borders: list[int]
    segments: list[PackedSegment]
    published_at: int


class Packing:
    """Gathers the bytes that go beside a body."""

    def __init__(self, body: Buffer) -> None:
        buffer = pa.py_buffer(body)
        self._first, self._last = buffer.address, buffer.address + buffer.size
        self.parts: list[Buffer] = []
        self.size = 0

    def put(self, content: Buffer | NDArray[Any]) -> BytePlace:
        view = np.ascontiguousarray(content).view(np.uint8).data if isinstance(content, np.ndarray) else content
        flat = memoryview(view).cast("B")
        if not len(flat):
            return BytePlace(False, 0, 0)
        address = pa.py_buffer(flat).address
        if self._first <= address and address + len(flat) <= self._last:
            return BytePlace(True, address - self._first, len(flat))
        start = self.size
        padding = -len(flat) % _ALIGNED
        self.parts += [flat, bytes(padding)] if padding else [flat]
        self.size += len(flat) + padding
        return BytePlace(False, start, len(flat))


def packed(parcel: BulkParcel, packing: Packing) -> PackedParcel:
    columns = [packing.put(content) for content in _contents(parcel)]
    segments = [
        PackedSegment(one.group, one.rows, one.length, [packing.put(part) for part in one.parts])
        for one in parcel.segments
    ]
    return PackedParcel(columns, parcel.grouped.partitions, parcel.grouped.borders, segments, parcel.published_at)


def unpacked(directory: PackedParcel, body: Buffer, beside: Buffer) -> BulkParcel:
    """The parcel, whose bytes stay where they are."""
    sources = memoryview(beside).cast("B"), memoryview(body).cast("B")

    def view(place: BytePlace) -> memoryview:
        return sources[place.in_body][place.start : place.start + place.length]

    contents = map(view, directory.columns)
    columns = _columns_of(contents)
    hashes = np.frombuffer(next(contents), np.uint64)
    partition = np.frombuffer(next(contents), np.int64)
    fingerprint = np.frombuffer(next(contents), np.uint64)
    rows, near, place, counts = (np.frombuffer(next(contents), np.int64) for _ in range(4))
    return BulkParcel(
        Arrivals(columns, hashes, partition, fingerprint),
        Grouped(rows, directory.partitions, directory.borders, near),
        place,
        counts,
        [_segment(one, [view(part) for part in one.parts]) for one in directory.segments],
        directory.published_at,
    )


def _contents(parcel: BulkParcel) -> Iterator[Buffer | NDArray[Any]]:
    """The columns in the order in which they are read again."""
    columns, arrivals = parcel.arrivals.columns, parcel.arrivals
    yield from (columns.id, columns.made_id)
    for texts in (columns.recipient, columns.origin, columns.kind, columns.document_type, columns.media_type):
        yield from (texts.codes, *_texts(texts.values))
    yield from (columns.weight, columns.bundleable, columns.inline)
    yield from (offsets_of(columns.data), content_of(columns.data))
    yield from _texts(columns.properties)
    yield columns.expires_at
    yield from (arrivals.recipient_hash, arrivals.partition, arrivals.fingerprint)
    yield from (parcel.grouped.rows, parcel.grouped.near, parcel.place, parcel.counts)


def _texts(texts: Column) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    ends = offsets_of(texts)
    return (ends - ends[0]).astype(np.int32), bytes_of(texts)


def _columns_of(contents: Iterator[memoryview]) -> MessageColumns:
    ids = np.frombuffer(next(contents), np.uint64).reshape(-1, 2)
    made = np.frombuffer(next(contents), np.bool_)
    recipient, origin, kind, document_type, media_type = (_names_of(contents) for _ in range(5))
    weight = np.frombuffer(next(contents), np.int32)
    bundleable, inline = (np.frombuffer(next(contents), np.bool_) for _ in range(2))
    return MessageColumns(
        id=ids,
        made_id=made,
        recipient=recipient,
        origin=origin,
        kind=kind,
        document_type=document_type,
        media_type=media_type,
        weight=weight,
        bundleable=bundleable,
        inline=inline,
        data=large_binaries(np.frombuffer(next(contents), np.int64), next(contents)),
        properties=binaries(np.frombuffer(next(contents), np.int32), next(contents)),
        expires_at=np.frombuffer(next(contents), np.int64),
    )


def _names_of(contents: Iterator[memoryview]) -> Texts:
    codes, ends = np.frombuffer(next(contents), np.int32), np.frombuffer(next(contents), np.int32)
    return Texts(codes, strings(ends, next(contents)))


def _segment(one: PackedSegment, parts: Sequence[memoryview]) -> EncodedSegment:
    front, *rest = parts
    return EncodedSegment(one.group, one.rows, bytes(front), tuple(rest), one.length)
