"""The progress of a batch by recipient: the states of the messages bound to it, as their mailboxes show them.

Progress is computed, not stored. The stretches of the batch say which messages are its own, the directories of the segments
say which recipients have some of them, and heads and change records give their states. Messages past their retention have
left their mailboxes, and so this view; the counts of the batch still include them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.calls.batches import ReadProgress
from restante.errors import DataDamaged, InvalidRequest
from restante.hub.batches.batch_counts import home_of
from restante.hub.batches.batch_parts import unknown
from restante.hub.batches.batches import check_id
from restante.hub.batches.memory import BoundMemory
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.damage import tell_once
from restante.hub.engine.partitions import Partition
from restante.hub.engine.row_reads import read_records
from restante.hub.mailboxes.history import fates_of, records_of
from restante.hub.mailboxes.mailbox import Chunk, look
from restante.hub.mailboxes.message_columns import STATES, WAITING
from restante.hub.mailboxes.overview import Overview, overview
from restante.model.access.access import Grant, may_see
from restante.model.batches.batch import check_visible, decode_batch
from restante.model.batches.batch_answers import ProgressPage, RecipientProgress
from restante.model.batches.bound_stretches import BatchSpans
from restante.model.columns.arrays import Mask
from restante.model.columns.arrow import column_of, strings_of
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import page_size
from restante.model.publishing.message import NEVER, State
from restante.model.shards.batch_parts import decode_part
from restante.model.storage.catalog import DrawerPlace
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.changes import Space
from restante.model.storage.head import Apart, Head
from restante.model.storage.keys import Cabinet
from restante.model.storage.run import drawer_of_rows

_COLLECTED = STATES.index(State.COLLECTED)
_SET_ASIDE = STATES.index(State.SET_ASIDE)
_NAMES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class BatchBound:
    """The messages of a batch in one partition."""

    items: BatchSpans
    duplicates: BatchSpans

    @staticmethod
    def of(core: Core, partition: int, batch: bytes) -> BatchBound | None:
        """The messages of a batch in a partition; None if it has none there."""
        known = core.memory(BoundMemory).of(partition)
        bound = BatchBound(known.items.of(batch), known.duplicates.of(batch))
        return bound if len(bound.items) or len(bound.duplicates) else None


def progress(core: Core, call: ReadProgress, caller: Grant) -> ProgressPage:
    """A page of recipients by partition and name; with `waiting` only those with messages left to collect.

    Waiting messages that the batch has duplicates of count too, so a repeated run shows who is late.
    """
    batch_id, waiting = visible_batch(core, call, caller), call.waiting
    size = page_size(call.limit)
    begin, name = (0, "") if call.after is None else _parse_token(call.after)
    found: list[tuple[int, RecipientProgress]] = []
    with core.pins.reading():
        for memory in core.partitions[begin:]:
            beyond = name if memory.number == begin else ""
            for entry in _of_partition(core, memory, batch_id, waiting=waiting, after=beyond):
                if len(found) == size:
                    return _page(found, more=True)
                found.append((memory.number, entry))
    return _page(found, more=False)


def visible_batch(core: Core, call: ReadProgress, caller: Grant) -> bytes:
    """The id of the requested batch. Raises if the caller may not see the batch."""
    batch_id = check_id(call.batch_id)
    if home_of(core, batch_id) not in core.owned:
        _check_part(core, batch_id, caller)
        return batch_id
    value = core.store.get(home_of(core, batch_id), Space.BATCH, batch_id)
    check_visible(None if value is None else decode_batch(value), batch_id, caller)
    return batch_id


def _check_part(core: Core, batch_id: bytes, caller: Grant) -> None:
    """Check access to a batch whose home is another shard: this shard knows its owner if it has messages of it."""
    value = core.store.get(core.owned.start, Space.BATCH_PART, batch_id)
    if value is not None and not may_see(caller, decode_part(value).owner):
        raise unknown(batch_id)


def _page(found: list[tuple[int, RecipientProgress]], *, more: bool) -> ProgressPage:
    recipients = tuple(entry for _, entry in found)
    return ProgressPage(recipients=recipients, next=_token(*found[-1]) if more else None)


def _token(partition: int, entry: RecipientProgress) -> str:
    return base64.urlsafe_b64encode(f"{partition}:{entry.recipient}".encode()).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str]:
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        partition, _, name = text.partition(":")
        if not (partition.isascii() and partition.isdecimal() and len(partition) <= 6 and name):
            raise ValueError(text)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"after must be the `next` of the page before, not {token!r}.", parameter="after"
        ) from error
    return int(partition), name


def _of_partition(
    core: Core, memory: Partition, batch: bytes, *, waiting: bool, after: str
) -> Iterator[RecipientProgress]:
    now, bound = core.clock(), BatchBound.of(core, memory.number, batch)
    if bound is None:
        return
    names = _names(core, memory, bound, waiting=waiting, after=after)
    for start in range(0, len(names), _NAMES_AT_ONCE):
        for name in strings_of(names.slice(start, _NAMES_AT_ONCE)):
            try:
                entry = progress_of(core, core.locate(name), bound, now)
            except DataDamaged as error:
                tell_once(memory, f"The progress of some recipients of partition {memory.number}", error)
                continue
            if has_waiting(entry) or (not waiting and (entry.collected or entry.expired or entry.withdrawn)):
                yield entry


def has_waiting(entry: RecipientProgress) -> bool:
    return bool(entry.waiting or entry.set_aside or entry.duplicates_waiting)


def _names(core: Core, memory: Partition, bound: BatchBound, *, waiting: bool, after: str) -> pa.StringArray:
    """The recipients after `after`, in order, that have messages of the batch."""
    seen = overview(core, memory)
    drawers = touched_drawers(core, seen, bound.items) | touched_drawers(core, seen, bound.duplicates)
    if waiting:
        drawers &= may_wait(seen)
    names = pc.unique(seen.recipients.filter(column_of(drawers)))
    names = names.filter(pc.greater(names, pa.scalar(after)))
    ordered: pa.StringArray = names.take(pc.sort_indices(names))
    return ordered


def touched_drawers(core: Core, seen: Overview, spans: BatchSpans) -> Mask:
    """Which drawers have a row in these stretches. Rows are read only in segments with drawers partly inside one."""
    touched, whole = spans.touching(seen.first, seen.last)
    unsure = touched & ~whole
    for index in np.unique(seen.segment[unsure]).tolist():
        stored, own = seen.segments[index], np.flatnonzero(unsure & (seen.segment == index))
        try:
            records = read_records(core.store, stored, 0, stored.segment.rows)
        except DataDamaged:
            continue  # `touched` stays set, so these recipients are examined one by one.
        inside = spans.inside(records["place"].astype(np.int64) + stored.base)
        drawer = drawer_of_rows(stored)[inside]
        rows = np.bincount(drawer[drawer >= 0], minlength=len(stored.segment.drawers))
        touched[own] = rows[seen.drawer[own]] > 0
    return touched


def may_wait(seen: Overview) -> Mask:
    """The drawers that reach beyond their cabinet's head, or whose cabinet has messages set aside."""
    head = seen.of_heads([head.head for head in seen.decoded])[seen.rank]
    aside = [any(entry.why is Apart.SET_ASIDE for entry in head.apart) for head in seen.decoded]
    waits: Mask = (seen.last > head) | (seen.of_heads([int(some) for some in aside])[seen.rank] > 0)
    return waits


