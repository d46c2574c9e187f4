"""The formats of fixed length: the record of a message, and the directory's line about a drawer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RECORD = np.dtype(
    [
        ("id", "<u8", (2,)),
        ("expires_at", "<i8"),
        ("published_at", "<i8"),
        ("place", "<u4"),
        ("weight", "<i4"),
        ("data_start", "<u4"),
        ("data_length", "<u4"),
        ("properties_start", "<u4"),
        ("document_type", "<u4"),
        ("media_type", "<u4"),
        ("properties_length", "<u2"),
        ("flags", "u1"),
        ("reserved", "u1"),
    ]
)
"""The fixed part of a message. Its sequence number is the first number of its run + place."""

DRAWER = np.dtype(
    [
        ("recipient_hash", "<u8"),
        ("cabinet_hash", "<u8"),
        ("weight", "<u8"),
        ("earliest_expiry", "<i8"),
        ("earliest_published", "<i8"),
        ("row", "<u4"),
        ("count", "<u4"),
        ("first_place", "<u4"),
        ("last_place", "<u4"),
        ("recipient_end", "<u4"),
        ("origin", "<u4"),
        ("kind", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""The directory's line about one drawer. Its recipient's text ends at `recipient_end`, and begins where the one before ends."""

assert RECORD.itemsize == 64
assert DRAWER.itemsize == 72

RecordArray = NDArray[np.void]
DrawerArray = NDArray[np.void]
