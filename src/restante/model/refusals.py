"""The error for messages that break a rule, with the same text wherever it is found."""

from __future__ import annotations

from collections.abc import Sequence

from restante.errors import Fault, InvalidMessage


def refusal(faults: Sequence[Fault]) -> InvalidMessage:
    """The error that lists these faults; there is at least one."""
    bad = len({fault.index for fault in faults})
    first = faults[0]
    named = f" ({first.id})" if first.id else ""
    return InvalidMessage(
        f"{bad} of the messages cannot be stored, so none was; the first is number {first.index}{named}: {first.detail}",
        faults,
    )
