"""The doctor on consignments over several shards: rounds at home, what partitions have prepared for them, and parts.

What a shard has not heard of yet is no damage: it asks when it is opened, and does what home says. That is a note.
"""

from __future__ import annotations

from functools import partial

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_consignments import consignment_home, consignment_row, is_staged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.engine.core import uuid_text
from restante.model.consignments.consignment import StagedRun
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.shards.rounds import (
    PreparedRow,
    RoundPhase,
    RoundRow,
    decode_prepared,
    decode_round,
    decode_staged_part,
)
from restante.model.storage.changes import Space

_ID_BYTES = 16
_DECIDED = (RoundPhase.DECIDED, RoundPhase.RECORDED)


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
