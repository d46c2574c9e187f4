"""The sound messages of a send in which something is faulty: those that are right in the fields that matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restante.errors import Fault, PartitionMismatch
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import rule_field
from restante.model.storage.partition import partitions_of

_CONTENT = frozenset({"id", "recipient", "origin", "kind", "weight", "bundleable", "data"})
"""The fields that decide whether a message is the one that is stored: where one of these is faulty, nobody can tell."""


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
