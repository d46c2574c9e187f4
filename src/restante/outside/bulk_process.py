"""The process of a clerk that lays out bulk: a body is checked, routed and laid out as mailbags, as if all of it were new."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from restante.decoders import packed_decoder
from restante.errors import RestanteError
from restante.model.publishing import intake
from restante.model.publishing.arrival import arrive, group, mailbags, places
from restante.model.publishing.bulk_parcel import BulkParcel, Packing, packed
from restante.model.publishing.message import MessageColumns
from restante.model.storage.changes import Buffer
from restante.outside.bulk_clerk import ANSWER, BulkTask
from restante.outside.helper_frames import answer_all
from restante.ports.clerk import BulkTerms
from restante.wire.incoming.incoming_arrow import decode_arrow

_NICENESS = 5
_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
_PARTS_PER_WRITE = 1000
_decoder = packed_decoder(BulkTask)
_FAILED = ANSWER.pack(0, 0)


def laid_out(body: Buffer, terms: BulkTerms) -> BulkParcel | None:
    """The mailbags of a body; None if something is wrong with it, or special: the hub looks at it then."""
    columns, faults = intake.from_arrow(
        decode_arrow(body), claim_check_origins=terms.claim_check_origins, data_bytes_max=terms.data_bytes_max
    )
    if faults or not len(columns) or columns.visible_at is not None or columns.source_position is not None:
        return None
    arrivals = arrive(_with_ids(columns, terms), key=terms.key, partition_count=terms.partition_count)
    place, counts = places(arrivals.partition, terms.partition_count)
    segments = mailbags(arrivals, place, published_at=terms.now, key=terms.key)
    return BulkParcel(arrivals, group(arrivals), place, counts, segments, terms.now)


def _with_ids(columns: MessageColumns, terms: BulkTerms) -> MessageColumns:
    made = int(columns.made_id.sum())
    if not made:
        return columns
    random = os.urandom(made * intake.RANDOM_BYTES_PER_ID)
    return intake.fill_made_ids(columns, now_ms=terms.now // 1000, random=random)


def _answer(line: socket.socket, question: bytes) -> None:
    try:
        task = _decoder.decode(question)
        body = memoryview(mmap.mmap(task.descriptor, task.length, prot=mmap.PROT_READ, flags=_FLAGS))
        parcel = laid_out(body, task.terms)
        found = None if parcel is None else _in_shared_memory(parcel, body)
    except (RestanteError, OSError, ValueError, TypeError, IndexError, KeyError, MemoryError, pa.ArrowException):
        found = None
    if found is None:
        line.sendall(_FAILED)
        return
    descriptor, directory, size = found
    try:
        socket.send_fds(line, [ANSWER.pack(len(directory), size)], [descriptor])
        line.sendall(directory)
    finally:
        os.close(descriptor)


def _in_shared_memory(parcel: BulkParcel, body: Buffer) -> tuple[int, bytes, int]:
    """Memory with all that does not lie in the body, its directory, and its size."""
    packing = Packing(body)
    directory = msgspec.msgpack.encode(packed(parcel, packing))
    # Written by calls: to have each new page of it come as it is touched takes three times as long.
    descriptor = os.memfd_create("restante-bulk", os.MFD_CLOEXEC)
    try:
        for first in range(0, len(packing.parts), _PARTS_PER_WRITE):
            _write(descriptor, packing.parts[first : first + _PARTS_PER_WRITE])
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, directory, packing.size


def _write(descriptor: int, parts: Sequence[Buffer]) -> None:
    if os.writev(descriptor, parts) != sum(map(len, parts)):
        raise OSError("the memory is full")


if __name__ == "__main__":
    answer_all(_answer, niceness=_NICENESS)