@dataclass(slots=True)
class _Tally:
    """The messages of a batch that one recipient has, counted by state."""

    states: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATES), np.int64))
    oldest: int = NEVER
    duplicates_waiting: int = 0

    def answer(self, recipient: str) -> RecipientProgress:
        counts = dict(zip(STATES, self.states.tolist(), strict=True))
        return RecipientProgress(
            recipient=recipient,
            collected=counts[State.COLLECTED],
            waiting=counts[State.WAITING],
            set_aside=counts[State.SET_ASIDE],
            expired=counts[State.EXPIRED],
            withdrawn=counts[State.WITHDRAWN],
            oldest_waiting=None if self.oldest == NEVER else moment(self.oldest),
            duplicates_waiting=self.duplicates_waiting,
        )


def progress_of(core: Core, address: MailboxAddress, bound: BatchBound, now: int) -> RecipientProgress:
    opened, tally = look(core, address), _Tally()
    for cabinet, places in opened.places.items():
        head, records = opened.head(cabinet), _Records(core, address, cabinet)
        for place in places:
            _add_place(core, tally, bound, place, head, records, now)
    return tally.answer(address.recipient)


class _Records:
    """The change records of a cabinet, read on first use."""

    def __init__(self, core: Core, address: MailboxAddress, cabinet: Cabinet) -> None:
        self._core, self._address, self._cabinet = core, address, cabinet
        self._all: list[tuple[int, ChangeRecord]] | None = None

    def all(self) -> list[tuple[int, ChangeRecord]]:
        if self._all is None:
            self._all = records_of(self._core, self._address, self._cabinet)
        return self._all

    def all_collected(self, place: DrawerPlace) -> bool:
        """Whether all records that overlap the drawer are of collection."""
        others = [record for _, record in self.all() if record.kind is not ChangeKind.COLLECTED]
        return not any(_meets(place, entry.first, entry.last) for record in others for entry in record.ranges)


