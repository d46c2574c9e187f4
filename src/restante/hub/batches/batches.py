"""Batches: opening them, adding items, sealing, and reading their state."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
import numpy as np

from restante import limits
from restante.calls.batches import ListBatches, ListPendingItems, OpenBatch
from restante.decoders import packed_decoder
from restante.errors import BatchKeyUsed, BatchUnknown, InvalidRequest, OutcomeUnknown, Unavailable
from restante.hub.batches.acknowledge import Acknowledge
from restante.hub.batches.batch_counts import (
    bell_hash,
    complete,
    conclude,
    count,
    counts_of,
    home_of,
    put_row,
    row_of,
    total_of,
)
from restante.hub.batches.batch_parts import have_closed
from restante.hub.batches.hand_items import GROUPS_A_ROW, HandItems, groups_key, items_of, packed_group
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notices import deliveries
from restante.hub.batches.part_calls import closing, gathering, learning_final
from restante.hub.engine.core import Core, is_text, newest_first, parse_uuid, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import run
from restante.model.access.access import Grant, may_see, owner_of, spaces_of
from restante.model.batches.batch import (
    BatchRow,
    Counts,
    added_up,
    check_count,
    check_key,
    check_known,
    check_open,
    check_usable,
    check_visible,
    decode_batch,
    decode_counts,
    is_completing,
    state_of,
)
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    CompleteBatch,
    Counting,
    ItemGroup,
    ItemGroups,
    PendingPage,
    Sealed,
    is_complete,
    is_counted_elsewhere,
)
from restante.model.batches.items import id_of_request
from restante.model.batches.webhook_rules import check_webhook, new_secret, secret_text
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import page_size
from restante.model.shards.batch_parts import with_unreported
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.partition import partition_of
from restante.ports.counters import Counters

_OWNED = b"\xff\xff"


def check_id(batch_id: str) -> bytes:
    return parse_uuid(batch_id, "The id of a batch")


def open_batch(core: Core, call: OpenBatch, caller: Grant) -> BatchOpened:
    row = new_row(core, call, caller)
    return core.commit(partial(plan_open, core, _id_of(core, call), row, caller))


def _id_of(core: Core, call: OpenBatch) -> bytes:
    if call.batch_id is not None:
        if call.request_id is not None:
            raise InvalidRequest(
                "A batch has the id that is given, or one made from a request_id: not both.", parameter="id"
            )
        return check_id(call.batch_id)
    if call.request_id is None:
        return new_id(core, call.key)
    asked = uuid_text(parse_uuid(call.request_id, "request_id"))
    return check_id(id_of_request(asked, call.key, core.deed.partition_count))


def new_id(core: Core, key: str | None) -> bytes:
    """An id with its home in this hub: the partition of the key, if there is one, so that one shard always has both."""
    wanted = core.owned if key is None else (partition_of(key, core.deed.partition_count),)
    while True:
        made = core.new_uuid()
        if home_of(core, made) in wanted:
            return made


def new_row(core: Core, call: OpenBatch, caller: Grant) -> BatchRow:
    """The row of a new batch. Raises if its options are invalid."""
    if call.key is not None and not is_text(call.key):
        raise InvalidRequest(f"A batch's key must be text, not {call.key!r}.", parameter="key")
    check_key(call.key, unique=call.unique)
    if call.counting is Counting.ESTIMATED:
        counters_of(core)
    if call.notify is not None:
        core.address_anywhere(call.notify)
    networks = core.settings.webhooks.allowed_networks
    url, secret = ("", b"") if call.webhook is None else check_webhook(call.webhook, networks)
    made = call.webhook is not None and not secret
    return BatchRow(
        call.key,
        call.counting,
        core.clock(),
        unique=call.unique,
        webhook_url=url,
        webhook_secret=new_secret(core.random) if made else secret,
        secret_made=made,
        notify=call.notify or "",
        owner=owner_of(caller),
    )


def plan_open(core: Core, batch_id: bytes, row: BatchRow, caller: Grant, draft: RequestDraft) -> BatchOpened:
    value = draft.get(home_of(core, batch_id), Space.BATCH, batch_id)
    if value is not None:
        return _opened(batch_id, _check_same(batch_id, decode_batch(value), row))
    if row.key is not None and not _is_key_elsewhere(core, row):
        if row.unique:
            _check_unique(core, draft, row.key, caller)
        partition, prefix = _key_place(core, row.key, row.owner)
        draft.put(partition, Space.BATCH_KEY, prefix + batch_id, b"")
    put_row(core, draft, batch_id, row)
    draft.applies.append(partial(_count_opened, core))
    return _opened(batch_id, row)


def _is_key_elsewhere(core: Core, row: BatchRow) -> bool:
    """Whether another shard has the batch's key. Raises if the key is to be unique, which this shard cannot decide."""
    if row.key is None or partition_of(row.key, core.deed.partition_count) in core.owned:
        return False
    if row.unique:
        raise InvalidRequest(
            "A batch whose key is to be unique gets its id from the hub: give a request_id instead.", parameter="id"
        )
    return True


