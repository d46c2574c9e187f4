"""Reading around damage: rows outside damaged blocks are still read.

The error of a failed read names the damaged block. The rows before and after that block are then read separately. Each
try excludes one more block, so there are at most as many failures as blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from restante.errors import DataDamaged
from restante.hub.engine.partitions import Partition
from restante.hub.engine.row_reads import read_data, read_records
from restante.limits import BLOCK_BYTES
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.run import Run, StoredSegment
from restante.ports.store import StoreReader

_log = logging.getLogger(__name__)

_RowsOfBlock = Callable[[int], tuple[int, int]]
"""Maps a block to the first and last (exclusive) of the rows that have bytes in it."""


def sound_records(
    store: StoreReader, stored: StoredSegment, first: int, last: int
) -> Iterator[tuple[int, RecordArray]]:
    """The readable records of rows first to last (exclusive), in stretches, each with its first row."""
    # Without a frame, neither the checksums nor the location of the records are known.
    waiting = [(first, last)] if len(stored.segment.checks) else []
    while waiting:
        first, last = waiting.pop()
        try:
            yield first, read_records(store, stored, first, last)
        except DataDamaged as error:
            waiting += _beside(error, first, last, partial(_rows_of_records, stored))


def sound_data(store: StoreReader, stored: StoredSegment, row: int, records: RecordArray) -> Iterator[SegmentPiece]:
    """The readable data of neighbouring rows, the first of which is `row`."""
    starts = records["data_start"].astype(np.int64)
    ends = starts + records["data_length"]

    def rows_of(block: int) -> tuple[int, int]:
        first = np.searchsorted(ends, block * BLOCK_BYTES, side="right")
        return int(first), int(np.searchsorted(starts, (block + 1) * BLOCK_BYTES, side="left"))

    waiting = [(0, len(records))]
    while waiting:
        first, last = waiting.pop()
        try:
            yield read_data(store, stored, row + first, records[first:last])
        except DataDamaged as error:
            waiting += _beside(error, first, last, rows_of)


def _rows_of_records(stored: StoredSegment, block: int) -> tuple[int, int]:
    start = block * BLOCK_BYTES - stored.segment.records_at
    return max(0, start // RECORD.itemsize), max(0, -(-(start + BLOCK_BYTES) // RECORD.itemsize))


def _beside(error: DataDamaged, first: int, last: int, rows_of: _RowsOfBlock) -> list[tuple[int, int]]:
    """The stretches before and after the damaged block that `error` names; none if it names no block."""
    block = error.details.get("block")
    if not isinstance(block, int):
        return []
    low, high = rows_of(block)
    low, high = max(low, first), min(high, last)
    if low >= high:
        return []
    return [(begin, end) for begin, end in ((high, last), (first, low)) if begin < end]


def is_damaged(partition: Partition, run: Run) -> bool:
    """Whether a run is known to be damaged: in one of its directories, or because filing failed to read it."""
    return run.row.identity in partition.damaged_runs or any(stored.damaged for stored in run.segments)


def tell_once(partition: Partition, what: str, error: DataDamaged) -> None:
    """Log that damage prevents a chore, once for each partition and chore."""
    if what not in partition.damage_told:
        partition.damage_told.add(what)
        _log.error("%s is passed over: %s", what, error.message)
