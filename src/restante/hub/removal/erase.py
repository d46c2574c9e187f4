"""Erase: removes a recipient's messages for good, from history too.

Segments with the recipient's data are written again without it, in all runs, including those kept for the feed. The same
commit deletes the recipient's heads, bundles, contents and change records. Two things remain: a digest of each identity, so
that a repeated publish cannot bring a message back, and one change record for the feed. The store's files are scrubbed of
the remaining bytes soon after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.hub.action_rows.settled_rows import erase_actions
from restante.hub.batches.bound_messages import count_settled
from restante.hub.engine.core import Core, MailboxAddress, Stale
from restante.hub.engine.filing import drop_unreachable
from restante.hub.engine.partitions import Partition, load_run, run_key
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import read_piece
from restante.hub.mailboxes.history import fates_of, records_of
from restante.hub.mailboxes.mailbox import Opened, chunks, look
from restante.hub.removal import scrub
from restante.hub.removal.retention import drop_bundle
from restante.hub.removal.scrub import Erasures
from restante.model.columns.arrays import Numbers, Words
from restante.model.mailboxes.bundle import decode_bundle
from restante.model.publishing.message import ACTION_KIND
from restante.model.removal.erasure import ErasedRow, digests, encode_erased, second_hash
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.head import Apart, NumberRange, apart_of, waiting_mask
from restante.model.storage.keys import Cabinet, cabinet_key, number_key, settlement_key
from restante.model.storage.merge import DrawerStretch, merged
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.run import Run, RunRow, SegmentRow, StoredSegment
from restante.model.storage.segment import Segment, decode
from restante.model.storage.segment_frame import EncodedSegment

_DIGESTS_A_ROW = 1_000


@dataclass(slots=True)
class _Found:
    """The messages and rows that an erasure removes."""

    messages: int = 0
    waiting: int = 0
    ids: list[Words] = field(default_factory=list)
    changes: dict[Cabinet, list[int]] = field(default_factory=dict)
    """The numbers of the change records of each cabinet."""
    ranges: list[NumberRange] = field(default_factory=list)
    pending: list[Numbers] = field(default_factory=list)
    """The messages that wait or are set aside, for each stretch of rows. Batches count them as withdrawn."""


def erase(core: Core, address: MailboxAddress, *, dry_run: bool) -> int:
    """Erase a recipient; return the number of messages that history showed."""
    if dry_run:
        with core.pins.reading():
            return _find(core, look(core, address)).messages
    with core.partitions[address.partition].filing_lock:
        erased = core.look_and_commit(lambda: _erase(core, address))
    drop_unreachable(core)
    return erased


def _find(core: Core, opened: Opened) -> _Found:
    found = _Found()
    for cabinet in opened.cabinets():
        head, records = opened.head(cabinet), records_of(core, opened.address, cabinet)
        found.changes[cabinet] = [number for number, _ in records]
        for chunk in chunks(core, opened.places.get(cabinet, [])):
            numbers = chunk.numbers
            shown = fates_of(head, records, numbers, chunk.records["expires_at"], core.clock())[1]
            found.messages += int(shown.sum())
            waits = waiting_mask(head, numbers)
            found.waiting += int(waits.sum()) if cabinet.kind != ACTION_KIND else 0
            found.pending.append(numbers[waits | (apart_of(head, numbers) == Apart.SET_ASIDE)])
            found.ids.append(chunk.records["id"][shown])
            found.ranges.append(NumberRange(int(numbers[0]), int(numbers[-1])))
    return found


def _erase(core: Core, address: MailboxAddress) -> int:
    """Erase the messages stored now. Messages that arrive meanwhile are in other runs, and stay."""
    partition = core.partitions[address.partition]
    opened = look(core, address)
    found = _find(core, opened)
    visible = [new for run in opened.runs if (new := _without(core, run, address)) is not None]
    feed_runs = [load_run(core.store, partition.number, row) for row in partition.feed_runs]
    feed = [new for run in feed_runs if (new := _without(core, run, address)) is not None]

    def plan(draft: RequestDraft) -> int:
        _remove_rows(core, draft, opened, found)
        for rewritten in (*visible, *feed):
            rewritten.put(draft, partition.number)
        if found.messages:
            _leave_traces(core, draft, address, found)
        for numbers in found.pending:
            count_settled(core, draft, address.partition, numbers, ChangeKind.WITHDRAWN)
        draft.add_waiting(address.partition, -found.waiting)
        draft.add_erasure(address.partition)
        draft.applies.append(lambda: _apply(core, partition, visible, feed))
        scrub.note(core, draft)
        return found.messages

    try:
        return core.commit(plan)
    except BaseException as error:
        blobs = [blob for rewritten in (*visible, *feed) for blob in rewritten.added()]
        core.pins.bury_unless_named(blobs, error)
        raise


def _remove_rows(core: Core, draft: RequestDraft, opened: Opened, found: _Found) -> None:
    """Delete heads, bundles, contents, change records and rows of actions. Raises `Stale` if a head has changed."""
    address = opened.address
    partition, prefix = address.partition, number_key(address.hash)
    cabinets = opened.cabinets()
    for cabinet in cabinets:
        if draft.head(partition, address.hash, cabinet) != opened.head(cabinet):
            raise Stale
        draft.delete(partition, Space.HEAD, cabinet_key(address.hash, cabinet))
        for number in found.changes.get(cabinet, ()):
            draft.delete(partition, Space.CHANGE, number_key(number))
            draft.delete(partition, Space.SETTLEMENT, settlement_key(address.hash, cabinet, number))
    erase_actions(core, draft, address, max((own.last for own in found.ranges), default=0))
    for key, value in draft.scan_prefix(partition, Space.BUNDLE, prefix):
        row = decode_bundle(value)
        # A cabinet that is new since the look has messages that stay, and so do its bundles.
        if Cabinet(row.recipient, row.origin, row.kind) in cabinets:
            drop_bundle(core, draft, partition, key)


def _leave_traces(core: Core, draft: RequestDraft, address: MailboxAddress, found: _Found) -> None:
    """Store digests of the identities, and a change record for the feed."""
    now = core.clock()
    until = now + int(core.settings.collected_retention_seconds * 1_000_000)
    ids = np.concatenate(found.ids)
    known = digests(
        np.full(len(ids), address.hash, np.uint64),
        np.full(len(ids), second_hash(address.recipient, core.deed.key), np.uint64),
        ids,
    )
    ranges = tuple(sorted(found.ranges, key=lambda entry: entry.first))
    record = ChangeRecord(ChangeKind.ERASED, now, address.recipient, "", "", found.messages, ranges)
    number = draft.record(address.partition, address.hash, record)
    for part, start in enumerate(range(0, len(known), _DIGESTS_A_ROW)):
        row = ErasedRow(until, known[start : start + _DIGESTS_A_ROW].tobytes())
        draft.put(address.partition, Space.ERASED, number_key(number) + number_key(part), encode_erased(row))
    partition = core.partitions[address.partition]
    draft.applies.append(lambda: setattr(partition, "erased", partition.erased.with_more(known)))


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A run, and its new row and segments without the erased messages."""

    old: Run
    row: RunRow
    segments: list[Segment]

    def put(self, draft: RequestDraft, partition: int) -> None:
        if self.segments:
            draft.put_run(partition, self.row)
        else:
            draft.delete(partition, Space.RUN, run_key(self.row))

    def added(self) -> list[BlobKey]:
        before = {place.blob for place in self.old.row.segments}
        partition = self.old.segments[0].blob.partition
        return [BlobKey(partition, place.blob) for place in self.row.segments if place.blob not in before]

    def replaced(self) -> list[BlobKey]:
        left = {place.blob for place in self.row.segments}
        return [stored.blob for stored in self.old.segments if stored.blob.number not in left]


