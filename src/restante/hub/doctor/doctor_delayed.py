"""The doctor on delayed messages: whether each can be read, and is found by its time."""

from __future__ import annotations

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.model.columns.hashing import text_hash
from restante.model.publishing.delay import DueKey, decode_delayed, delayed_key
from restante.model.storage.changes import Space


def examine_delayed(case: Case) -> None:
    due = dict[bytes, int]()

    def by_time(key: bytes, _: bytes) -> None:
        entry = DueKey.of(key)
        due[entry.key] = entry.due

    def message(key: bytes, value: bytes) -> None:
        row = decode_delayed(value)
        if key != delayed_key(text_hash(row.recipient, case.deed.key), row.recipient, row.id):
            raise DataDamaged("It lies under the key of another message.")
        if due.pop(key, None) != row.due:
            raise DataDamaged("It is not found by its time, and would never be published.")

    examine_entries(case, Space.DELAYED_DUE, "time of a delayed message", by_time)
    examine_entries(case, Space.DELAYED, "delayed message", message)
    for _ in due:
        case.note("time of a delayed message", "It names a message that is not there.")
