"""Collecting what is wrong with the messages of a send, and which of them are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.errors import Fault, InvalidMessage, PartitionMismatch
from restante.model.columns.arrow import column_of, strings_of
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import rule_field
from restante.model.storage.partition import partitions_of

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
_CONTENT = frozenset({"id", "recipient", "origin", "kind", "weight", "bundleable", "data"})
"""The fields that decide whether a message is the one that is stored: where one of these is faulty, nobody can tell."""


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

    @property
    def any(self) -> bool:
        return bool(self._found)

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


def comparable_rows(columns: MessageColumns, faults: Sequence[Fault]) -> NDArray[np.int64]:
    """The messages that may be compared with what is stored: their senders gave their ids."""
    return np.flatnonzero(_sound(columns, faults, _CONTENT) & ~columns.made_id)


def misplaced(
    columns: MessageColumns, faults: Sequence[Fault], partition: int | None, partition_count: int
) -> list[Fault]:
    """The faults of messages for other partitions than the one that all were sent to, if they were sent to one."""
    if partition is None:
        return []
    own = partitions_of(columns.recipient.values, partition_count)[columns.recipient.codes]
    rows = np.flatnonzero((own != partition) & _sound(columns, faults, frozenset({"recipient"})))
    return [
        Fault(
            index=row,
            code=PartitionMismatch.code,
            field="recipient",
            detail=f"its recipient belongs to partition {own[row]}, not {partition}",
        )
        for row in rows.tolist()
    ]


def _sound(columns: MessageColumns, faults: Sequence[Fault], fields: frozenset[str]) -> NDArray[np.bool_]:
    """Which messages have no fault in these fields."""
    sound = np.ones(len(columns), np.bool_)
    sound[[fault.index for fault in faults if (field := rule_field(fault)) is None or field in fields]] = False
    return sound
