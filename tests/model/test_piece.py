"""Records that no encoder wrote are refused, whether there is one of them or several."""

from __future__ import annotations

import numpy as np
import pytest

from restante.errors import DataDamaged
from restante.model.publishing.message import Message
from restante.model.storage.changes import BlobKey
from restante.model.storage.piece import check_records
from restante.model.storage.row_formats import RECORD, RecordArray
from restante.model.storage.run import StoredSegment
from tests.model.test_handful import content, encoded_of

MESSAGES = [Message(recipient="ada", data=number, properties={"number": str(number)}) for number in range(3)]


def stored_records(count: int) -> tuple[StoredSegment, RecordArray]:
    """A segment of so many messages, and its records as they can be changed."""
    (encoded,) = encoded_of(MESSAGES[:count], 1).values()
    assert encoded is not None
    stored = StoredSegment(BlobKey(0, 1), 1, encoded.front)
    at = stored.segment.records_at + len(content(encoded)) - stored.segment.ledger_length - stored.segment.data_length
    return stored, np.frombuffer(content(encoded), RECORD, count, at).copy()


@pytest.mark.parametrize("count", [1, 3])
def test_records_are_sound_as_they_were_written(count: int) -> None:
    check_records(*stored_records(count))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "field", ["data_start", "data_length", "properties_start", "properties_length", "document_type", "media_type"]
)
def test_one_that_points_beyond_its_segment_is_refused(field: str, count: int) -> None:
    stored, records = stored_records(count)
    records[field][-1] = 60_000
    with pytest.raises(DataDamaged):
        check_records(stored, records)
