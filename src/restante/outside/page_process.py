"""The process of a clerk that reads pages: segments from their files, checked, in number order, as columns of the feed."""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from restante.errors import DataDamaged, RestanteError
from restante.model.columns.arrays import Rows
from restante.model.feed.feed import Released, published_table
from restante.model.feed.span_rows import Choice, Span, gathered_rows, held_span, in_number_order
from restante.model.storage.changes import BlobKey
from restante.model.storage.piece import SegmentPiece, check_records
from restante.model.storage.row_formats import RECORD
from restante.model.storage.run import StoredSegment
from restante.model.storage.segment import Area, decode
from restante.outside.helper_frames import answer_all
from restante.outside.page_clerk import ANSWER
from restante.ports.clerk import PageQuestion, PlacedSegment
from restante.wire.outgoing.outgoing import arrow_bytes

_NICENESS = 10
_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)


def read_page(page: PageQuestion) -> pa.Table:
    """The rows that are asked for; `DataDamaged` if a segment is not as it was written."""
    choice = Choice(frozenset(), frozenset(), frozenset(), frozenset(), page.with_checks)
    spans = [held_span(_held(PlacedSegment(*place)), choice, low=page.low, high=page.high) for place in page.segments]
    group = in_number_order(spans, data=False, properties=False)
    number, old, at = (np.array(values, np.int64) for values in page.released)
    return published_table(gathered_rows(_nothing_else, group, page.columns), Released(number, old, at), page.columns)


def _nothing_else(span: Span, rows: Rows, field: str) -> Sequence[SegmentPiece]:  # noqa: ARG001 - never asked
    raise AssertionError("all segments are held in full")


def _held(place: PlacedSegment) -> SegmentPiece:
    """A whole segment, checked."""
    content = _content(place)
    segment = decode(bytes(content[: place.front]))
    ledger = content[segment.frame_length : segment.frame_length + segment.ledger_length]
    data = content[segment.frame_length + segment.ledger_length :]
    if segment.bad_block(Area.LEDGER, 0, ledger) is not None or segment.bad_block(Area.DATA, 0, data) is not None:
        raise DataDamaged("A block fails its checksum.")
    stored = StoredSegment(BlobKey(0, 0), place.base, segment, place.published_at)
    records = np.frombuffer(ledger, RECORD, segment.rows, segment.records_at)
    if place.published_at:
        records = records.copy()
        records["published_at"] = place.published_at
    check_records(stored, records)
    return SegmentPiece(stored, 0, records, data, ledger[segment.properties_at :])


def _content(place: PlacedSegment) -> memoryview:
    """The segment as it lies in the page cache. If the disk fails to give it, this process ends, and the hub reads."""
    before = place.start % mmap.ALLOCATIONGRANULARITY
    with Path(place.path).open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size < place.start + place.length:
            raise DataDamaged("A file is too short.")
        content = mmap.mmap(
            file.fileno(), before + place.length, prot=mmap.PROT_READ, offset=place.start - before, flags=_FLAGS
        )
    return memoryview(content)[before:]


def _answer(line: socket.socket, question: bytes) -> None:
    before = time.process_time()
    try:
        descriptor, size = _in_shared_memory(read_page(PageQuestion(*_decoded(question))))
    except (RestanteError, OSError, ValueError, TypeError, IndexError, KeyError, MemoryError, pa.ArrowException):
        line.sendall(ANSWER.pack(0, 0.0))
        return
    try:
        socket.send_fds(line, [ANSWER.pack(size, time.process_time() - before)], [descriptor])
    finally:
        os.close(descriptor)


def _decoded(question: bytes) -> Sequence[Any]:
    found: Sequence[Any] = msgspec.msgpack.decode(question)
    return found


def _in_shared_memory(table: pa.Table) -> tuple[int, int]:
    # Written by calls: to have each new page of it come as it is touched takes three times as long.
    content = arrow_bytes(table)
    descriptor = os.memfd_create("restante-page", os.MFD_CLOEXEC)
    try:
        left = content
        while left:
            left = left[os.write(descriptor, left) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, len(content)


if __name__ == "__main__":
    answer_all(_answer, niceness=_NICENESS)
