"""The types of NumPy's arrays that the columns of messages become."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
"""Sequence numbers, or others of 64 bits."""
Rows = NDArray[np.int64]
"""Where rows are in a column, counted from 0."""
Mask = NDArray[np.bool_]
"""A mask of rows: true for those that are chosen."""
Words = NDArray[np.uint64]
"""Hashes, fingerprints and halves of UUIDs."""
