"""Tiny runs for the feed: neighbours of a few rows each are joined row by row, as filing does it, and read as one.

A follower of single publishes would otherwise pay more for opening each run than for its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.core import Core
from restante.limits import COMMIT_FEW_BYTES_MAX
from restante.model.feed.span_rows import Span
from restante.model.storage.changes import BlobKey
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.merge import DrawerStretch
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD
from restante.model.storage.run import Run, StoredSegment
from restante.model.storage.segment_frame import EncodedSegment

_ROWS_MAX = 16
"""Runs with more rows than this are read as columns, which is as quick."""


def is_tiny(run: Run) -> bool:
    """Whether a run is small and plain enough to be joined with its neighbours."""
    row = run.row
    return row.rows <= _ROWS_MAX and row.length <= COMMIT_FEW_BYTES_MAX // _ROWS_MAX and not row.published_at


def joined_span(core: Core, partition: int, runs: Sequence[Run]) -> Span | None:
    """All rows of tiny runs, held in memory; None if a run cannot be read so: the caller then reads it as columns."""
    names, base = NameTable(core.deed.key), runs[0].row.first
    handful = Handful(names)
    try:
        for run in runs:
            for stored, place in zip(run.segments, run.row.segments, strict=True):
                content = bytes(core.store.read_blob(stored.blob, 0, place.length))
                handful.add_segment(content, stored.base - base)
    except (DataDamaged, FormatUnsupported):
        return None
    encoded = handful.encoded(partition, names.encoded())
    return None if encoded is None else _span(encoded, base)


def _span(encoded: EncodedSegment, base: int) -> Span:
    # The joined run is in no blob: the rows held here are all that is read.
    stored = StoredSegment(BlobKey(encoded.group, 0), base, encoded.front)
    segment, content = stored.segment, memoryview(b"".join(encoded.parts))
    ledger = content[segment.frame_length :]
    records = np.frombuffer(ledger, RECORD, encoded.rows, segment.records_at)
    properties = ledger[segment.properties_at : segment.ledger_length]
    held = SegmentPiece(stored, 0, records, ledger[segment.ledger_length :], properties)
    return Span(DrawerStretch(stored, 0, len(segment.drawers)), 0, records, None, held)
