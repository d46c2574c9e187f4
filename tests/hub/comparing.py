"""What two hubs must agree on, as plain values that can be held against each other.

Sequence numbers are not compared, only their order: the rules say that they ascend, not how large they are. Ids that
a hub made are not compared either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

import msgspec

from restante.client.surface import surface
from restante.errors import FaultyMessages, MessageConflict, RestanteError
from restante.model.publishing.message import Message, State

MADE = "an id the hub made"
HISTORY = 1_000

IsGiven = Callable[[str | None], bool]
"""Tells ids that a sender gave from those that a hub made."""


def outcome(act: Callable[[], object], is_given: IsGiven) -> tuple[object, ...]:
    """What came of a call: its answer or its error, ready to be compared."""
    try:
        answer = act()
    except RestanteError as error:
        return ("error", *view_error(error))
    return ("answer", view(answer, is_given))


def view_error(error: RestanteError) -> tuple[object, ...]:
    details = error.details
    told = (details.get("bundle_id") if error.code == "bundle_open" else None, details.get("dequeued_at"))
    return (error.code, *told, view_faults(error))


def view_faults(error: RestanteError) -> Collection[object]:
    """Indices; of those in conflict the ids, for which of two messages in conflict is at fault is left open."""
    if isinstance(error, MessageConflict):
        return {fault.id for fault in error.faults}
    return {fault.index for fault in error.faults} if isinstance(error, FaultyMessages) else ()


def view(answer: object, is_given: IsGiven) -> object:
    match answer:
        case Message():
            return view_message(answer, is_given)
        case surface.HistoryPage():
            return view_messages(answer.messages, is_given)
        case surface.Receipt():
            extents = [
                (one.partition, one.last_sequence_number - one.first_sequence_number) for one in answer.partitions
            ]
            return (answer.accepted, answer.duplicates, sorted(extents))
        case surface.RecipientPage():
            return (answer.recipients, answer.as_of)
        case None | int() | str() | surface.Dequeued():
            return answer
        case _ if hasattr(answer, "bundle_id"):
            return view_bundle(answer, is_given)
    raise AssertionError(f"no way to compare {answer!r}")


def view_message(message: Message, is_given: IsGiven) -> dict[str, object]:
    shown = msgspec.structs.asdict(message)
    shown["sequence_number"] = None
    shown["id"] = message.id if is_given(message.id) else MADE
    if message.data is msgspec.UNSET:
        shown["media_type"] = None
    return shown


def view_messages(messages: Collection[Message], is_given: IsGiven) -> list[dict[str, object]]:
    numbers = [message.sequence_number or 0 for message in messages]
    assert all(one < next_one for one, next_one in pairwise(numbers)), f"numbers do not ascend: {numbers}"
    return [view_message(message, is_given) for message in messages]


def view_bundle(bundle: Any, is_given: IsGiven) -> dict[str, object]:
    """All of an inline bundle, in both its forms; of a claim check what its origin delivered."""
    shown: dict[str, object] = {
        "head": (bundle.bundle_id, bundle.recipient, bundle.origin, bundle.kind, bundle.message_count),
        "document_types": sorted(bundle.document_types),
        "content": (bundle.content, bundle.media_type if bundle.content is not None else None),
    }
    if bundle.content is None:
        waiting = [msgspec.structs.replace(message, state=State.WAITING) for message in bundle.messages]
        shown["messages"] = view_messages(waiting, is_given)
        shown["table"] = (bundle.table["data"].to_pylist(), len(bundle.table))
        assert bundle.table["sequence_number"].to_pylist() == [each.sequence_number for each in bundle.messages]
    return shown


def view_explanation(explanation: surface.Explanation) -> dict[str, object]:
    return {
        "reason": explanation.reason,
        "waiting": set(explanation.waiting),
        "open_bundles": set(explanation.open_bundles),
        "not_yet_visible": explanation.not_yet_visible,
    }


def view_mailbox(hub: surface.Hub, name: str, is_given: IsGiven) -> dict[str, object]:
    """Everything that can be seen of a mailbox without changing it."""
    recipient = hub.recipient(name)
    return {
        "history": view(recipient.history(limit=HISTORY), is_given),
        "explanation": view_explanation(recipient.explain()),
    }


def difference(got: object, expected: object) -> str:
    """Where two views first differ, in one line."""
    if isinstance(got, dict) and isinstance(expected, dict):
        keys = [key for key in expected if got.get(key) != expected[key]]
        return f"{keys[0]}: {difference(got.get(keys[0]), expected[keys[0]])}" if keys else f"{got} ≠ {expected}"
    if isinstance(got, list | tuple) and isinstance(expected, list | tuple) and list(got[:1]) == list(expected[:1]):
        for at, (one, other) in enumerate(zip(got, expected, strict=False)):
            if one != other:
                return f"[{at}] {difference(one, other)}"
        return f"{len(got)} ≠ {len(expected)} of them: {got} ≠ {expected}"
    return f"{got!r} ≠ {expected!r}"
