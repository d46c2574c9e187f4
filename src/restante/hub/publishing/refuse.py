"""Refusing a send: everything that is wrong with it in one answer, so that its sender need not come twice.

Nothing of such a send is stored. So it is looked at once, in whatever way it came, on what is stored at that moment:
what the rules refuse is named beside recipients of other partitions and messages in conflict.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import Fault, FaultyMessages, MessageConflict, MessageErased, PartitionMismatch
from restante.hub.engine.core import Core
from restante.hub.publishing.identities import Judged, Verdict, judge
from restante.model.publishing.arrival import arrive
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal, rule_field
from restante.model.storage.partition import partitions_of

_CONTENT = frozenset({"id", "recipient", "origin", "kind", "weight", "bundleable", "data"})
"""The fields that decide whether a message is the one that is stored: where one of these is faulty, nobody can tell."""
_REFUSALS: dict[int, tuple[type[FaultyMessages], str]] = {
    Verdict.CONFLICT: (
        MessageConflict,
        "a message with this id came for this recipient before, with other content",
    ),
    Verdict.ERASED: (MessageErased, "the message with this id was erased for good"),
}


def whole_refusal(
    core: Core, columns: MessageColumns, faults: Sequence[Fault], partition: int | None
) -> FaultyMessages:
    """The error for a send that has these faults, or messages for other partitions than the one that it was sent to."""
    found = [*faults, *_in_conflict(core, columns, faults)]
    if partition is not None:
        found += _misplaced(core, columns, faults, partition)
    return refusal(sorted(found, key=lambda fault: fault.index))


def verdict_faults(judged: Judged, rows: NDArray[np.int64]) -> list[Fault]:
    """The faults of arrivals that are in conflict, or were erased."""
    faults = []
    for row, text in zip(rows.tolist(), judged.arrivals.columns.id_texts(rows), strict=True):
        kind, detail = _REFUSALS[int(judged.verdict[row])]
        faults.append(Fault(index=row, code=kind.code, field="id", detail=detail, id=text))
    return faults


def _misplaced(core: Core, columns: MessageColumns, faults: Sequence[Fault], partition: int) -> list[Fault]:
    """A parcel to one partition may hold nothing for another."""
    own = partitions_of(columns.recipient.values, core.deed.partition_count)[columns.recipient.codes]
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


def _in_conflict(core: Core, columns: MessageColumns, faults: Sequence[Fault]) -> list[Fault]:
    """Conflicts with what is stored, and among the messages of the send."""
    rows = np.flatnonzero(_sound(columns, faults, _CONTENT) & ~columns.made_id)
    if not len(rows):
        return []
    arrivals = arrive(columns.take(rows), key=core.deed.key, partition_count=core.deed.partition_count)
    with core.pins.reading():
        judged = judge(core, arrivals, np.array([0, len(rows)]), np.ones(len(rows), np.bool_))
    bad = np.flatnonzero((judged.verdict == Verdict.CONFLICT) | (judged.verdict == Verdict.ERASED))
    return [msgspec.structs.replace(fault, index=int(rows[fault.index])) for fault in verdict_faults(judged, bad)]


def _sound(columns: MessageColumns, faults: Sequence[Fault], fields: frozenset[str]) -> NDArray[np.bool_]:
    """Which messages have no fault in these fields."""
    sound = np.ones(len(columns), np.bool_)
    sound[[fault.index for fault in faults if (field := rule_field(fault)) is None or field in fields]] = False
    return sound
