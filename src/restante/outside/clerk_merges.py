"""The merges that the process of a clerk computes with Arrow: a slice of a shelf, from parts of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from restante.model.storage.changes import BlobKey
from restante.model.storage.merge import DrawerStretch, merged
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RECORD
from restante.model.storage.run import StoredSegment
from restante.model.storage.segment import decode
from restante.model.storage.segment_frame import EncodedSegment
from restante.ports.clerk import SegmentPart


def merged_parts(parts: Sequence[Sequence[Any]], first: int) -> list[EncodedSegment]:
    """The segments of a slice, from the fields of its parts."""
    stretches, pieces = [], []
    for part in (SegmentPart(*fields) for fields in parts):
        stored = StoredSegment(BlobKey(0, 0), part.base, decode(part.front, trusted=True), part.published_at)
        stretches.append(DrawerStretch(stored, part.first, part.last))
        records = np.frombuffer(part.records, RECORD)
        pieces.append(SegmentPiece(stored, part.row, records, part.data, part.properties))
    return merged(stretches, pieces, first, lambda *_: None)
