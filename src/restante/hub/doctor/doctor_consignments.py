"""The doctor on consignments: whether every staged run belongs to one, and all runs that one has staged are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.engine.core import uuid_text
from restante.model.consignments.consignment import (
    ConsignmentRow,
    StagedRun,
    consignment_key,
    decode_consignment,
    decode_parcel,
    key_parcel,
)
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.shards.rounds import decode_prepared, decode_staged_part
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key
from restante.model.storage.partition import partition_of
from restante.model.storage.run import RunState, decode_run
from restante.ports.store import StoreReader

_ID_BYTES = 16


def staged_runs(store: StoreReader, partitions: range) -> frozenset[StagedRun]:
    """All runs that parcels, their parts in shards, and rounds name. Rows that cannot be read are reported in their partition."""
    named: list[StagedRun] = []
    for partition in partitions:
        for space, runs_of in _NAMING.items():
            for _, value in store.scan(partition, space):
                try:
                    named += runs_of(partition, value)
                except Exception:  # noqa: BLE001  # whatever the bytes are, `examine_consignments` reports them
                    continue
    return frozenset(named)


_NAMING: Mapping[Space, Callable[[int, bytes], Sequence[StagedRun]]] = {
    Space.CONSIGNMENT_PARCEL: lambda _, value: decode_parcel(value).runs,
    Space.STAGED_PART: lambda partition, value: [StagedRun(partition, decode_staged_part(value).identity)],
    Space.PREPARED: lambda partition, value: [StagedRun(partition, name) for name in decode_prepared(value).runs],
}
"""The spaces whose rows name runs that are not visible yet."""


def examine_consignments(case: Case) -> None:
    case.checked.consignments += examine_entries(case, Space.CONSIGNMENT, "consignment", partial(_consignment, case))
    examine_entries(case, Space.CONSIGNMENT_KEY, "consignment key", partial(_key, case))
    examine_entries(case, Space.CONSIGNMENT_PARCEL, "parcel", partial(_parcel, case))


def _consignment(case: Case, key: bytes, value: bytes) -> None:
    row = decode_consignment(value)
    if len(key) != _ID_BYTES or consignment_home(case, key) != case.partition:
        raise DataDamaged("Its key is no id of a consignment that lives in this partition.")
    if bool(row.closed_at) == (row.state is ConsignmentState.OPEN):
        raise DataDamaged(f"It is {row.state.value}, and that does not fit when it was closed.")


def _key(case: Case, key: bytes, value: bytes) -> None:
    row = consignment_row(case, value)
    if row is None or consignment_key(row.key, row.owner) != key:
        raise DataDamaged("No consignment has this key.")


def _parcel(case: Case, key: bytes, value: bytes) -> None:
    row, (attempt, number) = consignment_row(case, key[:_ID_BYTES]), key_parcel(key)
    if row is None:
        raise DataDamaged("There is no consignment that it belongs to.")
    text = uuid_text(key[:_ID_BYTES])
    what = f"parcel {number} of {attempt.writer!r}, attempt {attempt.number}, of consignment {text}"
    if row.state is not ConsignmentState.OPEN:
        case.note(what, f"Its consignment was {row.state.value}: what is left of it goes when the hub is opened.")
        return
    known = [run for run in decode_parcel(value).runs if case.knows(run.partition)]
    missing = [run for run in known if not is_staged(case, run)]
    if missing:
        case.problem(what, f"{len(missing)} of its runs are not there, first {missing[0].identity}.")


def is_staged(case: Case, run: StagedRun) -> bool:
    value = case.store.get(run.partition, Space.RUN, number_key(run.identity))
    return value is not None and decode_run(value).state is RunState.STAGED


def consignment_home(case: Case, consignment_id: bytes) -> int:
    return partition_of(uuid_text(consignment_id), case.deed.partition_count)


def consignment_row(case: Case, consignment_id: bytes) -> ConsignmentRow | None:
    value = case.store.get(consignment_home(case, consignment_id), Space.CONSIGNMENT, consignment_id)
    return None if value is None else decode_consignment(value)
