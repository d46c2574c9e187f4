"""Records that a test writes down one by one, as the columns in which a bridge has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from restante.bridges.in_rules import RawRecord
from restante.bridges.topic_records import TopicRecords


def columns_of(records: Sequence[RawRecord]) -> TopicRecords:
    headers = [record.headers for record in records]
    return TopicRecords(
        offsets=np.array([record.offset for record in records], np.int64),
        keys=pa.array([record.key for record in records], pa.large_binary()),
        values=pa.array([record.value for record in records], pa.large_binary()),
        timestamps_ms=np.array([record.timestamp_ms for record in records], np.int64),
        headers=headers if any(headers) else None,
    )
