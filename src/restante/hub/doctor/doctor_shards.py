"""The doctor on what several shards have together: parts of batches, rounds of consignments, and what home has of them.

A decision that a shard has not heard of yet is no damage, and only noted: the shard asks when it is opened, and does what
home says.
"""

from __future__ import annotations

from functools import partial

import msgspec

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_consignments import consignment_home, consignment_row, is_staged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.engine.core import uuid_text
from restante.model.batches.batch import NOTHING, BatchRow, Counts, decode_batch, decode_counts
from restante.model.consignments.consignment import StagedRun
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.shards.batch_parts import (
    BatchPart,
    EnlistedPart,
    PartState,
    bound_only,
    decode_enlisted,
    decode_part,
    enlisted_key,
    is_final,
    key_partition,
)
from restante.model.shards.rounds import (
    PreparedRow,
    RoundPhase,
    RoundRow,
    decode_prepared,
    decode_round,
    decode_staged_part,
)
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix
from restante.model.storage.partition import partition_of

_ID_BYTES = 16
_ENLISTED_BYTES = _ID_BYTES + 2


_DECIDED = (RoundPhase.DECIDED, RoundPhase.RECORDED)


def examine_batch_parts(case: Case) -> None:
    """The rows of one partition: its parts of batches, and the parts of the batches whose home it is."""
    examine_entries(case, Space.BATCH_PART, "part of a batch", partial(_part, case))
    examine_entries(case, Space.BATCH_ENLISTED, "enlisted part of a batch", partial(_enlisted, case))
    examine_entries(case, Space.BATCH_REPORT, "report of a batch", partial(_report, case))
    examine_entries(case, Space.BATCH_CLOSING, "closing of a batch", partial(_closing, case))


def is_part_deleted(case: Case, batch_id: bytes) -> bool:
    """Whether a partition knows that a batch was deleted. Its counts of the batch stay until the batch is tidied up."""
    part = _part_of(case, case.partition, batch_id)
    return part is not None and part.state is PartState.DELETED


def enlisted_parts(case: Case, batch_id: bytes) -> dict[int, EnlistedPart]:
    """The parts that this partition has enlisted of a batch whose home it is."""
    rows = case.store.scan(case.partition, Space.BATCH_ENLISTED, start=batch_id, end=after_prefix(batch_id))
    return {key_partition(key): decode_enlisted(value) for key, value in rows}


def _part(case: Case, key: bytes, value: bytes) -> None:
    part, home = decode_part(value), _home(case, key)
    if part.state is PartState.DELETED or not case.knows(home):
        return
    if _row(case, key) is None or case.store.get(home, Space.BATCH_ENLISTED, enlisted_key(key, case.partition)) is None:
        raise DataDamaged(f"The home of batch {uuid_text(key)} knows nothing of it: it would be complete too early.")


def _enlisted(case: Case, key: bytes, value: bytes) -> None:
    told, partition = decode_enlisted(value), key_partition(key)
    batch_id = key[:_ID_BYTES]
    row = _row(case, batch_id)
    if len(key) != _ENLISTED_BYTES or _home(case, batch_id) != case.partition or row is None:
        raise DataDamaged("There is no batch here that it belongs to.")
    if row.deleted_at or not case.knows(partition):
        return
    part = _part_of(case, partition, batch_id)
    if told.state > (PartState.OPEN if part is None else part.state):
        raise DataDamaged(f"Partition {partition} has not closed its part, yet home says so.")
    if told.final is not None and _lasting(told.final) != _lasting(_counted(case, partition, batch_id)):
        raise DataDamaged(f"Partition {partition} counts otherwise than it reported.")


def _report(case: Case, key: bytes, _: bytes) -> None:
    part = _part_of(case, case.partition, key)
    if part is None or not is_final(part, _counted(case, case.partition, key)):
        raise DataDamaged(f"The part of batch {uuid_text(key)} is not closed, or something of it is pending.")


def _closing(case: Case, key: bytes, _: bytes) -> None:
    row = _row(case, key)
    if row is not None and not row.sealed_at and not row.deleted_at:
        raise DataDamaged(f"Batch {uuid_text(key)} is neither sealed nor deleted.")


