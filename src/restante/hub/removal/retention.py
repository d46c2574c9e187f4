"""Retention: messages settled long enough ago are forgotten, with their bundles, change records and identities.

Change records are in order of time, so the oldest ones show whose retention ends next. Forgetting is a small change of the
head, after which history no longer shows the messages. Their bytes go when their runs are merged, or rewritten because at
least half of their messages are forgotten.

`FeedHolds` lets a subject delay, for a time, the forgetting of changes that it still has to read from the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import msgspec
import numpy as np

from restante.decoders import packed_decoder
from restante.hub.action_rows.settled_rows import forget_actions
from restante.hub.engine.core import Core
from restante.hub.engine.damage import is_damaged
from restante.hub.engine.filing import drop_unreachable, rewrite
from restante.hub.engine.partitions import Partition, run_key
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.claim_checks import ContentRow
from restante.hub.mailboxes.overview import Overview, overview
from restante.hub.publishing import producers
from restante.hub.removal.memory import RemovalMemory
from restante.model.columns.hashing import text_hash
from restante.model.feed.feed import NumberedRecord
from restante.model.removal.erasure import Erased, decode_erased
from restante.model.storage.change import ChangeKind, ChangeRecord, decode_change
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.head import Apart, Head, with_apart
from restante.model.storage.keys import Cabinet, bundle_key, key_number, number_key, settlement_key
from restante.model.storage.run import Run, RunRow, in_order


@dataclass(slots=True)
class FeedHolds:
    """The subjects that may hold changes back."""

    holders: list[Callable[[int], int | None]] = field(default_factory=list)
    """Functions from a partition to the number up to which a subject has read it; None if it holds nothing back."""


@dataclass(frozen=True, slots=True)
class FeedHold:
    """The changes that are held back in one partition."""

    passed: int | None
    """The number up to which all holders have read; None if nothing is held back."""
    since: int
    """Changes up to this time are no longer held back."""

    def has(self, number: int, at: int) -> bool:
        """Whether a change with this number and time is held back."""
        return self.passed is not None and number > self.passed and at > self.since


def hold_of(core: Core, partition: int) -> FeedHold:
    told = [held(partition) for held in core.memory(FeedHolds).holders]
    passed = min((number for number in told if number is not None), default=None)
    return FeedHold(passed, core.clock() - int(core.settings.groups.hold_seconds * 1_000_000))


_RECORDS_AT_ONCE = 500
_HEADS_AT_ONCE = 1_000
_FORGETTING = (ChangeKind.COLLECTED, ChangeKind.EXPIRED, ChangeKind.WITHDRAWN)


def retain(core: Core) -> int:
    """Forget everything past its retention, and free its space; return the number of messages forgotten."""
    forgotten = 0
    for partition in core.partitions:
        forgotten += forget(core, partition)
        producers.forget(core, partition)
        sweep(core, partition)
    drop_unreachable(core)
    return forgotten


def forget(core: Core, partition: Partition) -> int:
    """Forget the messages whose retention since they were settled is over; return how many."""
    before = core.clock() - int(core.settings.collected_retention_seconds * 1_000_000)
    hold, forgotten = hold_of(core, partition.number), 0
    while True:
        page = core.store.scan(partition.number, Space.CHANGE, limit=_RECORDS_AT_ONCE)
        records = [(key_number(key), decode_change(value)) for key, value in page]
        due = [own for own in records if own[1].at <= before and not hold.has(own[0], own[1].at)]
        if due:
            forgotten += core.commit(lambda draft, due=due: forget_records(core, draft, partition, due))  # type: ignore[misc]
        if len(due) < _RECORDS_AT_ONCE:
            _drop_old_erasures(core, partition)
            return forgotten


def forget_records(
    core: Core, draft: RequestDraft, partition: Partition, due: Sequence[NumberedRecord], *, in_feed: bool = True
) -> int:
    """Forget these records and the messages they settled; return the number of messages. `in_feed`: the feed has the records."""
    forgotten = 0
    for number, record in due:
        cabinet = Cabinet(record.recipient, record.origin, record.message_kind)
        recipient_hash = text_hash(record.recipient, core.deed.key)
        draft.delete(partition.number, Space.CHANGE, number_key(number))
        draft.delete(partition.number, Space.SETTLEMENT, settlement_key(recipient_hash, cabinet, number))
        if in_feed:
            # The messages of the record have lower numbers, so the feed begins after all of them.
            draft.add_feed_gone(partition.number, number)
        if record.kind in _FORGETTING:
            forget_actions(core, draft, partition.number, recipient_hash, record)
        if record.kind in _FORGETTING or record.moved:
            head = draft.head(partition.number, recipient_hash, cabinet)
            draft.put_head(partition.number, recipient_hash, cabinet, forgotten_head(head, record))
            draft.add_forgotten(partition.number, record.ranges[-1].last)
            forgotten += 0 if record.moved else record.count
        if record.bundle_id:
            drop_bundle(core, draft, partition.number, bundle_key(recipient_hash, record.recipient, record.bundle_id))
    draft.applies.append(lambda: core.memory(RemovalMemory).count_forgotten(partition.number, forgotten))
    return forgotten


def forgotten_head(head: Head, record: ChangeRecord) -> Head:
    """The head after forgetting the messages of this record.

    Everything up to the end of a collected bundle was settled no later than the bundle, so the whole stretch is forgotten.
    Messages settled apart are forgotten one by one, until such a stretch covers them.
    """
    if record.kind is ChangeKind.COLLECTED and not record.apart:
        forgotten, apart = max(head.forgotten, record.ranges[-1].last), head.apart
    else:
        forgotten, apart = head.forgotten, with_apart(head.apart, record.ranges, Apart.GONE)
    gone = (Apart.GONE, Apart.MOVED)
    kept = tuple(entry for entry in apart if entry.why not in gone or entry.last > forgotten)
    return msgspec.structs.replace(head, forgotten=forgotten, apart=kept)


def drop_bundle(core: Core, draft: RequestDraft, partition: int, key: bytes) -> None:
    """Delete a bundle and its content."""
    draft.delete(partition, Space.BUNDLE, key)
    content = draft.get(partition, Space.CONTENT, key)
    if content is not None:
        row = packed_decoder(ContentRow).decode(content)
        blobs = [BlobKey(partition, blob) for blob in row.blobs]
        draft.applies.append(lambda: core.pins.bury(blobs))
        draft.delete(partition, Space.CONTENT, key)


def _drop_old_erasures(core: Core, partition: Partition) -> None:
    """Drop digests of erased messages once the messages would have been forgotten."""
    if not len(partition.erased):
        return
    entries = core.store.scan(partition.number, Space.ERASED)
    rows = [(key, decode_erased(value)) for key, value in entries]
    old = [key for key, row in rows if row.until <= core.clock()]
    if not old:
        return
    left = Erased.of([row for key, row in rows if key not in set(old)])

    def plan(draft: RequestDraft) -> None:
        for key in old:
            draft.delete(partition.number, Space.ERASED, key)
        draft.applies.append(lambda: setattr(partition, "erased", left))

    core.commit(plan)


def sweep(core: Core, partition: Partition) -> None:
    """Free the space of forgotten messages: mostly forgotten runs, heads of empty cabinets, old runs of the feed."""
    with partition.filing_lock:
        _drop_feed_runs(core, partition)
    rows = core.memory(RemovalMemory).forgotten_rows
    if not partition.counters.forgotten or not rows.get(partition.number):
        return
    with partition.filing_lock:
        with core.pins.reading():
            seen = overview(core, partition)
        for run in _mostly_forgotten(partition, seen):
            rewrite(core, partition, [run])
        rows[partition.number] = 0
    _drop_idle_heads(core, partition)


def _mostly_forgotten(partition: Partition, seen: Overview) -> list[Run]:
    """The runs at least half of whose rows are forgotten, counted by whole drawers."""
    forgotten = seen.of_heads([head.forgotten for head in seen.decoded])[seen.rank]
    dead = np.where(seen.last <= forgotten, seen.count, 0)
    by_blob = np.bincount(seen.segment, dead, len(seen.segments))
    blobs = {stored.blob.number: int(rows) for stored, rows in zip(seen.segments, by_blob.tolist(), strict=True)}
    return [
        run
        for run in partition.runs
        if not is_damaged(partition, run)
        and 2 * sum(blobs.get(stored.blob.number, 0) for stored in run.segments) >= run.row.rows
    ]


def _drop_idle_heads(core: Core, partition: Partition) -> None:
    """Drop heads of cabinets that have no stored message any more."""
    with core.pins.reading():
        seen = overview(core, partition)
    if any(stored.segment.damaged is not None for stored in seen.segments):
        # Drawers in a damaged directory are not seen, so a head that seems idle may be that of collected mail in them.
        return
    used = np.zeros(seen.ranks, np.bool_)
    used[seen.rank] = True
    idle = np.flatnonzero(~used[seen.head_rank]).tolist()
    entries = [seen.heads[index] for index in idle if seen.decoded[index].open is None]
    for start in range(0, len(entries), _HEADS_AT_ONCE):
        page = entries[start : start + _HEADS_AT_ONCE]
        core.commit(lambda draft, page=page: _delete_unchanged(draft, partition.number, page))  # type: ignore[misc]


def _delete_unchanged(draft: RequestDraft, partition: int, entries: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in entries:
        if draft.get(partition, Space.HEAD, key) == value:
            draft.delete(partition, Space.HEAD, key)


def _drop_feed_runs(core: Core, partition: Partition) -> None:
    """Drop runs kept for the feed that are past its reach, in number order, so that the feed has one start.

    Call it under the filing lock, because the visible runs must not change meanwhile.
    """
    before, hold = core.clock() - int(core.settings.feed_reach_seconds * 1_000_000), hold_of(core, partition.number)
    old = list(
        takewhile(lambda row: row.made_at <= before and not hold.has(row.last, row.made_at), partition.feed_runs)
    )
    if not old:
        return

    def plan(draft: RequestDraft) -> None:
        for row in old:
            draft.delete(partition.number, Space.RUN, run_key(row))
            if not _still_in_order(partition, row):
                draft.add_feed_gone(partition.number, row.last)
        draft.applies.append(lambda: _apply_feed_drop(core, partition, old))

    core.commit(plan)


def _still_in_order(partition: Partition, row: RunRow) -> bool:
    """Whether the feed also finds the messages of a run kept for it in visible runs.

    A visible run that is read in number order has all stored messages of its numbers. Forgotten messages come before the
    start of the feed.
    """
    holding = [run.row for run in partition.runs if run.row.first <= row.last and run.row.last >= row.first]
    return all(in_order(own) for own in holding)


def _apply_feed_drop(core: Core, partition: Partition, old: Sequence[RunRow]) -> None:
    gone = {row.identity for row in old}
    partition.feed_runs = tuple(row for row in partition.feed_runs if row.identity not in gone)
    core.pins.bury([BlobKey(partition.number, segment.blob) for row in old for segment in row.segments])