def _count_opened(core: Core) -> None:
    core.memory(BatchMemory).opened += 1


def _check_same(batch_id: bytes, stored: BatchRow, proposed: BatchRow) -> BatchRow:
    """The stored row, if the proposal repeats the one that made it, because its answer was lost. Raises otherwise."""
    told = {"opened_at": 0, "webhook_secret": b""} if stored.secret_made and proposed.secret_made else {"opened_at": 0}
    if msgspec.structs.replace(stored, **told) != msgspec.structs.replace(proposed, **told):
        text = uuid_text(batch_id)
        raise InvalidRequest(
            f"Batch {text} was opened before, with other options or by another caller. Propose another id."
        )
    return stored


def _opened(batch_id: bytes, row: BatchRow) -> BatchOpened:
    secret = secret_text(row.webhook_secret) if row.secret_made else None
    return BatchOpened(id=uuid_text(batch_id), key=row.key, state=state_of(row), webhook_secret=secret)


def _check_unique(core: Core, draft: RequestDraft, own_key: str, caller: Grant) -> None:
    """Raise `BatchKeyUsed` if a batch with this key is open."""
    for owner in spaces_of(caller):
        partition, prefix = _key_place(core, own_key, owner)
        for key, _ in draft.scan_prefix(partition, Space.BATCH_KEY, prefix):
            other = uuid_text(key[len(prefix) :])
            raise BatchKeyUsed(
                f"Batch {other} is open with the key {own_key!r}. Seal it first, or choose another key.",
                batch=other,
                key=own_key,
            )


def _key_place(core: Core, key: str, owner: bytes) -> tuple[int, bytes]:
    """The place of the open batches of a key and an owner. No key is long enough to be confused with the `_OWNED` prefix."""
    encoded = key.encode()
    place = len(encoded).to_bytes(2, "big") + encoded
    return partition_of(key, core.deed.partition_count), _OWNED + owner + place if owner else place


def free_key(core: Core, draft: RequestDraft, batch_id: bytes, row: BatchRow) -> None:
    """Free the key of a batch that is no longer open."""
    if row.key is not None and not row.sealed_at and not _is_key_elsewhere(core, row):
        partition, prefix = _key_place(core, row.key, row.owner)
        draft.delete(partition, Space.BATCH_KEY, prefix + batch_id)


def add_items(core: Core, batch_id: bytes, number: int, request_id: str | None, caller: Grant) -> ItemGroups:
    asked = b"" if request_id is None else parse_uuid(request_id, "request_id")
    return core.commit(partial(_plan_add, core, batch_id, number, asked, caller))