def _without(core: Core, run: Run, address: MailboxAddress) -> _Rewritten | None:
    """Write the segments of a run that have the recipient's messages again without them; None if there are none."""
    places: list[SegmentRow] = []
    segments: list[Segment] = []
    for place, stored in zip(run.row.segments, run.segments, strict=True):
        own = _drawers(stored, address)
        if not own.any():
            places.append(place)
            segments.append(stored.segment)
            continue
        for encoded in _encode_without(core, run, stored, own):
            blob = core.partitions[address.partition].take_blob()
            core.store.put_blob(blob, encoded.parts, fence=core.fence)
            places.append(SegmentRow(blob.number, encoded.length, len(encoded.front), encoded.rows))
            segments.append(decode(encoded.front, trusted=True))
    if len(places) == len(run.row.segments) and tuple(places) == run.row.segments:
        return None
    return _Rewritten(run, msgspec.structs.replace(run.row, segments=tuple(places)), segments)


def _drawers(stored: StoredSegment, address: MailboxAddress) -> NDArray[np.bool_]:
    """Which drawers of a segment belong to the recipient."""
    own: NDArray[np.bool_] = stored.segment.recipient_hash == np.uint64(address.hash)
    for drawer in np.flatnonzero(own).tolist():
        own[drawer] = stored.segment.recipients[drawer].as_py() == address.recipient
    return own


def _encode_without(core: Core, run: Run, stored: StoredSegment, own: NDArray[np.bool_]) -> list[EncodedSegment]:
    piece = read_piece(core.store, stored, 0, stored.segment.rows)

    def keep(_: SegmentPiece, drawer: NDArray[np.int64]) -> NDArray[np.bool_]:
        return ~own[drawer]

    return merged([DrawerStretch(stored, 0, len(own))], [piece], run.row.first, keep)


def _apply(core: Core, partition: Partition, visible: Sequence[_Rewritten], feed: Sequence[_Rewritten]) -> None:
    by_identity = {new.row.identity: new for new in visible}
    runs = []
    for run in partition.runs:
        new = by_identity.get(run.row.identity)
        if new is None:
            runs.append(run)
        elif new.segments:
            runs.append(partition.fronts.run(core.store, partition.number, new.row))
    feed_rows = {new.row.identity: new.row for new in feed}
    partition.runs = tuple(runs)
    partition.feed_runs = tuple(
        row for old in partition.feed_runs if (row := feed_rows.get(old.identity, old)).segments
    )
    for forget in core.memory(Erasures).forgetters:
        forget()
    core.pins.bury([blob for new in (*visible, *feed) for blob in new.replaced()])
