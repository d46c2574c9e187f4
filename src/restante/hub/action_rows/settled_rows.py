"""Rows of actions whose messages are settled without a report: withdrawn, expired, released, forgotten or erased."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace
from restante.hub.action_rows.outcome_rows import action_so_far, count_ended, put_action
from restante.hub.action_rows.settle_action import ring_actions
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.model.actions.action_kind import ACTION_KIND
from restante.model.actions.action_reports import accepted_again, after_settling
from restante.model.actions.action_row import (
    ActionRow,
    ActionState,
    action_id_key,
    action_key,
    decode_action,
    poison_key,
    texts_key,
)
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number, number_key


def note_settled(
    core: Core, draft: RequestDraft, address: MailboxAddress, numbers: Sequence[int], kind: ChangeKind, at: int
) -> None:
    """Update the rows of actions whose messages were withdrawn, have expired, or were set aside by hand."""
    draft.applies.append(partial(core.memory(ActionMemory).recent.drop, address.partition, numbers))
    ended = []
    for number in numbers:
        place = ActionPlace(address.partition, address.hash, number)
        row = action_so_far(draft, place)
        after = None if row is None else after_settling(row, kind, at)
        if row is not None and after is not None:
            drop_poison(draft, place, row)
            put_action(draft, place, after)
            ended.append(row.id)
            draft.applies.append(partial(count_ended, core, place, after))
    ring_actions(draft, ended)


def drop_poison(draft: RequestDraft, place: ActionPlace, row: ActionRow) -> None:
    if row.state is ActionState.POISONED:
        draft.delete(place.partition, Space.ACTION_POISON, poison_key(row.group, place.number))


def move_action(core: Core, draft: RequestDraft, address: MailboxAddress, old: int, new: int) -> None:
    """Move the row of an action to its new number, with its counts reset."""
    place = ActionPlace(address.partition, address.hash, old)
    row = action_so_far(draft, place)
    if row is None:
        return
    drop_poison(draft, place, row)
    draft.delete(place.partition, Space.ACTION, action_key(place.recipient_hash, old))
    put_action(draft, ActionPlace(address.partition, address.hash, new), accepted_again(row))
    draft.put(place.partition, Space.ACTION_ID, action_id_key(row.id, place.recipient_hash), number_key(new))
    draft.applies.append(partial(core.memory(ActionMemory).ended, place.partition, old))
    draft.applies.append(partial(core.memory(ActionMemory).recent.forget, place.partition, new))
    ring_actions(draft, [row.id])


def forget_actions(core: Core, draft: RequestDraft, partition: int, recipient_hash: int, record: ChangeRecord) -> None:
    """Delete the rows of actions that a forgotten change record settled."""
    if record.message_kind != ACTION_KIND:
        return
    for own in record.ranges:
        start, end = action_key(recipient_hash, own.first), action_key(recipient_hash, own.last + 1)
        for key, value in core.store.scan(partition, Space.ACTION, start=start, end=end):
            row = decode_action(value)
            if (row.concerns, row.origin) == (record.recipient, record.origin):
                _delete(draft, ActionPlace(partition, recipient_hash, key_number(key[8:])), row)


def erase_actions(core: Core, draft: RequestDraft, address: MailboxAddress, last: int) -> None:
    """Delete the rows of a thing's actions up to number `last`. Later ones stay."""
    for key, value in draft.scan_prefix(address.partition, Space.ACTION, number_key(address.hash)):
        row, number = decode_action(value), key_number(key[8:])
        if row.concerns == address.recipient and number <= last:
            _delete(draft, ActionPlace(address.partition, address.hash, number), row)
            draft.applies.append(partial(core.memory(ActionMemory).ended, address.partition, number))


def _delete(draft: RequestDraft, place: ActionPlace, row: ActionRow) -> None:
    partition, recipient_hash, number = place.partition, place.recipient_hash, place.number
    drop_poison(draft, place, row)
    draft.delete(partition, Space.ACTION, action_key(recipient_hash, number))
    id_key = action_id_key(row.id, recipient_hash)
    if draft.get(partition, Space.ACTION_ID, id_key) == number_key(number):
        draft.delete(partition, Space.ACTION_ID, id_key)
    if row.noted:
        draft.delete(partition, Space.ACTION_TEXTS, texts_key(row.ended_at, recipient_hash, number))