def _home(case: Case, batch_id: bytes) -> int:
    return partition_of(uuid_text(batch_id), case.deed.partition_count)


def _row(case: Case, batch_id: bytes) -> BatchRow | None:
    value = case.store.get(_home(case, batch_id), Space.BATCH, batch_id)
    return None if value is None else decode_batch(value)


def _part_of(case: Case, partition: int, batch_id: bytes) -> BatchPart | None:
    value = case.store.get(partition, Space.BATCH_PART, batch_id)
    return None if value is None else decode_part(value)


def _counted(case: Case, partition: int, batch_id: bytes) -> Counts:
    value = case.store.get(partition, Space.BATCH_COUNT, batch_id)
    return NOTHING if value is None else bound_only(decode_counts(value))


def _lasting(counts: Counts) -> Counts:
    """Without what changes after the end: messages that others sent first, and the time, at home that of other items too."""
    return msgspec.structs.replace(counts, active_at=0, duplicates_waiting=0)


def examine_rounds(case: Case) -> None:
    examine_entries(case, Space.CONSIGNMENT_ROUND, "round", partial(_round, case))
    examine_entries(case, Space.PREPARED, "prepared consignment", partial(_prepared, case))
    examine_entries(case, Space.STAGED_PART, "part of a parcel", partial(_staged_part, case))


def _round(case: Case, key: bytes, value: bytes) -> None:
    row, consignment = decode_round(value), consignment_row(case, key)
    if len(key) != _ID_BYTES or consignment_home(case, key) != case.partition or consignment is None:
        raise DataDamaged("There is no consignment here that it belongs to.")
    if (row.phase in _DECIDED) != (consignment.state is ConsignmentState.COMMITTED):
        raise DataDamaged(f"It is {row.phase.value}, but its consignment is {consignment.state.value}.")
    for partition in filter(case.knows, row.missing):
        held = _prepared_in(case, partition, key)
        if held is None or held.round != row.number:
            raise DataDamaged(f"It is decided, but partition {partition} has not prepared it: messages are lost.")


def _prepared(case: Case, key: bytes, value: bytes) -> None:
    row, what = decode_prepared(value), f"prepared consignment {uuid_text(key)}"
    missing = [] if row.applied else [run for run in row.runs if not is_staged(case, StagedRun(case.partition, run))]
    if missing:
        raise DataDamaged(f"{len(missing)} of its runs are not there, first {missing[0]}.")
    if not case.knows(consignment_home(case, key)):
        return
    at_home = _round_of(case, key)
    if consignment_row(case, key) is not None and (at_home is None or at_home.number < row.round):
        raise DataDamaged(f"Home knows nothing of round {row.round}: a hold without a round.")
    if row.applied and (at_home is None or at_home.number != row.round or at_home.phase not in _DECIDED):
        raise DataDamaged(f"It is applied, but round {row.round} was never decided.")
    if at_home is None or at_home.number > row.round or at_home.phase is RoundPhase.ENDED:
        case.note(what, "Its round is over: what it holds is let go when the shard is opened.")


def _staged_part(case: Case, key: bytes, value: bytes) -> None:
    consignment, part = key[:_ID_BYTES], decode_staged_part(value)
    if not case.knows(consignment_home(case, consignment)):
        return
    row = consignment_row(case, consignment)
    if row is None or row.state is not ConsignmentState.OPEN:
        state = "is unknown" if row is None else f"was {row.state.value}"
        detail = f"Its consignment {state}: what is left of it goes when the shard is opened."
        case.note(f"part of consignment {uuid_text(consignment)}", detail)
    elif not is_staged(case, StagedRun(case.partition, part.identity)):
        raise DataDamaged(f"Its run {part.identity} is not there.")


def _prepared_in(case: Case, partition: int, consignment: bytes) -> PreparedRow | None:
    value = case.store.get(partition, Space.PREPARED, consignment)
    return None if value is None else decode_prepared(value)


def _round_of(case: Case, consignment: bytes) -> RoundRow | None:
    value = case.store.get(consignment_home(case, consignment), Space.CONSIGNMENT_ROUND, consignment)
    return None if value is None else decode_round(value)
