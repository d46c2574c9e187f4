"""Tiny runs for the feed: neighbours of a few rows each are joined row by row, as filing does it, and read as one.

What reading a run costs beside its rows would be most of the cost for those who follow single publishes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.core import Core
from restante.hub.feed.feed_rows import Span
from restante.limits import COMMIT_FEW_BYTES_MAX
from restante.model.storage.changes import BlobKey
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.merge import DrawerStretch
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import RECORD
from restante.model.storage.run import Run, StoredSegment
from restante.model.storage.segment import EncodedSegment

_ROWS_MAX = 16
"""With more rows than that, columns are as quick."""


def is_tiny(run: Run) -> bool:
    """Whether joining it with its neighbours is worth it, and nothing is special about it."""
    row = run.row
    return row.rows <= _ROWS_MAX and row.length <= COMMIT_FEW_BYTES_MAX // _ROWS_MAX and not row.published_at


def joined_span(core: Core, partition: int, runs: Sequence[Run]) -> Span | None:
    """All rows of tiny runs, held in memory; None if that cannot be, and the long way finds out why."""
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
    # It lies nowhere: what is held is all that is read of it.
    stored = StoredSegment(BlobKey(encoded.group, 0), base, encoded.front)
    segment, content = stored.segment, memoryview(b"".join(encoded.parts))
    ledger = content[segment.frame_length :]
    records = np.frombuffer(ledger, RECORD, encoded.rows, segment.records_at)
    properties = ledger[segment.properties_at : segment.ledger_length]
    held = SegmentPiece(stored, 0, records, ledger[segment.ledger_length :], properties)
    return Span(DrawerStretch(stored, 0, len(segment.drawers)), 0, records, None, held)
