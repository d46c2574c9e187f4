"""Collecting what is wrong with the messages of a send."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.errors import Fault, InvalidMessage
from restante.model.columns.arrow import column_of, strings_of

FIELDS = (
    "id",
    "recipient",
    "origin",
    "kind",
    "document_type",
    "weight",
    "bundleable",
    "data",
    "text",
    "media_type",
    "properties",
    "expires_at",
    "visible_at",
    "source_position",
)
"""The fields that a sender may name, in the order in which faults are listed."""
COLUMNS = (*FIELDS, "text_id")
"""The columns that an Arrow table may have: the texts of ids are a column of their own, as the hub gives them out."""
READ_ONLY = ("sequence_number", "published_at", "collected_at", "state")

_ORDER = {name: place for place, name in enumerate(FIELDS + READ_ONLY)}

Detail = str | Callable[[int], str]


class Faults:
    """The faults found so far: at most one a field of a message. The first stays, for the rest follow from it."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], str] = {}

    def add(self, rows: Iterable[int] | NDArray[np.int64], field: str, detail: Detail) -> None:
        """`detail` says what is wrong and what is allowed; as a function it is asked for each row."""
        numbers = rows.tolist() if isinstance(rows, np.ndarray) else rows
        for row in numbers:
            self._found.setdefault((row, _ORDER[field], field), detail if isinstance(detail, str) else detail(row))

    def without(self, mask: NDArray[np.bool_], *fields: str) -> NDArray[np.bool_]:
        """The mask, less the rows in which one of these fields is faulty already."""
        rows = [row for row, _, field in self._found if field in fields]
        if rows:
            mask = mask.copy()
            mask[rows] = False
        return mask

    def listed(self, ids: pa.StringArray, given: NDArray[np.bool_]) -> list[Fault]:
        """All faults by row, then by field, with the message's id where it gave a valid one."""
        found = sorted(self._found.items())
        rows = np.array([row for (row, _, _), _ in found], np.int64)
        texts = strings_of(ids.take(column_of(rows)))
        named = given[rows].tolist()
        return [
            Fault(index=row, code=InvalidMessage.code, detail=detail, field=field, id=text if has_id else None)
            for ((row, _, field), detail), text, has_id in zip(found, texts, named, strict=True)
        ]
