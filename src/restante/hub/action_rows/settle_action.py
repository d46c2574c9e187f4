"""Settling one action: writes the change record, the head of its cabinet, and the counts of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from restante.hub.action_rows.action_memory import ActionPlace
from restante.hub.batches.bound_messages import binding, count_settled
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.model.actions.action_kind import ACTION_KIND
from restante.model.actions.action_row import ActionRow, action_key, decode_action
from restante.model.actions.settled_heads import apart_why, can_settle, gaps_before, settled_head
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.head import Apart, Head, NumberRange, encode_head
from restante.model.storage.keys import Cabinet, cabinet_key, key_number

_SALT = 0x6163_7469_6F6E_7321
_ROWS_MAX = 1_000
"""At most this many rows are read in a gap. If there are more, the action is listed apart, which is also correct."""


def cabinet_of(row: ActionRow) -> Cabinet:
    return Cabinet(row.concerns, row.origin, ACTION_KIND)


def action_bell(action_id: bytes) -> int:
    """The hash under which the bell lists waiters for an action."""
    return int.from_bytes(action_id[8:], "big") ^ _SALT


def ring_actions(draft: RequestDraft, ids: Sequence[bytes]) -> None:
    """Wake the callers that wait for the outcomes of these actions."""
    if ids:
        draft.concerns.append(np.array([action_bell(own) for own in ids], np.uint64))


@dataclass(frozen=True, slots=True)
class ActionView:
    """An action as a draft sees it, with the head of its cabinet, and the rows of its thing between the two."""

    row: ActionRow
    head: Head
    between: Sequence[tuple[int, ActionRow]] | None = None
    """The rows between the head and the action; None if they were not read."""


def view_action(core: Core, draft: RequestDraft, place: ActionPlace, concerns: str, origin: str) -> ActionView | None:
    """View an action with one read of the head, and one of all rows from there to the action; None if it is gone."""
    cabinet = Cabinet(concerns, origin, ACTION_KIND)
    head = draft.head(place.partition, place.recipient_hash, cabinet)
    entry = EntryKey(place.partition, Space.ACTION, action_key(place.recipient_hash, place.number))
    if head.apart or place.number <= head.head or draft.is_pending(entry):
        value = draft.get(*entry)
        return None if value is None else ActionView(decode_action(value), head)
    start = action_key(place.recipient_hash, head.head + 1)
    found = core.store.scan(place.partition, Space.ACTION, start=start, end=entry.key + b"\x00", limit=_ROWS_MAX)
    if not found or found[-1][0] != entry.key:
        value = draft.get(*entry) if len(found) == _ROWS_MAX else None
        return None if value is None else ActionView(decode_action(value), head)
    rows = [(key_number(key[8:]), decode_action(value)) for key, value in found]
    return ActionView(rows[-1][1], head, rows[:-1])


def settle_action(
    core: Core,
    draft: RequestDraft,
    place: ActionPlace,
    row: ActionRow,
    kind: ChangeKind,
    at: int,
    view: ActionView | None,
) -> bool:
    """Settle an action that waits or is set aside; return False if it was settled before, which stays as it is."""
    cabinet, number = cabinet_of(row), place.number
    head = draft.head(place.partition, place.recipient_hash, cabinet) if view is None else view.head
    if not can_settle(head, number):
        return False
    collected = kind is ChangeKind.COLLECTED
    in_turn = collected and number > head.head and not _waits_before(core, place, row, head, view)
    own = (NumberRange(number, number),)
    aside = own if apart_why(head, number) is Apart.SET_ASIDE else ()
    record = ChangeRecord(kind, at, *cabinet, 1, own, apart=collected and not in_turn, aside=aside)
    draft.record(place.partition, place.recipient_hash, record)
    if binding(core, draft, place.partition):
        count_settled(core, draft, place.partition, np.array([number], np.int64), kind)
    after = settled_head(head, number, kind, in_turn=in_turn)
    draft.put(place.partition, Space.HEAD, cabinet_key(place.recipient_hash, cabinet), encode_head(after))
    return True


def _waits_before(core: Core, place: ActionPlace, row: ActionRow, head: Head, view: ActionView | None) -> bool:
    if view is None or view.between is None:
        return _any_waits_before(core, place, row, head)
    return any(_same_cabinet(other, row) for _, other in view.between)


def _same_cabinet(one: ActionRow, other: ActionRow) -> bool:
    return one.origin == other.origin and one.concerns == other.concerns


def _any_waits_before(core: Core, place: ActionPlace, row: ActionRow, head: Head) -> bool:
    """Whether an action of the same cabinet waits before this one.

    The store knows: such actions were committed before this one was handed out. The current commit adds only later numbers,
    and the actions that it settles are in the head.
    """
    for gap in gaps_before(head, place.number):
        first, last = (action_key(place.recipient_hash, number) for number in (gap.first, gap.last + 1))
        found = core.store.scan(place.partition, Space.ACTION, start=first, end=last, limit=_ROWS_MAX)
        if len(found) == _ROWS_MAX:
            return True
        if any(_same_cabinet(decode_action(value), row) for _, value in found):
            return True
    return False