def _meets(place: DrawerPlace, first: int, last: int) -> bool:
    return first <= place.last and last >= place.first


def _add_place(
    core: Core, tally: _Tally, bound: BatchBound, place: DrawerPlace, head: Head, records: _Records, now: int
) -> None:
    """Count the messages of a drawer, from its directory line if that is enough, else row by row."""
    first, last = np.array([place.first]), np.array([place.last])
    (items,), (whole,) = bound.items.touching(first, last)
    (duplicates,), _ = bound.duplicates.touching(first, last)
    if not items and not duplicates:
        return
    state = _state_of(place, head, records, now) if whole and not duplicates else None
    if state is None:
        _add_rows(core, tally, bound, place, head, records.all(), now)
        return
    tally.states[state] += place.count
    if state == WAITING:
        tally.oldest = min(tally.oldest, int(place.stored.segment.drawers["earliest_published"][place.drawer]))


def _state_of(place: DrawerPlace, head: Head, records: _Records, now: int) -> int | None:
    """The common state of all messages of a drawer, if that is known without reading them; else None."""
    if any(_meets(place, entry.first, entry.last) for entry in head.apart):
        return None
    if place.first > head.head:
        return WAITING if place.earliest_expiry > now else None
    collected = head.forgotten < place.first and place.last <= head.head
    return _COLLECTED if collected and records.all_collected(place) else None


def _add_rows(
    core: Core,
    tally: _Tally,
    bound: BatchBound,
    place: DrawerPlace,
    head: Head,
    records: list[tuple[int, ChangeRecord]],
    now: int,
) -> None:
    rows = read_records(core.store, place.stored, place.row, place.row + place.count)
    chunk = Chunk.of(place.stored, place.row, rows)
    fates, shown = fates_of(head, records, chunk.numbers, rows["expires_at"], now)
    items = shown & bound.items.inside(chunk.numbers)
    tally.states += np.bincount(fates.state[items], minlength=len(STATES))
    waits = items & (fates.state == WAITING)
    tally.oldest = min(tally.oldest, int(rows["published_at"][waits].min(initial=NEVER)))
    pending = shown & ((fates.state == WAITING) | (fates.state == _SET_ASIDE))
    tally.duplicates_waiting += int((pending & bound.duplicates.inside(chunk.numbers)).sum())