def _plan_add(
    core: Core, batch_id: bytes, number: int, request_id: bytes, caller: Grant, draft: RequestDraft
) -> ItemGroups:
    home, row = home_of(core, batch_id), row_of(core, draft, batch_id)
    check_usable(row, batch_id, caller)
    before = draft.get(home, Space.BATCH_REQUEST, batch_id + request_id) if request_id else None
    if before is not None:
        return _added_before(before, number)
    check_open(row, batch_id)
    begin = counts_of(core, draft, home, batch_id).items
    check_count(number, begin)
    items = items_of(core, batch_id)
    _put_group(draft, items, begin)
    count(core, draft, home, batch_id, Counts(items=number))
    if request_id:
        draft.put(home, Space.BATCH_REQUEST, batch_id + request_id, msgspec.msgpack.encode((begin, number)))
    draft.applies.append(partial(items.groups.add, begin))
    return _groups(begin, number)


def _added_before(value: bytes, number: int) -> ItemGroups:
    begin, added = packed_decoder(tuple[int, int]).decode(value)
    if added != number:
        raise InvalidRequest(f"This request_id was used before, to add {added:,} items and not {number:,}.")
    return _groups(begin, added)


def _groups(begin: int, number: int) -> ItemGroups:
    return ItemGroups(groups=(ItemGroup(id=str(begin), upto=number),))


def _put_group(draft: RequestDraft, items: HandItems, begin: int) -> None:
    """Append a group to the last row that has room. A commit may add several groups."""
    row = items.groups.count // GROUPS_A_ROW
    while True:
        value = draft.get(items.home, Space.BATCH_GROUP, groups_key(items.batch_id, row)) or b""
        if len(value) < GROUPS_A_ROW * 8:
            break
        row += 1
    draft.put(items.home, Space.BATCH_GROUP, groups_key(items.batch_id, row), value + packed_group(begin))


def seal(core: Core, batch_id: bytes, caller: Grant) -> Sealed:
    row = core.commit(partial(plan_seal, core, batch_id, caller))
    if core.shard is not None:
        run(core, closing(core, batch_id))
        row = check_known(stored_row(core, batch_id), batch_id)
    if row.counting is Counting.ESTIMATED and not row.completed_at:
        row = settle_estimated(core, batch_id) or row
    return Sealed(complete=bool(row.completed_at))


def plan_seal(core: Core, batch_id: bytes, caller: Grant, draft: RequestDraft) -> BatchRow:
    row = check_usable(row_of(core, draft, batch_id), batch_id, caller)
    if row.sealed_at:
        return conclude(core, draft, batch_id, row) or row
    free_key(core, draft, batch_id, row)
    sealed = msgspec.structs.replace(row, sealed_at=core.clock())
    put_row(core, draft, batch_id, sealed)
    have_closed(core, draft, home_of(core, batch_id), batch_id)
    return conclude(core, draft, batch_id) or sealed


def settle_estimated(core: Core, batch_id: bytes) -> BatchRow | None:
    """Complete an estimated batch if its counter says so. Not for the committer's thread, which must not wait for counters."""
    counted = counters_of(core).total(batch_id)
    return core.commit(partial(_plan_settle, core, batch_id, counted))


def _plan_settle(core: Core, batch_id: bytes, counted: int, draft: RequestDraft) -> BatchRow | None:
    row = row_of(core, draft, batch_id)
    if row is None:
        return None
    total = msgspec.structs.replace(total_of(core, draft, batch_id), acknowledged=counted)
    return complete(core, draft, batch_id, row, total) if is_completing(row, total) else row


def finish(core: Core, request: Acknowledge) -> Acknowledged:
    """Count the named items of estimated batches, in the caller's thread, after the request has been answered."""
    answer = request.answer()
    new, done = answer.acknowledged, list(answer.complete)
    for batch_id, named in request.estimated.items():
        counted = _count(core, batch_id, named)
        new += named
        row = stored_row(core, batch_id)
        if row is not None and row.sealed_at and counted >= _hand_items(core, batch_id):
            row = settle_estimated(core, batch_id)
        if row is not None and row.completed_at:
            done.append(CompleteBatch(id=uuid_text(batch_id), key=row.key))
    core.memory(BatchMemory).items_acknowledged += new - answer.acknowledged
    return Acknowledged(acknowledged=new, complete=tuple(done), unknown=answer.unknown)


