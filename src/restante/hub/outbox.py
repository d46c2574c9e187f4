"""The outbox: origins are told of dequeued bundles until they take it, each time under the same request id."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import msgspec

from restante import limits
from restante.errors import RestanteError
from restante.hub.core import Address, Core, uuid_text
from restante.hub.mailbox import chunks, look
from restante.hub.planning import Draft
from restante.model.bundle import BundleRow
from restante.model.changes import Space
from restante.model.head import in_ranges
from restante.model.keys import Cabinet, key_number, number_key
from restante.model.uuids import uuid_texts
from restante.ports.content import DequeuedNotice

_PAGE = 100
_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class NoticeRow(msgspec.Struct, frozen=True, array_like=True):
    request_id: bytes
    bundle_id: bytes
    bundle: BundleRow


def put_notice(core: Core, draft: Draft, address: Address, bundle_id: bytes, row: BundleRow) -> None:
    """Remember, in the commit of the dequeue itself, that the origin is to be told, if it wants to know."""
    port = core.origins.get(row.origin)
    if port is None or port.dequeued is None:
        return
    notice = NoticeRow(core.new_uuid(), bundle_id, row)
    number = draft.count(address.partition).visible
    draft.put(address.partition, Space.OUTBOX, number_key(number), msgspec.msgpack.encode(notice))
    draft.applies.append(core.outbox_waits.set)


class Pacing:
    """Origins that did not take a notice are left alone for a while, twice as long after each failure."""

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
        pause = min(_PAUSE_SECONDS * 2 ** min(failures - 1, 16), limits.NOTICE_PAUSE_SECONDS_MAX)
        self._not_before[origin] = self._monotonic() + pause


def deliver(core: Core, pacing: Pacing) -> int:
    """Tell the origins what waits to be told; gives how many notices were taken."""
    core.outbox_waits.clear()
    return sum(_deliver_partition(core, pacing, partition.number) for partition in core.partitions)


def _deliver_partition(core: Core, pacing: Pacing, partition: int) -> int:
    taken, after = 0, b""
    while not core.closing.is_set() and (entries := core.store.scan(partition, Space.OUTBOX, start=after, limit=_PAGE)):
        for key, value in entries:
            notice = msgspec.msgpack.decode(value, type=NoticeRow)
            if core.closing.is_set() or not pacing.is_due(notice.bundle.origin):
                continue
            told = _tell(core, partition, notice)
            pacing.note(notice.bundle.origin, taken=told)
            if told:
                core.commit(lambda draft, key=key: draft.delete(partition, Space.OUTBOX, key))  # type: ignore[misc]
                taken += 1
        after = number_key(key_number(entries[-1][0]) + 1)
    return taken


def _tell(core: Core, partition: int, notice: NoticeRow) -> bool:
    row = notice.bundle
    port = core.origins.get(row.origin)
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
    except Exception as error:  # noqa: BLE001  # whatever the origin's function raises: it is told again later
        known = isinstance(error, RestanteError)
        _log.warning(
            "Origin %s did not take a notice (partition %d): %s", row.origin, partition, error if known else repr(error)
        )
        return False
    return True


def message_ids(core: Core, address: Address, row: BundleRow) -> tuple[str, ...]:
    """The ids of a bundle's messages."""
    cabinet = Cabinet(row.recipient, row.origin, row.kind)
    ids: list[str] = []
    with core.pins.reading():
        for chunk in chunks(core, look(core, address).places.get(cabinet, []), after=row.first - 1, last=row.last):
            numbers = chunk.numbers
            inside = (numbers >= row.first) & (numbers <= row.last) & ~in_ranges(row.left_out, numbers)
            ids += uuid_texts(chunk.records["id"][inside])
    return tuple(ids)
