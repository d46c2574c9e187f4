"""Change records, the index of settlements, and the small rows beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import xxhash

from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import IntegerColumns, Mailboxes, digest, entries, examine_entries
from restante.hub.mailboxes.outbox import NoticeRow
from restante.model.columns.arrays import Numbers
from restante.model.columns.hashing import text_hashes
from restante.model.publishing.message import ACTION_KIND
from restante.model.removal.erasure import decode_erased
from restante.model.storage.change import ChangeKind, ChangeRecord, decode_change
from restante.model.storage.changes import Space
from restante.model.storage.keys import Cabinet, key_number, settlement_key

_BATCH_ID_BYTES = 16
_PAGE = 10_000
_SHOWN_MAX = 20
_EXACT = (ChangeKind.EXPIRED, ChangeKind.WITHDRAWN)
"""Changes whose messages stay as long as the record; a message set aside may be moved, and its old row dropped."""


class ChangesCheck:
    """The change records of a partition."""

    def __init__(self) -> None:
        self.numbers: Numbers = np.zeros(0, np.int64)
        """The numbers of changes that are not messages too."""
        self._own = IntegerColumns(1)
        self._collected = IntegerColumns(2)
        self._indexed = IntegerColumns(2)

    def read(self, case: Case, seen: Mailboxes) -> None:
        page: list[tuple[int, ChangeRecord]] = []
        with case.guard("change rows"):
            for key, value in entries(case, Space.CHANGE):
                case.checked.changes += 1
                with case.guard(f"change row {key.hex()}"):
                    page.append((_number(case, key), decode_change(value)))
                if len(page) == _PAGE:
                    self._add(case, seen, page)
                    page = []
        with case.guard("change rows"):
            self._add(case, seen, page)
        self.numbers = self._own.arrays()[0]
        with case.guard("settlement rows"):
            self._check_index(case)
        with case.guard("bundles"):
            self._check_collected(case, seen)

    def _add(self, case: Case, seen: Mailboxes, page: list[tuple[int, ChangeRecord]]) -> None:
        recipients = pa.array([record.recipient for _, record in page], pa.string())
        hashes = text_hashes(recipients, case.deed.key).tolist()
        for recipient_hash, (number, record) in zip(hashes, page, strict=True):
            with case.guard(f"change {number}"):
                self._add_one(case, seen, recipient_hash, number, record)

    def _add_one(self, case: Case, seen: Mailboxes, recipient_hash: int, number: int, record: ChangeRecord) -> None:
        if record.kind is ChangeKind.BATCH_COMPLETED:
            self._own.add(number)
            if len(record.batch) != _BATCH_ID_BYTES or record.recipient or record.count or record.ranges:
                case.problem(f"change {number} (batch_completed)", "It speaks of no batch, or of messages too.")
            return
        cabinet = Cabinet(record.recipient, record.origin, record.message_kind)
        self._indexed.add(number, _key_digest(settlement_key(recipient_hash, cabinet, number)))
        if not record.moved:
            self._own.add(number)
        for fault in _faults(number, record):
            case.problem(f"change {number} ({record.kind.value}) of {record.recipient}", fault)
        if record.kind is ChangeKind.COLLECTED and record.message_kind != ACTION_KIND:
            said = (record.at, *cabinet, record.count, record.ranges, record.left_out, record.bundle_id)
            self._collected.add(number, digest(said))
        elif record.kind is not ChangeKind.ERASED:
            owner = seen.register.cabinet(cabinet)
            exact = record.kind in _EXACT and record.ranges[0].first > seen.heads.get(owner, (0, 0))[1]
            subject = f"change ({record.kind.value}) of"
            seen.register.expect(subject, owner, record.ranges, record.left_out, record.count, exact=exact)

    def _check_index(self, case: Case) -> None:
        """Each record is found by its cabinet, and each entry of that index leads to a record."""
        index = IntegerColumns(2)
        for key, _ in entries(case, Space.SETTLEMENT):
            with case.guard(f"settlement row {key.hex()}"):
                index.add(key_number(key[-8:]), _key_digest(key))
        for number in _unmatched(self._indexed.arrays(), index.arrays()):
            case.problem(f"change {number}", "The index of settlements does not lead to it: history will not show it.")
        for number in _unmatched(index.arrays(), self._indexed.arrays()):
            case.problem(f"settlement of change {number}", "There is no such change record of its cabinet.")

    def _check_collected(self, case: Case, seen: Mailboxes) -> None:
        """Each dequeued bundle has its record, each such record its bundle, and they say the same."""
        for number in _unmatched(seen.closed.arrays(), self._collected.arrays()):
            case.problem(f"bundle dequeued by change {number}", "No change record says the same as its row.")
        for number in _unmatched(self._collected.arrays(), seen.closed.arrays()):
            case.problem(f"change {number}", "No dequeued bundle says the same as this record.")


def _number(case: Case, key: bytes) -> int:
    number = key_number(key)
    if len(key) != 8 or not 1 <= number <= case.counters.visible:
        raise DataDamaged(f"Its number is not within 1 to {case.counters.visible}, the visible sequence.")
    return number


def _faults(number: int, record: ChangeRecord) -> Iterator[str]:
    if record.count < 1 or not record.ranges:
        yield "It says nothing of any message."
    ordered = record.kind is not ChangeKind.ERASED
    before = 0
    for entry in record.ranges:
        if not 1 <= entry.first <= entry.last < number or (ordered and entry.first <= before):
            yield f"Its ranges are out of order at {entry.first} to {entry.last}."
            return
        before = entry.last


def _key_digest(key: bytes) -> int:
    return xxhash.xxh3_64_intdigest(key) >> 1


def _unmatched(these: list[Numbers], those: list[Numbers]) -> list[int]:
    """Numbers of the first whose digest is not beside the same number in the second; the first few."""
    left, right = (
        np.stack(columns, axis=1).view([("number", "i8"), ("digest", "i8")])[:, 0] for columns in (these, those)
    )
    return [int(number) for number in left[~np.isin(left, right)]["number"][:_SHOWN_MAX]]


def examine_notices(case: Case) -> None:
    """The outbox, and what stays of erased messages."""

    def notice(key: bytes, value: bytes) -> None:
        packed_decoder(NoticeRow).decode(value)
        _number(case, key)

    def erased(key: bytes, value: bytes) -> None:
        _number(case, key[:8])
        if len(decode_erased(value).digests) % 16:
            raise DataDamaged("Its digests are not of 16 bytes each.")

    examine_entries(case, Space.OUTBOX, "outbox", notice)
    examine_entries(case, Space.ERASED, "erased", erased)
