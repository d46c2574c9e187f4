"""Refusing a send: the error lists everything that is wrong with it, so that the sender can fix it all at once.

Nothing of a refused send is stored, so it is judged only once, on the state at that moment. Faults against the rules,
recipients of other partitions, and conflicts with stored messages are listed together.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import Fault, FaultyMessages, MessageConflict, MessageErased
from restante.hub.engine.core import Core
from restante.hub.publishing.identities import Judged, Verdict, judge
from restante.model.access.access import EVERYTHING, Grant
from restante.model.access.origin_access import foreign_rows
from restante.model.publishing.arrival import arrive
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.publishing.validation import comparable_rows, misplaced

_REFUSALS: dict[int, tuple[type[FaultyMessages], str]] = {
    Verdict.CONFLICT: (
        MessageConflict,
        "a message with this id came for this recipient before, with other content",
    ),
    Verdict.ERASED: (MessageErased, "the message with this id was erased for good"),
}


def whole_refusal(
    core: Core, columns: MessageColumns, faults: Sequence[Fault], partition: int | None, caller: Grant = EVERYTHING
) -> FaultyMessages:
    """The error for a send with these faults, completed by its conflicts and its messages for other partitions.

    Pass the caller, unless it may publish for all origins in the send.
    """
    found = [*faults, *in_conflict(core, columns, faults, caller)]
    found += misplaced(columns, faults, partition, core.deed.partition_count)
    return refusal(sorted(found, key=lambda fault: fault.index))


def verdict_faults(judged: Judged, rows: NDArray[np.int64]) -> list[Fault]:
    """The faults of arrivals that are in conflict, or were erased."""
    faults = []
    for row, text in zip(rows.tolist(), judged.arrivals.columns.id_texts(rows), strict=True):
        kind, detail = _REFUSALS[int(judged.verdict[row])]
        faults.append(Fault(index=row, code=kind.code, field="id", detail=detail, id=text))
    return faults


def in_conflict(
    core: Core, columns: MessageColumns, faults: Sequence[Fault] = (), caller: Grant = EVERYTHING
) -> list[Fault]:
    """The conflicts of a send's messages with stored ones, and among themselves.

    A stored message of an origin that is not the caller's is in conflict with the same message, too: otherwise the caller
    could guess what it says.
    """
    rows = comparable_rows(columns, faults)
    if not len(rows):
        return []
    arrivals = arrive(columns.take(rows), key=core.deed.key, partition_count=core.deed.partition_count)
    with core.pins.reading():
        judged = judge(core, arrivals, np.array([0, len(rows)]), np.ones(len(rows), np.bool_))
    repeats = (judged.verdict == Verdict.DUPLICATE) & (judged.original >= 0)
    judged.verdict[repeats & foreign_rows(caller, arrivals.columns.origin)] = Verdict.CONFLICT
    bad = np.flatnonzero((judged.verdict == Verdict.CONFLICT) | (judged.verdict == Verdict.ERASED))
    return [msgspec.structs.replace(fault, index=int(rows[fault.index])) for fault in verdict_faults(judged, bad)]
