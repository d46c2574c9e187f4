"""Delayed messages are set aside, can be found and taken back, and are published when they are due.

Publishing a due message and deleting its rows is one commit, so after a crash a message is either set aside or published,
never both or neither. On publishing, a message is judged like any other, by recipient and id. If another message with the
same id was stored meanwhile, as a consignment may do, the delayed one is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import numpy as np

from restante import limits
from restante.errors import (
    DataDamaged,
    Fault,
    FaultyMessages,
    MessageConflict,
    Overloaded,
)
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.core import Core, MailboxAddress, Stale
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.tasks import Task, guarded
from restante.hub.publishing.delayed_memory import DelayedMemory, delayed_row
from restante.hub.publishing.identities import Judged, Verdict, judge
from restante.hub.publishing.make_mailbags import arrived
from restante.hub.publishing.publish import large_publish
from restante.hub.publishing.refuse import verdict_faults, whole_refusal
from restante.model.columns.text_ids import id_bytes
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.arrival import Arrivals
from restante.model.publishing.delay import (
    DelayedRow,
    DueKey,
    columns_of,
    decode_delayed,
    delayed_key,
    due_key,
    encode_delayed,
    rows_of,
    size_faults,
)
from restante.model.publishing.message import ACTION_KIND, MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key

_RETRY = 10_000_000
"""Microseconds."""
_log = logging.getLogger(__name__)


def delay_request(core: Core, columns: MessageColumns, partition: int | None) -> Planned[Receipt]:
    """A send that has delayed messages. All of it is set aside; messages due already are published at once."""
    faults = size_faults(columns)
    if faults:
        raise whole_refusal(core, columns, faults, partition)
    arrivals = arrived(core, columns)
    if partition is not None and bool((arrivals.partition != partition).any()):
        raise whole_refusal(core, columns, (), partition)
    return Planned(lambda draft: _plan(core, draft, arrivals))


def _plan(core: Core, draft: RequestDraft, arrivals: Arrivals) -> Receipt:
    memory, now = core.memory(DelayedMemory), core.clock()
    if memory.count + len(arrivals) > limits.DELAYED_MESSAGES_MAX:
        raise Overloaded(f"{memory.count} messages are delayed, and at most {limits.DELAYED_MESSAGES_MAX} may be.")
    judged = judge(core, arrivals, np.array([0, len(arrivals)]), np.ones(len(arrivals), np.bool_))
    _refuse(judged)
    if any(np.isin(arrivals.fingerprint, np.asarray(before, np.uint64)).any() for before in draft.arrived_before()):
        raise Overloaded("The same message is being stored at this moment. Try again.", retry_after=0)
    rows = rows_of(arrivals.columns, now)
    accepted = [_put(draft, arrivals, row, index) for index, row in enumerate(rows) if not judged.verdict[index]]
    kept = [due for due in accepted if due is not None]
    draft.applies.append(lambda: memory.add(kept))
    return Receipt(accepted=len(kept), duplicates=len(rows) - len(kept), partitions=(), delayed=len(kept))


def _refuse(judged: Judged) -> None:
    rows = np.flatnonzero(judged.verdict >= Verdict.CONFLICT)
    if len(rows):
        raise refusal(verdict_faults(judged, rows))


def _put(draft: RequestDraft, arrivals: Arrivals, row: DelayedRow, index: int) -> tuple[int, DueKey] | None:
    """Set a message aside; None if it already was. Raises `MessageConflict` if its id is taken by another one."""
    partition = int(arrivals.partition[index])
    recipient_hash = int(arrivals.recipient_hash[arrivals.columns.recipient.codes[index]])
    key = delayed_key(recipient_hash, row.recipient, row.id)
    known = draft.get(partition, Space.DELAYED, key)
    if known is not None:
        if not decode_delayed(known).is_same(row):
            text = arrivals.columns.id_texts(np.array([index]))[0]
            raise refusal([conflict(index, text)])
        return None
    due = DueKey(row.due, int(arrivals.fingerprint[index]), key, row.kind == ACTION_KIND)
    draft.put(partition, Space.DELAYED, key, encode_delayed(row))
    draft.put(partition, Space.DELAYED_DUE, due.encoded(), due.value)
    return partition, due


def conflict(index: int, text: str) -> Fault:
    return Fault(
        index=index,
        code=MessageConflict.code,
        detail="a delayed message has this recipient and id, and other content: give it another id, or withdraw that one",
        field="id",
        id=text,
    )


def take_back(core: Core, address: MailboxAddress, message_id: str) -> bool:
    """Take a delayed message back; False if there is none."""
    return core.commit(partial(plan_take_back, core, address, message_id))


def plan_take_back(core: Core, address: MailboxAddress, message_id: str, draft: RequestDraft) -> bool:
    """Take a delayed message back. An earlier request of the same commit may have set it aside."""
    key = delayed_key(address.hash, address.recipient, id_bytes(message_id))
    value = draft.get(address.partition, Space.DELAYED, key)
    if value is None:
        return False
    _delete(core, draft, address.partition, due_key(address.hash, decode_delayed(value)))
    return True


def take_back_all(core: Core, address: MailboxAddress) -> int:
    """Delete all delayed messages of a recipient; return how many."""

    def plan(draft: RequestDraft) -> int:
        found = draft.scan_prefix(address.partition, Space.DELAYED, number_key(address.hash))
        own = [row for _, value in found if (row := decode_delayed(value)).recipient == address.recipient]
        for row in own:
            _delete(core, draft, address.partition, due_key(address.hash, row))
        return len(own)

    return core.commit(plan)


def find_delayed(core: Core, address: MailboxAddress, message_id: str) -> DelayedRow | None:
    return delayed_row(core, address.partition, delayed_key(address.hash, address.recipient, id_bytes(message_id)))


def _delete(core: Core, draft: RequestDraft, partition: int, due: DueKey) -> None:
    draft.delete(partition, Space.DELAYED, due.key)
    draft.delete(partition, Space.DELAYED_DUE, due.encoded())
    draft.applies.append(lambda: core.memory(DelayedMemory).remove([(partition, due)]))


# Publishing due messages.


def publish_due(core: Core) -> int:
    """Publish the messages due now, as many as fit into one commit; return how many were handled."""
    memory = core.memory(DelayedMemory)
    due = memory.take_due(core.clock(), limits.DELAYED_AT_ONCE_MAX)
    if not due:
        return 0
    try:
        _publish(core, due)
    except (FaultyMessages, DataDamaged, Stale):
        for one in due:
            _publish_one(core, one)
    except BaseException:
        memory.put_back(due, core.clock() + _RETRY)
        raise
    return len(due)


def _publish_one(core: Core, one: tuple[int, DueKey]) -> None:
    """Publish one delayed message; a failure must not hold up the others."""
    partition, due = one
    try:
        _publish(core, [one])
    except FaultyMessages as error:
        # Another message has the same id, as a consignment can bring about, or the id was erased for good.
        _log.warning("A delayed message of partition %d is dropped: %s", partition, error)
        core.commit(lambda draft: _delete(core, draft, partition, due))
    except Stale:
        core.memory(DelayedMemory).put_back([one], core.clock())
    except Exception as error:  # noqa: BLE001  # one faulty message must not hold up the others
        _log.warning("A delayed message of partition %d is tried again later: %s", partition, error)
        core.memory(DelayedMemory).put_back([one], core.clock() + _RETRY)


def _publish(core: Core, due: Sequence[tuple[int, DueKey]]) -> None:
    found = [(place, row) for place in due if (row := delayed_row(core, place[0], place[1].key)) is not None]
    if not found:
        core.memory(DelayedMemory).remove(due)
        return
    request = large_publish(core, columns_of([row for _, row in found]), None)
    request.beside = _Beside(core, [place for place, _ in found])
    core.submit(request)


class _Beside:
    """Deletes the rows of the published messages in the commit of the publish, if all of them are still there."""

    def __init__(self, core: Core, places: Sequence[tuple[int, DueKey]]) -> None:
        self._core = core
        self._places = places

    def check(self, draft: RequestDraft) -> Exception | None:
        gone = any(draft.get(partition, Space.DELAYED, due.key) is None for partition, due in self._places)
        return Stale() if gone else None

    def plan(self, draft: RequestDraft) -> None:
        for partition, due in self._places:
            draft.delete(partition, Space.DELAYED, due.key)
            draft.delete(partition, Space.DELAYED_DUE, due.encoded())
        memory = self._core.memory(DelayedMemory)
        draft.applies.append(lambda: memory.remove(self._places))


def _run(core: Core) -> None:
    memory = core.memory(DelayedMemory)
    while not core.closing.is_set():
        memory.wait(core.clock)
        while not core.closing.is_set() and guarded(core, publish_due):
            pass


TASK = Task("delayed", _run, wake=lambda core: core.memory(DelayedMemory).wake())
