"""The row of an action in a commit: reading it as a draft sees it, and writing it with its outcome."""

from __future__ import annotations

from functools import partial

from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace
from restante.hub.action_rows.settle_action import ActionView, settle_action
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.model.actions.action_reports import Ending
from restante.model.actions.action_row import (
    ActionRow,
    ActionState,
    OutcomeTexts,
    PoisonRow,
    action_key,
    decode_action,
    encode_action,
    poison_key,
    texts_key,
)
from restante.model.publishing.message import HEALTH_ORIGIN
from restante.model.storage.changes import Space

_SECOND = 1_000_000


def action_so_far(draft: RequestDraft, place: ActionPlace) -> ActionRow | None:
    value = draft.get(place.partition, Space.ACTION, action_key(place.recipient_hash, place.number))
    return None if value is None else decode_action(value)


def put_action(draft: RequestDraft, place: ActionPlace, row: ActionRow) -> None:
    draft.put(place.partition, Space.ACTION, action_key(place.recipient_hash, place.number), encode_action(row))


def put_ending(
    core: Core, draft: RequestDraft, place: ActionPlace, ending: Ending, member: str, view: ActionView | None = None
) -> None:
    """End an action: write its row, settle its message, write its texts or poison, and count it after the commit."""
    row = ending.row
    settle_action(core, draft, place, row, ending.kind, row.ended_at, view)
    put_action(draft, place, row)
    if row.state is ActionState.POISONED:
        put_poison(draft, place, row, member, ending.texts.detail)
    elif row.noted:
        put_texts(draft, place, row, ending.texts)
    draft.applies.append(partial(count_ended, core, place, row))


def put_texts(draft: RequestDraft, place: ActionPlace, row: ActionRow, texts: OutcomeTexts) -> None:
    key = texts_key(row.ended_at, place.recipient_hash, place.number)
    draft.put(place.partition, Space.ACTION_TEXTS, key, encode_action(texts))


def put_poison(draft: RequestDraft, place: ActionPlace, row: ActionRow, member: str, detail: str) -> None:
    poison = PoisonRow(place.recipient_hash, row.ended_at, member, detail)
    draft.put(place.partition, Space.ACTION_POISON, poison_key(row.group, place.number), encode_action(poison))


def count_ended(core: Core, place: ActionPlace, row: ActionRow) -> None:
    """Count an action whose outcome is committed."""
    memory = core.memory(ActionMemory)
    memory.ended(place.partition, place.number)
    if row.origin == HEALTH_ORIGIN:
        return
    queued = (row.begun_at - row.accepted_at) / _SECOND if row.begun_at else -1.0
    took = (row.ended_at - row.begun_at) / _SECOND if row.begun_at else 0.0
    memory.of(row.name).add(row.state, queued=queued, took=took)
