"""The error for messages that cannot be stored, with the same text wherever it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from restante.errors import Fault, FaultyMessages, InvalidMessage, MessageConflict, MessageErased, PartitionMismatch
from restante.model.publishing.message import Message

_KINDS = {kind.code: kind for kind in (MessageConflict, MessageErased, PartitionMismatch)}
_RULE_FIELDS = {"data_base64": "data", "text": "data", "source": "origin", "type": "kind"}
"""The names that the rules have for fields that are called otherwise on the wire."""


@dataclass(frozen=True, slots=True)
class Flawed:
    """Messages whose shape is wrong somewhere, so that none of them will be stored.

    Harmless values stand in place of what is wrong: so the hub can tell what else is wrong with the send.
    """

    messages: Sequence[Message]
    faults: Sequence[Fault]


def rule_field(fault: Fault) -> str | None:
    """The field of the rules that a fault is about; None if it is about the message as a whole."""
    return None if fault.field is None else _RULE_FIELDS.get(fault.field, fault.field)


def merged(by_shape: Sequence[Fault], by_rule: Sequence[Fault]) -> list[Fault]:
    """Merge two lists of faults, both by index; where the shape of a field is wrong, the rule complains of the value in its place."""
    told = {(fault.index, rule_field(fault)) for fault in by_shape}
    others = [fault for fault in by_rule if not {(fault.index, fault.field), (fault.index, None)} & told]
    return sorted([*by_shape, *others], key=lambda fault: fault.index)


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
