"""The formats of files that commands read and write."""

from __future__ import annotations

from enum import Enum


class Format(Enum):
    """How a file says its messages."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