def _count(core: Core, batch_id: bytes, named: int) -> int:
    try:
        return counters_of(core).add(batch_id, named)
    except OutcomeUnknown as error:
        unknown = OutcomeUnknown(
            f"{error.message} These items may have been counted: to repeat it may count them twice."
        )
        unknown.retriable = False
        raise unknown from error


def counters_of(core: Core) -> Counters:
    counters = core.memory(BatchMemory).counters
    if counters is None:
        raise InvalidRequest("This hub was opened without counters: open exact batches.")
    return counters


def _hand_items(core: Core, batch_id: bytes) -> int:
    value = core.store.get(home_of(core, batch_id), Space.BATCH_COUNT, batch_id)
    return 0 if value is None else decode_counts(value).items


def status(core: Core, batch_id: bytes, caller: Grant, *, surely: bool = False) -> BatchStatus:
    """The status; `surely` raises `Unavailable` if shards that do not answer could change whether anything is pending."""
    row, total = _snapshot(core, batch_id, caller)
    if row.counting is Counting.ESTIMATED and row.sealed_at and not row.completed_at:
        settle_estimated(core, batch_id)
        row, total = _snapshot(core, batch_id, caller)
    found = _status(core, batch_id, row, total)
    if core.shard is None or found.pending or found.state is not BatchState.SEALED:
        return found
    # Shards have not reported everything yet, so home asks. Counts that it cannot learn now are pending.
    with suppress(Unavailable):
        run(core, learning_final(core, batch_id))
    row, total = _snapshot(core, batch_id, caller)
    shown = total if row.completed_at else with_unreported(total)
    if surely and shown is None and row.counting is Counting.EXACT:
        raise Unavailable(
            f"Batch {uuid_text(batch_id)} is sealed, and some shards have not said yet that nothing more of it comes. Ask again."
        )
    return _status(core, batch_id, row, total if shown is None else shown)


def _snapshot(core: Core, batch_id: bytes, caller: Grant) -> tuple[BatchRow, Counts]:
    """The row of a batch and its total counts, read again if the row changed meanwhile."""
    row = check_visible(stored_row(core, batch_id), batch_id, caller)
    while True:
        total = added_up(counts_by_partition(core, batch_id))
        again = check_known(stored_row(core, batch_id), batch_id)
        if again == row:
            return row, total
        row = again


def stored_row(core: Core, batch_id: bytes) -> BatchRow | None:
    value = core.store.get(home_of(core, batch_id), Space.BATCH, batch_id)
    return None if value is None else decode_batch(value)


def _status(core: Core, batch_id: bytes, row: BatchRow, total: Counts) -> BatchStatus:
    if row.counting is Counting.ESTIMATED:
        counted = total.items if row.completed_at else counters_of(core).total(batch_id)
        total = msgspec.structs.replace(total, acknowledged=counted)
    return BatchStatus(
        id=uuid_text(batch_id),
        key=row.key,
        counting=row.counting,
        state=state_of(row),
        items=total.items + total.added,
        pending=total.pending,
        acknowledged=total.acknowledged,
        collected=total.collected,
        expired=total.expired,
        withdrawn=total.withdrawn,
        duplicates=total.duplicates,
        duplicates_waiting=total.duplicates_waiting,
        opened_at=moment(row.opened_at),
        sealed_at=moment(row.sealed_at) if row.sealed_at else None,
        completed_at=moment(row.completed_at) if row.completed_at else None,
        deliveries=deliveries(core, home_of(core, batch_id), batch_id),
    )


