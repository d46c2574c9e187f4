"""Ids that follow from what a message is about: made again, they are the same, and the hub stores nothing twice."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

_SEPARATOR = "\x1f"
"""Between the parts, so that `a` and `bc` are not `ab` and `c`. No name holds it."""


def uuid_of(*parts: Column) -> Column:
    """A UUID (version 8: made by a rule of one's own) of these values, as text. None of them may be null."""
    digest = f.md5(f.concat_ws(_SEPARATOR, *(part.cast("string") for part in parts)))
    return f.concat(
        f.substring(digest, 1, 8),
        f.lit("-"),
        f.substring(digest, 9, 4),
        f.lit("-8"),
        f.substring(digest, 14, 3),
        f.lit("-a"),
        f.substring(digest, 18, 3),
        f.lit("-"),
        f.substring(digest, 21, 12),
    )
