"""The doctor on batches: whether what is stored of each fits together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from restante.errors import DataDamaged
from restante.hub.batches.hand_items import set_entry, stored_groups, stored_segment
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.doctor.doctor_shards import enlisted_parts, is_part_deleted
from restante.hub.engine.core import uuid_text
from restante.model.batches.batch import NOTHING, BatchRow, Counts, added_up, decode_batch, decode_counts, is_completing
from restante.model.batches.batch_answers import Counting
from restante.model.columns.bits import SEGMENT_BITS, Bits
from restante.model.shards.batch_parts import total_at_home
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix, key_number
from restante.model.storage.partition import partition_of

_ID_BYTES = 16
_PARTS = {
    Space.BATCH_GROUP: "groups",
    Space.BATCH_REQUEST: "request",
    Space.BATCH_ACKNOWLEDGED: "acknowledgement",
    Space.BATCH_BITS: "bits",
    Space.BATCH_NOTICE: "notice",
}


def examine_batches(case: Case) -> None:
    known: dict[bytes, BatchRow] = {}

    def batch(key: bytes, value: bytes) -> None:
        row = decode_batch(value)
        if len(key) != _ID_BYTES or _home(case, key) != case.partition:
            raise DataDamaged("Its key is no id of a batch that lives in this partition.")
        known[key] = row
        for fault in _faults(case, key, row):
            case.problem(f"batch {uuid_text(key)}", fault)

    def part(key: bytes, _: bytes) -> None:
        if key[:_ID_BYTES] not in known:
            raise DataDamaged("There is no batch that it belongs to.")

    case.checked.batches += examine_entries(case, Space.BATCH, "batch", batch)
    examine_entries(case, Space.BATCH_COUNT, "batch counts", partial(_examine_counts, case))
    examine_entries(case, Space.BATCH_KEY, "batch key", partial(_examine_key, case))
    for space, what in _PARTS.items():
        examine_entries(case, space, f"batch {what}", part)


def _examine_counts(case: Case, key: bytes, value: bytes) -> None:
    counted = decode_counts(value)
    if case.knows(_home(case, key)) and _row(case, key) is None and not is_part_deleted(case, key):
        raise DataDamaged("There is no batch that is counted.")
    if min(counted.bound_pending, counted.duplicates_waiting, counted.items, counted.acknowledged) < 0:
        raise DataDamaged(f"They cannot be: {counted}.")


def _examine_key(case: Case, key: bytes, _: bytes) -> None:
    row = _row(case, key[-_ID_BYTES:])
    if row is None or row.sealed_at or row.deleted_at:
        raise DataDamaged("No open batch has this key.")


def _home(case: Case, batch_id: bytes) -> int:
    return partition_of(uuid_text(batch_id), case.deed.partition_count)


def _row(case: Case, batch_id: bytes) -> BatchRow | None:
    value = case.store.get(_home(case, batch_id), Space.BATCH, batch_id)
    return None if value is None else decode_batch(value)


def _faults(case: Case, batch_id: bytes, row: BatchRow) -> Iterator[str]:
    if row.deleted_at:
        return
    own, total = case.store.get(case.partition, Space.BATCH_COUNT, batch_id), _total(case, batch_id)
    if row.completed_at and not row.sealed_at:
        yield "It is complete, yet not sealed."
    if row.counting is Counting.EXACT:
        closing = case.store.get(case.partition, Space.BATCH_CLOSING, batch_id) is not None
        if is_completing(row, total) and not closing:
            yield "It is sealed and nothing is pending, yet it is not complete."
        if row.completed_at and total.pending:
            yield f"It is complete, yet {total.pending} items are pending."
    yield from _item_faults(case, batch_id, row, Counts() if own is None else decode_counts(own))


def _total(case: Case, batch_id: bytes) -> Counts:
    """All counts of a batch, as its home decides by them: of several shards, what the enlisted partitions reported."""
    enlisted = enlisted_parts(case, batch_id)
    own = case.store.get(case.partition, Space.BATCH_COUNT, batch_id)
    if enlisted or case.owned is not None:
        return total_at_home(NOTHING if own is None else decode_counts(own), enlisted.values())
    values = [case.store.get(p, Space.BATCH_COUNT, batch_id) for p in range(case.deed.partition_count)]
    return added_up(decode_counts(value) for value in values if value is not None)


def _item_faults(case: Case, batch_id: bytes, row: BatchRow, counts: Counts) -> Iterator[str]:
    begins = stored_groups(case.store, case.partition, batch_id)
    in_order = bool((np.diff(begins) > 0).all()) and (not len(begins) or (begins[0] == 0 and begins[-1] < counts.items))
    if not in_order or bool(len(begins)) != bool(counts.items):
        yield f"Its {len(begins)} groups do not fit its {counts.items} items."
    if row.counting is Counting.ESTIMATED or row.completed_at:
        return
    bits = Bits(partial(stored_segment, case.store, case.partition, batch_id))
    numbers = _touched(case, batch_id, bits)
    acknowledged = sum(_ones(bits, number) for number in numbers)
    if acknowledged != counts.acknowledged:
        yield f"{acknowledged} of its items are acknowledged, the counter says {counts.acknowledged}."


def _touched(case: Case, batch_id: bytes, bits: Bits) -> set[int]:
    """The segments of which something is stored, with all that was written ahead."""
    end = after_prefix(batch_id)
    rows = case.store.scan(case.partition, Space.BATCH_BITS, start=batch_id, end=end)
    for _, value in case.store.scan(case.partition, Space.BATCH_ACKNOWLEDGED, start=batch_id, end=end):
        set_entry(bits, value)
    return {key_number(key[_ID_BYTES:]) for key, _ in rows} | set(bits.segments)


def _ones(bits: Bits, number: int) -> int:
    part = bits.segment(number)
    if isinstance(part, bool):
        return SEGMENT_BITS if part else 0
    return int(np.bitwise_count(part).sum(dtype=np.int64))
