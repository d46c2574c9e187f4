"""Expiry: settles messages past their time, even in mailboxes that are never peeked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from restante.errors import DataDamaged
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.partitions import Partition
from restante.hub.engine.row_reads import read_records
from restante.hub.removal.memory import Expiries, RemovalMemory
from restante.hub.removal.removal import expire_cabinets
from restante.model.publishing.message import NEVER
from restante.model.storage.keys import Cabinet
from restante.model.storage.run import StoredSegment

_CABINETS_AT_ONCE = 200


def expire(core: Core) -> int:
    """Settle all expired messages; return how many."""
    return sum(_expire_partition(core, partition) for partition in core.partitions)


def _expire_partition(core: Core, partition: Partition) -> int:
    now, settled = core.clock(), 0
    passed_over: set[Cabinet] = set()
    with core.pins.reading():
        memory = core.memory(RemovalMemory)
        known = memory.expiries_of(partition.number)
        due = [(stored, _due(known, stored, now)) for run in partition.runs for stored in run.segments]
        cabinets = {cabinet: None for stored, drawers in due for cabinet in _cabinets(stored, drawers)}
        addresses = [(_address(core, cabinet), cabinet) for cabinet in cabinets]
        for start in range(0, len(addresses), _CABINETS_AT_ONCE):
            count, stale = expire_cabinets(core, addresses[start : start + _CABINETS_AT_ONCE], now)
            settled += count
            passed_over |= stale
        for stored, drawers in due:
            done = [drawer for drawer in drawers if Cabinet(*stored.segment.cabinet(drawer)) not in passed_over]
            _note_next(core, known, stored, done, now)
        memory.keep_expiries(partition.number, {stored.blob.number for stored, _ in due})
    return settled


def _due(known: Expiries, stored: StoredSegment, now: int) -> list[int]:
    """The drawers of a segment with messages that have expired since the drawers were last examined."""
    expiries = known.get(stored.blob.number)
    if expiries is None and stored.earliest_expiry is not None and stored.earliest_expiry > now:
        return []
    if expiries is None:
        expiries = stored.segment.drawers["earliest_expiry"]
        stored.earliest_expiry = int(expiries.min())
    return list(np.flatnonzero((expiries <= now) & (stored.segment.drawers["count"] > 0)).tolist())


def _cabinets(stored: StoredSegment, drawers: list[int]) -> Iterator[Cabinet]:
    return (Cabinet(*stored.segment.cabinet(drawer)) for drawer in drawers)


def _address(core: Core, cabinet: Cabinet) -> MailboxAddress:
    return core.locate(cabinet.recipient)


def _note_next(core: Core, known: Expiries, stored: StoredSegment, drawers: list[int], now: int) -> None:
    """Remember when the next message of these drawers expires, so that they need no look until then."""
    if not drawers:
        return
    expiries = known.get(stored.blob.number)
    if expiries is None:
        expiries = stored.segment.drawers["earliest_expiry"].copy()
    for drawer in drawers:
        line = stored.segment.drawers[drawer]
        row = int(line["row"])
        try:
            times = read_records(core.store, stored, row, row + int(line["count"]))["expires_at"]
        except DataDamaged:
            continue
        expiries[drawer] = times[times > now].min(initial=NEVER)
    known[stored.blob.number] = expiries
