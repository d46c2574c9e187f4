"""A piece: neighbouring rows of one segment, as read from the store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from restante.errors import DataDamaged
from restante.model.columns.arrays import Numbers
from restante.model.columns.arrow import large_binaries
from restante.model.storage.changes import Buffer
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.run import StoredSegment


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """Rows `row` to `row + len(records)` of a segment. Data and properties, if read, are of exactly these rows."""

    stored: StoredSegment
    row: int
    records: RecordArray
    data: Buffer = b""
    properties: Buffer = b""

    @property
    def numbers(self) -> Numbers:
        return self.records["place"].astype(np.int64) + self.stored.base

    def data_column(self) -> pa.LargeBinaryArray:
        return _binary_column(self.records, "data", self.data)

    def properties_column(self) -> pa.LargeBinaryArray:
        return _binary_column(self.records, "properties", self.properties)


def _binary_column(records: RecordArray, field: str, content: Buffer) -> pa.LargeBinaryArray:
    starts = records[f"{field}_start"].astype(np.int64)
    offsets = np.empty(len(records) + 1, np.int64)
    offsets[:-1] = starts - starts[0] if len(starts) else 0
    offsets[-1] = len(content)
    return large_binaries(offsets, content)


def check_records(stored: StoredSegment, records: RecordArray) -> None:
    """Refuse records that no encoder wrote, so that later code can rely on their offsets and codes."""
    segment = stored.segment
    data, properties = segment.data_length, segment.ledger_length - segment.properties_at
    if len(records) == 1:
        # A mailbag often has one message of a mailbox, and column operations on one row would take longer.
        _, _, _, _, _, start, length, more, document_type, media_type, size, _, _ = records.tolist()[0]
        sound = start + length <= data and more + size <= properties
    else:
        sound = _one_after_another(records, "data", data) and _one_after_another(records, "properties", properties)
        document_type, media_type = int(records["document_type"].max()), int(records["media_type"].max())
    names = segment.names
    if not (
        sound and document_type < max(1, len(names.document_types)) and media_type < max(1, len(names.media_types))
    ):
        raise DataDamaged("The records of a segment make no sense.")


def _one_after_another(records: RecordArray, field: str, length: int) -> bool:
    """Whether the data (or properties) of neighbouring rows are contiguous and within their area."""
    starts = records[f"{field}_start"].astype(np.int64)
    ends = starts + records[f"{field}_length"]
    return bool((starts[1:] == ends[:-1]).all()) and int(ends[-1]) <= length


def span(records: RecordArray, field: str) -> tuple[int, int]:
    """Where the data (or properties) of neighbouring rows begin and end in their area."""
    last = records[-1]
    return int(records[0][f"{field}_start"]), int(last[f"{field}_start"]) + int(last[f"{field}_length"])
