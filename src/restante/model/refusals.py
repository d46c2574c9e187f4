"""The error for messages that cannot be stored, with the same text wherever it is found."""

from __future__ import annotations

from collections.abc import Sequence

from restante.errors import Fault, FaultyMessages, InvalidMessage, MessageConflict, MessageErased, PartitionMismatch

_KINDS = {kind.code: kind for kind in (MessageConflict, MessageErased, PartitionMismatch)}


def refusal(faults: Sequence[Fault]) -> FaultyMessages:
    """The error that lists these faults, of which there is at least one: their own, if they share one."""
    codes = {fault.code for fault in faults}
    kind = _KINDS.get(codes.pop(), InvalidMessage) if len(codes) == 1 else InvalidMessage
    bad = len({fault.index for fault in faults})
    first = faults[0]
    named = f" ({first.id})" if first.id else ""
    return kind(
        f"{bad} of the messages cannot be stored, so none was; the first is at index {first.index}{named}: {first.detail}",
        faults,
    )