def batches(core: Core, call: ListBatches, caller: Grant) -> BatchPage:
    """A page of batches, newest first, because ids ascend with time."""
    check_key(call.key, unique=False)
    size = page_size(call.limit)
    below = None if call.after is None else parse_uuid(call.after, "after")
    visible = ((batch_id, row) for batch_id, row in stored_batches(core, below=below) if may_see(caller, row.owner))
    found = list(islice((batch_id for batch_id, row in visible if _matches(row, call.state, call.key)), size + 1))
    shown = found[:size]
    answers = []
    for batch_id in shown:
        try:
            answers.append(status(core, batch_id, caller))
        except BatchUnknown:  # Deleted meanwhile.
            continue
    return BatchPage(batches=tuple(answers), next=uuid_text(shown[-1]) if len(found) > size else None)


def _matches(row: BatchRow, state: BatchState | None, key: str | None) -> bool:
    return not row.deleted_at and state in (None, state_of(row)) and key in (None, row.key)


def stored_batches(core: Core, *, below: bytes | None = None) -> Iterator[tuple[bytes, BatchRow]]:
    """All stored batches by descending id, including deleted ones whose rows still exist."""
    return newest_first(core, Space.BATCH, decode_batch, below=below)


def pending_items(core: Core, call: ListPendingItems, caller: Grant) -> PendingPage:
    batch_id = check_id(call.batch_id)
    size, start = page_size(call.limit), _parse_position(call.after)
    row = check_visible(stored_row(core, batch_id), batch_id, caller)
    if row.counting is Counting.ESTIMATED:
        raise InvalidRequest("An estimated batch counts its items and does not know which of them are pending.")
    positions, groups = core.commit(partial(_plan_pending, core, batch_id, start, size + 1))
    shown, text = positions[:size], uuid_text(batch_id)
    items = [
        f"{text}:{group}:{position - group}"
        for position, group in zip(shown.tolist(), groups[:size].tolist(), strict=True)
    ]
    return PendingPage(items=tuple(items), next=str(int(shown[-1]) + 1) if len(positions) > size else None)


def _plan_pending(
    core: Core, batch_id: bytes, start: int, limit: int, draft: RequestDraft
) -> tuple[np.ndarray, np.ndarray]:
    """Look up the pending items in the committer's thread, where nothing changes meanwhile. Later commits show what this one adds."""
    row = check_known(row_of(core, draft, batch_id), batch_id)
    items = items_of(core, batch_id)
    nothing = np.zeros(0, np.int64)
    if row.completed_at:
        return nothing, nothing
    total = _hand_items(core, batch_id)
    positions = items.bits.unset(start, total, limit)
    begins = items.groups.begins
    return positions, begins[np.searchsorted(begins, positions, side="right") - 1] if len(positions) else nothing


def _parse_position(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit()) or len(after) > 13:
        raise InvalidRequest(f"after must be the next of the page before, not {after!r}.", parameter="after")
    return int(after)


def wait(core: Core, batch_id: bytes, seconds: float, caller: Grant) -> BatchStatus | None:
    """Wait until a batch is complete, and return its status; None when the time is up."""
    deadline = time.monotonic() + min(max(seconds, 0), limits.WAIT_SECONDS_MAX)
    rung = threading.Event()
    with core.bell.listening(bell_hash(batch_id), rung.set):
        while not is_complete(found := status(core, batch_id, caller)):
            if core.closing.is_set() or not rung.wait(max(0, deadline - time.monotonic())):
                found = status(core, batch_id, caller) if is_counted_elsewhere(found) else found
                break
            rung.clear()
    return found if is_complete(found) else None


def counts_by_partition(core: Core, batch_id: bytes) -> Sequence[Counts]:
    """The counts of a batch in each partition. Call it at home, and not in the committer's thread."""
    if core.shard is not None:
        return run(core, gathering(core, batch_id))
    places = [EntryKey(p, Space.BATCH_COUNT, batch_id) for p in core.owned]
    found = core.store.get_many(places)
    return [decode_counts(found[place]) for place in places if place in found]
