"""The doctor on actions: whether what is stored of each can be, and whether ids and poison lead to it."""

from __future__ import annotations

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.model.actions.action_row import (
    ActionRow,
    ActionState,
    action_id_key,
    action_key,
    decode_action,
    decode_poison,
    decode_texts,
    poison_key,
)
from restante.model.columns.hashing import text_hash
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number

_ACTION_KEY_BYTES = 16
_ID_KEY_BYTES = 24
_TEXTS_KEY_BYTES = 24


def examine_actions(case: Case) -> None:
    """The rows of one partition."""

    def action(key: bytes, value: bytes) -> None:
        row = decode_action(value)
        _check_key(case, key, row)
        if _number_of_id(case, row, key_number(key)) != key_number(key[8:]):
            raise DataDamaged("Its id does not lead to it: nobody can look it up.")
        if row.state is ActionState.POISONED and not _has_poison(case, row, key_number(key[8:])):
            raise DataDamaged(f"It is poison, and not in the list of the group {row.group!r}.")

    def action_id(key: bytes, value: bytes) -> None:
        if len(key) != _ID_KEY_BYTES or _row(case, key_number(key[16:]), key_number(value)) is None:
            raise DataDamaged("There is no action where it leads to.")

    def poison(key: bytes, value: bytes) -> None:
        row = _row(case, decode_poison(value).recipient_hash, key_number(key[-8:]))
        if row is None or row.state is not ActionState.POISONED or poison_key(row.group, key_number(key[-8:])) != key:
            raise DataDamaged("The action that it leads to is not poison of its group.")

    def texts(key: bytes, value: bytes) -> None:
        decode_texts(value)
        if len(key) != _TEXTS_KEY_BYTES:
            raise DataDamaged("Its key makes no sense.")

    examine_entries(case, Space.ACTION, "action", action)
    examine_entries(case, Space.ACTION_ID, "id of an action", action_id)
    examine_entries(case, Space.ACTION_POISON, "poison", poison)
    examine_entries(case, Space.ACTION_TEXTS, "result of an action", texts)


def _check_key(case: Case, key: bytes, row: ActionRow) -> None:
    if len(key) != _ACTION_KEY_BYTES or key_number(key) != text_hash(row.concerns, case.deed.key):
        raise DataDamaged(f"Its key is not that of {row.concerns!r}.")
    if not 1 <= key_number(key[8:]) <= case.counters.visible:
        raise DataDamaged(f"Its number is not within 1 to {case.counters.visible}, the visible sequence.")


def _number_of_id(case: Case, row: ActionRow, recipient_hash: int) -> int | None:
    value = case.store.get(case.partition, Space.ACTION_ID, action_id_key(row.id, recipient_hash))
    return None if value is None else key_number(value)


def _has_poison(case: Case, row: ActionRow, number: int) -> bool:
    return case.store.get(case.partition, Space.ACTION_POISON, poison_key(row.group, number)) is not None


def _row(case: Case, recipient_hash: int, number: int) -> ActionRow | None:
    value = case.store.get(case.partition, Space.ACTION, action_key(recipient_hash, number))
    return None if value is None else decode_action(value)
