"""A binary column as base64 texts, in one pass over all rows.

Each row is filled up with zeros to a multiple of three bytes, so that its text begins and ends where the row does when
all of them are encoded as one; then the characters that stand for the filling become `=`.
"""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa

from restante.model.columns.arrow import Column, bytes_of, column_of, offsets_of, strings
from restante.model.columns.properties import joined

_FILLINGS = pa.array([b"", b"\0", b"\0\0"], pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())


def base64_texts(column: Column) -> pa.StringArray:
    """The texts of a large_binary column without nulls, of less than a gigabyte."""
    lengths = np.diff(offsets_of(column))
    missing = (-lengths) % 3
    filled = joined(column, _FILLINGS.take(column_of(missing)), _NOTHING) if missing.any() else column
    # The encoder's bytes cannot be written to, but the memory of a bytearray can.
    texts = np.frombuffer(bytearray(binascii.b2a_base64(bytes_of(filled).data, newline=False)), np.uint8)
    ends = np.concatenate(([0], np.cumsum((lengths + missing) // 3 * 4)))
    texts[ends[1:][missing >= 1] - 1] = ord("=")
    texts[ends[1:][missing == 2] - 2] = ord("=")
    return strings(ends.astype(np.int32), texts.data)
