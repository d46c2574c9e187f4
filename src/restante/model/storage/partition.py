"""Which partition a recipient belongs to: `fnv1a_64(recipient) % partition_count`, for ever.

FNV-1a, 64 bit, as published: a program in any language can compute it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.hashing import Hashes, padded_bytes

FNV_OFFSET_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
_ROWS_AT_ONCE = 16_384


def fnv1a_64(content: bytes) -> int:
    """FNV-1a of some bytes."""
    value = FNV_OFFSET_BASIS
    for byte in content:
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def partition_of(recipient: str, partition_count: int) -> int:
    return fnv1a_64(recipient.encode()) % partition_count


def partitions_of(recipients: pa.StringArray, partition_count: int) -> NDArray[np.int64]:
    """The same for a column."""
    return (fnv1a_64_column(recipients) % np.uint64(partition_count)).astype(np.int64)


def fnv1a_64_column(texts: pa.StringArray) -> Hashes:
    """FNV-1a of each text, a byte position of all of them at a time."""
    values = np.empty(len(texts), np.uint64)
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        matrix, lengths = padded_bytes(texts.slice(start, _ROWS_AT_ONCE), 1)
        part = np.full(len(lengths), FNV_OFFSET_BASIS, np.uint64)
        for position in range(matrix.shape[1]):
            stepped = (part ^ matrix[:, position]) * np.uint64(FNV_PRIME)
            part = np.where(lengths > position, stepped, part)
        values[start : start + len(lengths)] = part
    return values
