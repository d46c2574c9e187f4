"""The outbox: notices of dequeued bundles are sent to their origins until these take them, under the same request id."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import RestanteError
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import read_properties
from restante.hub.engine.tasks import Task, guarded
from restante.hub.mailboxes.mailbox import Chunk, chunks, look
from restante.hub.mailboxes.origins import Origins
from restante.model.back_off import back_off
from restante.model.columns.arrow import Column, column_of
from restante.model.columns.text_ids import id_texts
from restante.model.columns.uuids import uuid_texts
from restante.model.mailboxes.bundle import BundleRow
from restante.model.storage.changes import Space
from restante.model.storage.head import in_ranges
from restante.model.storage.keys import Cabinet, key_number, number_key
from restante.model.storage.rows import TEXT_ID, ids_of
from restante.ports.content import DequeuedNotice

_ROUND_SECONDS = 1.0
_PAGE = 100
_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class NoticeRow(msgspec.Struct, frozen=True, array_like=True):
    request_id: bytes
    bundle_id: bytes
    bundle: BundleRow


def put_notice(core: Core, draft: RequestDraft, address: MailboxAddress, bundle_id: bytes, row: BundleRow) -> None:
    """Store a notice for the origin in the commit of the dequeue, if the origin takes notices."""
    port = core.memory(Origins).ports.get(row.origin)
    if port is None or port.dequeued is None:
        return
    notice = NoticeRow(core.new_uuid(), bundle_id, row)
    number = draft.count(address.partition).visible
    draft.put(address.partition, Space.OUTBOX, number_key(number), msgspec.msgpack.encode(notice))
    draft.applies.append(core.memory(Origins).outbox_waits.set)


class Pacing:
    """The pauses of origins that did not take a notice, twice as long after each failure."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    @property
    def failing(self) -> bool:
        return bool(self._failures)

    def is_due(self, origin: str) -> bool:
        return self._monotonic() >= self._not_before.get(origin, -math.inf)

    def note(self, origin: str, *, taken: bool) -> None:
        if taken:
            self._failures.pop(origin, None)
            self._not_before.pop(origin, None)
            return
        failures = self._failures[origin] = self._failures.get(origin, 0) + 1
        pause = back_off(failures, first=_PAUSE_SECONDS, longest=limits.NOTICE_PAUSE_SECONDS_MAX)
        self._not_before[origin] = self._monotonic() + pause


def deliver(core: Core, pacing: Pacing) -> int:
    """Send the waiting notices to their origins; return how many were taken."""
    core.memory(Origins).outbox_waits.clear()
    return sum(_deliver_partition(core, pacing, partition.number) for partition in core.partitions)


def _deliver_partition(core: Core, pacing: Pacing, partition: int) -> int:
    taken, after = 0, b""
    while not core.closing.is_set() and (entries := core.store.scan(partition, Space.OUTBOX, start=after, limit=_PAGE)):
        for key, value in entries:
            notice = packed_decoder(NoticeRow).decode(value)
            if core.closing.is_set() or not pacing.is_due(notice.bundle.origin):
                continue
            told = _tell(core, partition, notice)
            core.memory(Origins).count(failed=not told)
            pacing.note(notice.bundle.origin, taken=told)
            if told:
                core.commit(lambda draft, key=key: draft.delete(partition, Space.OUTBOX, key))  # type: ignore[misc]
                taken += 1
        after = number_key(key_number(entries[-1][0]) + 1)
    return taken


def _tell(core: Core, partition: int, notice: NoticeRow) -> bool:
    row = notice.bundle
    port = core.memory(Origins).ports.get(row.origin)
    if port is None or port.dequeued is None:
        return True
    try:
        port.dequeued(
            DequeuedNotice(
                request_id=uuid_text(notice.request_id),
                bundle_id=uuid_text(notice.bundle_id),
                recipient=row.recipient,
                message_ids=message_ids(core, core.address(row.recipient), row),
            )
        )
    except Exception as error:  # noqa: BLE001  # whatever the origin's function raises, the notice is sent again later
        known = isinstance(error, RestanteError)
        _log.warning(
            "Origin %s did not take a notice (partition %d): %s", row.origin, partition, error if known else repr(error)
        )
        return False
    return True


def message_ids(core: Core, address: MailboxAddress, row: BundleRow) -> tuple[str, ...]:
    """The ids of a bundle's messages."""
    cabinet = Cabinet(row.recipient, row.origin, row.kind)
    ids: list[str] = []
    with core.pins.reading():
        for chunk in chunks(core, look(core, address).places.get(cabinet, []), after=row.first - 1, last=row.last):
            numbers = chunk.numbers
            inside = (numbers >= row.first) & (numbers <= row.last) & ~in_ranges(row.left_out, numbers)
            ids += _ids(core, chunk, inside)
    return tuple(ids)


def _ids(core: Core, chunk: Chunk, inside: NDArray[np.bool_]) -> list[str]:
    """The ids of some rows as their sender knows them. Properties are read only if some ids are texts."""
    words = ids_of(chunk.records)[inside]
    if not (chunk.records["flags"] & TEXT_ID).any():
        return uuid_texts(words)
    stored: Column = read_properties(core.store, chunk.stored, chunk.row, chunk.records).properties_column()
    return id_texts(words, stored.filter(column_of(inside)).cast(pa.binary()))


def _tells_anybody(core: Core) -> bool:
    return any(port.dequeued is not None for port in core.memory(Origins).ports.values())


def _deliver_always(core: Core) -> None:
    pacing, waits = Pacing(), core.memory(Origins).outbox_waits
    waits.set()
    while not core.closing.is_set():
        # While an origin fails, each round scans all its waiting notices in vain, so rounds must not come more often.
        (core.closing if pacing.failing else waits).wait(_ROUND_SECONDS)
        if not core.closing.is_set():
            guarded(core, partial(deliver, pacing=pacing))


TASK = Task(
    "outbox",
    _deliver_always,
    wake=lambda core: core.memory(Origins).outbox_waits.set(),
    is_wanted=_tells_anybody,
    waits_outside=True,
    component="origins",
)
