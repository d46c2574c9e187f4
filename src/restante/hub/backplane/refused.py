"""One record that could not be stored: looked at, tried again, forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from restante.calls.backplane import DeleteRefusedRecord, ReadRefusedRecord, RepeatRefusedRecord
from restante.errors import DataDamaged, InvalidOperation, NotFound
from restante.hub.backplane.owner import Taken, publish_records
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Functions
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.backplane.backplane_answers import RefusedRecord
from restante.model.backplane.poison import RefusedRow, decode_poison, poison_key, shown
from restante.model.backplane.record import decode_record
from restante.model.mailboxes.answers import Receipt
from restante.model.storage.changes import Space
from restante.ports.backplane import FetchedRecord


def read_refused(core: Core, call: ReadRefusedRecord, caller: Grant) -> RefusedRecord:
    del caller
    return shown(call.partition, call.position, _row(core, call.partition, call.position))


def _row(core: Core, partition: int, position: int) -> RefusedRow:
    check_partition(core, partition)
    value = core.store.get(partition, Space.BACKPLANE_POISON, poison_key(position))
    if value is None:
        raise _none_such(partition, position)
    return decode_poison(value)


def repeat_refused(core: Core, call: RepeatRefusedRecord, caller: Grant) -> Receipt:
    """Store it, and forget in the same commit that it was refused; if it is refused again, all stays as it is."""
    del caller
    content = _row(core, call.partition, call.position).content
    try:
        decoded = decode_record(content)
    except DataDamaged as error:
        raise InvalidOperation(f"It cannot be stored, now or later: {error.message} Forget it.") from error
    taken = Taken(FetchedRecord(call.partition, call.position, content), decoded)
    publish_records(core, [taken], ForgottenRecord(call.partition, call.position))
    assert taken.receipt is not None, "what is stored has a receipt"
    return taken.receipt


def delete_refused(core: Core, call: DeleteRefusedRecord, caller: Grant) -> None:
    del caller
    check_partition(core, call.partition)
    forgotten = ForgottenRecord(call.partition, call.position)

    def plan(draft: RequestDraft) -> None:
        missing = forgotten.check(draft)
        if missing is not None:
            raise missing
        forgotten.plan(draft)

    core.commit(plan)


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """The part of a commit by which a refused record is refused no longer."""

    partition: int
    position: int

    def check(self, draft: RequestDraft) -> Exception | None:
        there = draft.get(self.partition, Space.BACKPLANE_POISON, poison_key(self.position)) is not None
        return None if there else _none_such(self.partition, self.position)

    def plan(self, draft: RequestDraft) -> None:
        draft.delete(self.partition, Space.BACKPLANE_POISON, poison_key(self.position))


def _none_such(partition: int, position: int) -> NotFound:
    return NotFound(f"No record at position {position} of partition {partition} was refused.")


FUNCTIONS: Functions = {
    ReadRefusedRecord: read_refused,
    RepeatRefusedRecord: repeat_refused,
    DeleteRefusedRecord: delete_refused,
}
