"""Consignments: opening, reading and discarding them, and the upkeep of old ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice

import msgspec

from restante.calls.batches import OpenBatch
from restante.calls.consignments import BeginConsignment, ListConsignments
from restante.errors import Unavailable
from restante.hub.batches import batches
from restante.hub.batches.batch_counts import home_of, row_of
from restante.hub.batches.batch_upkeep import plan_delete
from restante.hub.consignments.stage import blobs_of, stored_row
from restante.hub.consignments.staged_parcels import NOTHING_STAGED, OpenConsignment, StagingRoom
from restante.hub.engine.core import Core, newest_first, parse_uuid, uuid_text
from restante.hub.engine.filing import drop_unreachable
from restante.hub.engine.partitions import run_key
from restante.hub.engine.plan import RequestDraft
from restante.model.access.access import EVERYTHING, Grant, may_see, owner_of, spaces_of
from restante.model.batches.batch import BatchRow
from restante.model.consignments.consignment import (
    ConsignmentRow,
    check_key,
    check_usable,
    check_visible,
    closed,
    consignment_key,
    decode_consignment,
    decode_parcel,
    encode_consignment,
    receipt_of,
)
from restante.model.consignments.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    ConsignmentStatus,
    StagedAttempt,
)
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import page_size
from restante.model.shards.rounds import RoundPhase, RoundRow, decode_round
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.keys import after_prefix, number_key
from restante.model.storage.partition import partition_of
from restante.model.storage.run import RunState, decode_run
from restante.ports.store import StoreReader

_PARCELS_AT_ONCE = 20
_log = logging.getLogger(__name__)


def check_id(consignment_id: str) -> bytes:
    return parse_uuid(consignment_id, "The id of a consignment")


def open_consignment(core: Core, call: BeginConsignment, caller: Grant) -> ConsignmentOpened:
    """Open the consignment of this key: the existing one unless it was discarded, else a new one."""
    key, batch = call.key, call.batch
    check_key(key)
    wish = (BatchWish() if batch else None) if isinstance(batch, bool) else batch
    batch_row = None
    if wish is not None:
        opening = OpenBatch(key=key, webhook=wish.webhook, notify=wish.notify)
        batch_row = batches.new_row(core, opening, caller)
    return core.commit(partial(_plan_open, core, key, batch_row, caller))


def _plan_open(
    core: Core, key: str, batch_row: BatchRow | None, caller: Grant, draft: RequestDraft
) -> ConsignmentOpened:
    for owner in spaces_of(caller):
        before = draft.get(*_key_place(core, key, owner))
        value = None if before is None else draft.get(home_of(core, before), Space.CONSIGNMENT, before)
        row = None if value is None else decode_consignment(value)
        if before is not None and row is not None and row.state is not ConsignmentState.DISCARDED:
            draft.applies.append(partial(touch, core, before))
            return _opened(before, row, created=False)
    own, secret, batch_id = batches.new_id(core, key), None, b""
    if batch_row is not None:
        batch_id = batches.new_id(core, key)
        secret = batches.plan_open(core, batch_id, batch_row, caller, draft).webhook_secret
    row = ConsignmentRow(key, ConsignmentState.OPEN, core.clock(), batch_id, owner=owner_of(caller))
    draft.put(home_of(core, own), Space.CONSIGNMENT, own, encode_consignment(row))
    draft.put(*_key_place(core, key, row.owner), own)
    draft.applies.append(partial(_enter, core, own, row))
    return _opened(own, row, created=True, secret=secret)


def _enter(core: Core, consignment_id: bytes, row: ConsignmentRow) -> None:
    core.memory(StagingRoom).open[consignment_id] = OpenConsignment(row, row.opened_at)
    core.memory(StagingRoom).due = min(core.memory(StagingRoom).due, row.opened_at + _idle(core))


def touch(core: Core, consignment_id: bytes) -> None:
    """Note that a consignment is in use, so that it is not idle."""
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    if consignment is not None:
        consignment.active_at = max(consignment.active_at, core.clock())


def _key_place(core: Core, key: str, owner: bytes) -> tuple[int, Space, bytes]:
    return partition_of(key, core.deed.partition_count), Space.CONSIGNMENT_KEY, consignment_key(key, owner)


def _opened(
    consignment_id: bytes, row: ConsignmentRow, *, created: bool, secret: str | None = None
) -> ConsignmentOpened:
    return ConsignmentOpened(
        id=uuid_text(consignment_id),
        key=row.key,
        state=row.state,
        batch=uuid_text(row.batch) if row.batch else None,
        webhook_secret=secret,
        created=created,
    )


def details(core: Core, consignment_id: bytes, caller: Grant) -> ConsignmentDetails:
    row = check_visible(_found(core, consignment_id), uuid_text(consignment_id), caller)
    staged = core.memory(StagingRoom).open.get(consignment_id)
    attempts = () if staged is None else sorted(dict(staged.attempts).items())
    shown = [
        StagedAttempt(
            writer=attempt.writer,
            attempt=attempt.number,
            parcels=own.parcels,
            messages=own.messages,
            bytes=own.length,
        )
        for attempt, own in attempts
    ]
    return ConsignmentDetails(**msgspec.structs.asdict(_status(core, consignment_id, row)), attempts=tuple(shown))


def usable_row(core: Core, consignment_id: bytes, caller: Grant) -> ConsignmentRow:
    return check_usable(_found(core, consignment_id), uuid_text(consignment_id), caller)


def _found(core: Core, consignment_id: bytes) -> ConsignmentRow | None:
    value = stored_row(core, consignment_id)
    return None if value is None else decode_consignment(value)


def _status(core: Core, consignment_id: bytes, row: ConsignmentRow) -> ConsignmentStatus:
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    staged = NOTHING_STAGED if consignment is None else consignment.staged
    active_at = row.closed_at or (row.opened_at if consignment is None else consignment.active_at)
    return ConsignmentStatus(
        id=uuid_text(consignment_id),
        key=row.key,
        state=row.state,
        batch=uuid_text(row.batch) if row.batch else None,
        opened_at=moment(row.opened_at),
        last_activity_at=moment(active_at),
        closed_at=moment(row.closed_at) if row.closed_at else None,
        staged_messages=staged.messages,
        staged_bytes=staged.length,
        receipt=None if _is_unfinished(core, consignment_id) else receipt_of(row),
    )


def _is_unfinished(core: Core, consignment_id: bytes) -> bool:
    """Whether shards are still carrying out the decision, so that not all numbers are known."""
    row = stored_round(core, consignment_id)
    return row is not None and bool(row.missing)


def stored_round(core: Core, consignment_id: bytes) -> RoundRow | None:
    """The last round of a consignment over several shards."""
    if core.shard is None:
        return None
    value = core.store.get(home_of(core, consignment_id), Space.CONSIGNMENT_ROUND, consignment_id)
    return None if value is None else decode_round(value)


def page(core: Core, call: ListConsignments, caller: Grant) -> ConsignmentPage:
    """A page of consignments, newest first, because ids ascend with time."""
    state, key = call.state, call.key
    if key is not None:
        check_key(key)
    size, below = page_size(call.limit), None if call.after is None else parse_uuid(call.after, "after")
    matching = (
        (consignment_id, row)
        for consignment_id, row in _stored(core, below=below)
        if state in (None, row.state) and key in (None, row.key) and may_see(caller, row.owner)
    )
    found = list(islice(matching, size + 1))
    shown = tuple(_status(core, consignment_id, row) for consignment_id, row in found[:size])
    return ConsignmentPage(consignments=shown, next=shown[-1].id if len(found) > size else None)


def _stored(core: Core, *, below: bytes | None = None) -> Iterator[tuple[bytes, ConsignmentRow]]:
    """All consignments, by descending id."""
    return newest_first(core, Space.CONSIGNMENT, decode_consignment, below=below)


def discard(core: Core, consignment_id: bytes, caller: Grant) -> None:
    """Discard a consignment, so that nothing of it can become visible. Its stored parcels go in slices."""
    core.commit(partial(_plan_discard, core, consignment_id, None, caller))
    tidy(core, consignment_id)


def _plan_discard(
    core: Core, consignment_id: bytes, idle_before: int | None, caller: Grant, draft: RequestDraft
) -> bool:
    """Plan the discard of a consignment; with `idle_before`, only if it has not been used since then."""
    text, home = uuid_text(consignment_id), home_of(core, consignment_id)
    value = draft.get(home, Space.CONSIGNMENT, consignment_id)
    row = check_usable(None if value is None else decode_consignment(value), text, caller)
    if row.state is ConsignmentState.DISCARDED:
        return False
    if row.state is ConsignmentState.COMMITTED:
        raise closed(row, text)
    if core.shard is not None:
        require_no_round(draft, home, consignment_id)
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    if idle_before is not None and (
        consignment is None or consignment.active_at > idle_before or consignment.committing.locked()
    ):
        return False
    gone = msgspec.structs.replace(row, state=ConsignmentState.DISCARDED, closed_at=core.clock())
    draft.put(home, Space.CONSIGNMENT, consignment_id, encode_consignment(gone))
    if row.batch and row_of(core, draft, row.batch) is not None:
        plan_delete(core, row.batch, EVERYTHING, draft)
    draft.applies.append(partial(leave, core, consignment_id))
    return True


def require_no_round(draft: RequestDraft, home: int, consignment_id: bytes) -> None:
    value = draft.get(home, Space.CONSIGNMENT_ROUND, consignment_id)
    if value is not None and decode_round(value).phase is RoundPhase.PREPARING:
        raise Unavailable(f"Consignment {uuid_text(consignment_id)} is being committed. Try again.")


def leave(core: Core, consignment_id: bytes) -> None:
    """Remove a consignment from the open ones."""
    core.memory(StagingRoom).open.pop(consignment_id, None)
    core.memory(StagingRoom).due = min(core.memory(StagingRoom).due, core.clock() + _retention(core))


def tidy(core: Core, consignment_id: bytes) -> None:
    """Drop the staged parcels of a closed consignment. If this fails, it is tried again later."""
    try:
        _drop_parcels(core, consignment_id)
    except Unavailable as error:
        core.memory(StagingRoom).due = 0
        _log.warning("Consignment %s: %s", uuid_text(consignment_id), error)


def tidy_leftovers(core: Core, rows: StoreReader) -> None:
    """Drop parcels of closed consignments whose tidying was interrupted. Called when a hub is opened."""
    for home in core.owned:
        for consignment_id, value in rows.scan(home, Space.CONSIGNMENT):
            staged = partial(rows.scan, home, Space.CONSIGNMENT_PARCEL, start=consignment_id, limit=1)
            closed = decode_consignment(value).state is not ConsignmentState.OPEN
            if closed and staged(end=after_prefix(consignment_id)):
                tidy(core, consignment_id)


def _drop_parcels(core: Core, consignment_id: bytes) -> None:
    home, end = home_of(core, consignment_id), after_prefix(consignment_id)
    scan = partial(core.store.scan, home, Space.CONSIGNMENT_PARCEL, start=consignment_id, end=end)
    while entries := scan(limit=_PARCELS_AT_ONCE):
        core.commit(partial(_plan_drop, core, home, entries))
        drop_unreachable(core)


def _plan_drop(core: Core, home: int, entries: list[tuple[bytes, bytes]], draft: RequestDraft) -> None:
    """Delete some parcels, and those of their runs that are still staged: runs of winners are visible or were rewritten."""
    blobs: list[BlobKey] = []
    for key, value in entries:
        draft.delete(home, Space.CONSIGNMENT_PARCEL, key)
        # With several shards the runs belong to the parts in their partitions, and `prepared.drop_parts` drops them.
        for partition, identity in decode_parcel(value).runs if core.shard is None else ():
            stored = draft.get(partition, Space.RUN, number_key(identity))
            run = None if stored is None else decode_run(stored)
            if run is not None and run.state is RunState.STAGED:
                draft.delete(partition, Space.RUN, run_key(run))
                blobs += blobs_of(partition, run)
    draft.applies.append(lambda: core.pins.bury(blobs))


def keep(core: Core) -> int:
    """Discard idle consignments, forget those closed long ago, finish interrupted tidying; return how many were removed."""
    now = core.clock()
    if now < core.memory(StagingRoom).due:
        return 0
    core.memory(StagingRoom).due, gone = now + min(_idle(core), _retention(core)), 0
    for consignment_id, row in _stored(core):
        if core.closing.is_set():
            return gone
        if row.state is ConsignmentState.OPEN:
            gone += _discard_idle(core, consignment_id, now - _idle(core))
        elif row.closed_at + _retention(core) <= now and not _is_unfinished(core, consignment_id):
            tidy(core, consignment_id)
            core.commit(partial(_plan_forget, core, consignment_id, row))
            gone += 1
        else:
            tidy(core, consignment_id)
        core.memory(StagingRoom).due = min(core.memory(StagingRoom).due, max(_ends(core, consignment_id, row), now + 1))
    return gone


def _ends(core: Core, consignment_id: bytes, row: ConsignmentRow) -> int:
    """When a consignment needs attention next."""
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    if consignment is None:
        return (row.closed_at or core.clock()) + _retention(core)
    return consignment.active_at + _idle(core)


def _discard_idle(core: Core, consignment_id: bytes, before: int) -> bool:
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    if consignment is None or consignment.active_at > before or consignment.committing.locked():
        return False
    discarded = core.commit(partial(_plan_discard, core, consignment_id, before, EVERYTHING))
    if discarded:
        _log.warning("Consignment %s (%s) was idle and is discarded.", uuid_text(consignment_id), consignment.row.key)
        tidy(core, consignment_id)
    return discarded


def _plan_forget(core: Core, consignment_id: bytes, row: ConsignmentRow, draft: RequestDraft) -> None:
    draft.delete(home_of(core, consignment_id), Space.CONSIGNMENT, consignment_id)
    if core.shard is not None:
        draft.delete(home_of(core, consignment_id), Space.CONSIGNMENT_ROUND, consignment_id)
    place = _key_place(core, row.key, row.owner)
    if draft.get(*place) == consignment_id:
        draft.delete(*place)


def _idle(core: Core) -> int:
    return int(core.settings.consignment_idle_seconds * 1_000_000)


def _retention(core: Core) -> int:
    return int(core.settings.consignment_retention_seconds * 1_000_000)
