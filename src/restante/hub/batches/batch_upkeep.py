"""Upkeep of batches: folding entries that were written ahead, deleting, reaping, and tidying up after them.

Acknowledgements are written ahead, as small entries. *Folding* stores the bits that they changed, then drops the entries.
What must stay true: the stored bits and the entries together give all acknowledgements. Bits are only ever set, so storing
them before the entries are dropped is safe, whenever a fold stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import BatchUnknown, DataDamaged, Unavailable
from restante.hub.batches.batch_counts import home_of, put_row, row_of, total_of
from restante.hub.batches.batch_parts import have_closed, is_being_closed
from restante.hub.batches.batches import (
    counters_of,
    counts_by_partition,
    free_key,
    settle_estimated,
    stored_batches,
    stored_row,
)
from restante.hub.batches.bound_messages import forget_bindings
from restante.hub.batches.hand_items import (
    HandItems,
    HandItemsKnown,
    chunk_key,
    drop_quiet,
    entry_key,
    full_key,
    items_of,
    make_room,
)
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notices import deliveries
from restante.hub.batches.part_calls import closing
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import run
from restante.hub.engine.tasks import Task, guarded
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch import (
    BatchRow,
    added_up,
    check_known,
    check_usable,
    decode_batch,
    encode_batch,
    idle_since,
    is_reapable,
    state_of,
)
from restante.model.batches.batch_answers import BatchState, Counting, Reaped, ReapedBatch
from restante.model.columns.bits import SEGMENT_CHUNKS, chunk_of, is_full
from restante.model.mailboxes.answers import moment
from restante.model.shards.batch_parts import PartState, decode_part
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix, number_key

_WORK_SECONDS = 5.0
_ROWS_AT_ONCE = 1_000
_CHUNKS_AT_ONCE = SEGMENT_CHUNKS
_FOLD_AFTER = 5 * 1_000_000
"""Entries are folded when no item of their batch was acknowledged for this long."""
_QUIET_AFTER = 60 * 1_000_000
"""A batch that is unused for this long leaves memory."""
_LOOK_AGAIN = 600 * 1_000_000
"""A batch that is old enough to be reaped but in use is examined again after this long."""
_COUNTED_SPACES = (Space.BATCH_ACKNOWLEDGED, Space.BATCH_BITS)
"""The spaces of rows that are needed only for counting."""
_OWN_SPACES = (*_COUNTED_SPACES, Space.BATCH_GROUP, Space.BATCH_REQUEST, Space.BATCH_NOTICE)
_log = logging.getLogger(__name__)

Put = tuple[bytes, bytes | None]
"""The key and value of a row of bits; None deletes it."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """The acknowledgements of one batch that a fold stores."""

    items: HandItems
    changed: dict[int, NDArray[np.bool_]]
    upto: int
    size: int


def work(core: Core) -> int:
    """Do the work that commits have noted; return how many batches it concerned."""
    core.memory(BatchMemory).work.wanted.clear()
    looked, tidied, folded = core.memory(BatchMemory).work.take()
    _do_each(core, looked, settle_estimated, again=core.memory(BatchMemory).work.look_at)
    _do_each(core, tidied, tidy, again=core.memory(BatchMemory).work.tidy)
    if core.settings.filing:
        _do_each(core, folded, fold, again=core.memory(BatchMemory).work.fold)
        fold_quiet(core)
    return len(looked) + len(tidied) + len(folded)


def _do_each(
    core: Core, batches: Collection[bytes], work: Callable[[Core, bytes], object], *, again: Callable[[bytes], None]
) -> None:
    """Call `work` for each batch. A batch that fails does not hold up the others, and is tried again later."""
    for batch_id in batches:
        if core.closing.is_set():
            return
        try:
            work(core, batch_id)
        except Unavailable as error:
            _log.warning("Batch %s: %s", uuid_text(batch_id), error)
            again(batch_id)
        except DataDamaged as error:
            _log.error("Batch %s: %s", uuid_text(batch_id), error)


def fold_quiet(core: Core) -> None:
    """Fold the entries of batches at rest, and drop unused batches from memory."""
    now = core.clock()
    resting = core.do_between_commits(partial(_resting, core, now - _FOLD_AFTER))
    _do_each(core, resting, fold, again=core.memory(BatchMemory).work.fold)
    core.do_between_commits(partial(drop_quiet, core, before=now - _QUIET_AFTER))
    core.do_between_commits(partial(make_room, core))


def _resting(core: Core, before: int) -> list[bytes]:
    return [key for key, items in core.memory(HandItemsKnown).items() if items.ahead_bytes and items.used_at < before]


def fold(core: Core, batch_id: bytes) -> None:
    """Store the changed chunks of a batch's bits, slice by slice, then drop the entries that they came from.

    Bits are only ever set, and those in memory are committed, so storing a chunk early is never wrong.
    """
    with core.memory(BatchMemory).work.folding:
        taken = core.do_between_commits(partial(_take, core, batch_id))
        if taken is not None:
            _fold(core, batch_id, taken)


def _fold(core: Core, batch_id: bytes, taken: _Taken) -> None:
    try:
        puts = _puts(core, taken)
        while page := list(islice(puts, _CHUNKS_AT_ONCE)):
            if core.closing.is_set() or not core.commit(partial(_put_bits, core, taken.items, page)):
                return
        _drop_entries(core, taken)
    except BaseException:
        # The set of changed chunks is lost. The entries are still there, so reloading the items finds it again.
        core.do_between_commits(partial(core.memory(HandItemsKnown).pop, batch_id, None))
        raise


def _take(core: Core, batch_id: bytes) -> _Taken | None:
    """Take the changes of a batch. Call it between commits, when the changes in memory are exactly those of the entries."""
    row = stored_row(core, batch_id)
    if row is None or row.completed_at or row.deleted_at:
        return None
    items = items_of(core, batch_id)
    changed, items.bits.changed = items.bits.changed, {}
    return _Taken(items, changed, items.ahead, items.ahead_bytes)


def _puts(core: Core, taken: _Taken) -> Iterator[Put]:
    items = taken.items
    for number, chunks in sorted(taken.changed.items()):
        part = items.bits.segments.get(number, False)
        if part is True or (not isinstance(part, bool) and is_full(part)):
            yield full_key(items.batch_id, number), b""
            prefix = items.batch_id + number_key(number)
            stored = core.store.scan(items.home, Space.BATCH_BITS, start=prefix, end=full_key(items.batch_id, number))
            yield from ((key, None) for key, _ in stored)
        elif not isinstance(part, bool):
            for chunk in np.flatnonzero(chunks).tolist():
                yield chunk_key(items.batch_id, number, chunk), chunk_of(part, chunk)


def _put_bits(core: Core, items: HandItems, page: Sequence[Put], draft: RequestDraft) -> bool:
    row = row_of(core, draft, items.batch_id)
    if row is None or row.completed_at:
        return False
    for key, value in page:
        if value is None:
            draft.delete(items.home, Space.BATCH_BITS, key)
        else:
            draft.put(items.home, Space.BATCH_BITS, key, value)
    return True


def _drop_entries(core: Core, taken: _Taken) -> None:
    """Drop the folded entries. List them before deleting any: once all are gone, their numbers are used again."""
    items = taken.items
    end = entry_key(items.batch_id, taken.upto + 1)
    entries = core.store.scan(items.home, Space.BATCH_ACKNOWLEDGED, start=items.batch_id, end=end)
    for start in range(0, len(entries), _ROWS_AT_ONCE):
        keys = [key for key, _ in entries[start : start + _ROWS_AT_ONCE]]
        core.commit(partial(_delete, items.home, Space.BATCH_ACKNOWLEDGED, keys))
    core.do_between_commits(partial(items.folded, taken.size, len(entries)))


def _delete_rows(core: Core, partition: int, space: Space, prefix: bytes) -> None:
    """Delete rows with this prefix, a slice at a time. No rows may be added meanwhile."""
    end = after_prefix(prefix)
    while page := core.store.scan(partition, space, start=prefix, end=end, limit=_ROWS_AT_ONCE):
        keys = [key for key, _ in page]
        core.commit(partial(_delete, partition, space, keys))


def _delete(partition: int, space: Space, keys: Sequence[bytes], draft: RequestDraft) -> None:
    for key in keys:
        draft.delete(partition, space, key)


def delete(core: Core, batch_id: bytes, caller: Grant) -> None:
    """Delete a batch, which is unknown from then on. Its stored rows go in slices, its last rows at the end."""
    core.commit(partial(plan_delete, core, batch_id, caller))
    if core.shard is not None:
        run(core, closing(core, batch_id))
    try:
        tidy(core, batch_id)
    except Unavailable as error:  # The batch is deleted. Its remaining rows go later, as the commit has noted.
        _log.warning("Batch %s: %s", uuid_text(batch_id), error)


def plan_delete(core: Core, batch_id: bytes, caller: Grant, draft: RequestDraft) -> None:
    row = check_usable(row_of(core, draft, batch_id), batch_id, caller)
    free_key(core, draft, batch_id, row)
    put_row(core, draft, batch_id, msgspec.structs.replace(row, deleted_at=core.clock()))
    have_closed(core, draft, home_of(core, batch_id), batch_id)
    draft.applies.append(partial(_forget, core, batch_id))


def _forget(core: Core, batch_id: bytes) -> None:
    core.memory(HandItemsKnown).pop(batch_id, None)
    core.memory(BatchMemory).work.tidy(batch_id)


def tidy(core: Core, batch_id: bytes) -> None:
    """Drop the rows that a complete or deleted batch no longer needs."""
    if core.shard is not None:
        _tidy_parts(core, batch_id)
        if home_of(core, batch_id) not in core.owned or is_being_closed(core, home_of(core, batch_id), batch_id):
            return
    row = stored_row(core, batch_id)
    if row is None or row.swept or not (row.deleted_at or row.completed_at):
        return
    home = home_of(core, batch_id)
    for space in _OWN_SPACES if row.deleted_at else _COUNTED_SPACES:
        _delete_rows(core, home, space, batch_id)
    if row.counting is Counting.ESTIMATED:
        counters_of(core).forget(batch_id)
    if row.deleted_at:
        forget_bindings(core, batch_id)
        core.commit(partial(_plan_gone, core, batch_id))
    else:
        core.do_between_commits(partial(core.memory(HandItemsKnown).pop, batch_id, None))


def _tidy_parts(core: Core, batch_id: bytes) -> None:
    """Drop the bindings and counts of a deleted batch in a shard's partitions. Its parts stay for a while."""
    values = {partition: core.store.get(partition, Space.BATCH_PART, batch_id) for partition in core.owned}
    if any(value is not None and decode_part(value).state is PartState.DELETED for value in values.values()):
        forget_bindings(core, batch_id)
        for partition in core.owned:
            if partition != home_of(core, batch_id) and core.store.get(partition, Space.BATCH_COUNT, batch_id):
                core.commit(partial(_delete, partition, Space.BATCH_COUNT, [batch_id]))
        core.do_between_commits(partial(_forget_counts, core, batch_id))


def _plan_gone(core: Core, batch_id: bytes, draft: RequestDraft) -> None:
    """Delete the last rows of a batch."""
    for partition in core.owned:
        if draft.get(partition, Space.BATCH_COUNT, batch_id) is not None:
            draft.delete(partition, Space.BATCH_COUNT, batch_id)
    home = home_of(core, batch_id)
    for key, _ in draft.scan_prefix(home, Space.BATCH_ENLISTED, batch_id) if core.shard is not None else ():
        draft.delete(home, Space.BATCH_ENLISTED, key)
    value = draft.get(home, Space.BATCH, batch_id)
    if value is not None:
        draft.put(home, Space.BATCH, batch_id, encode_batch(msgspec.structs.replace(decode_batch(value), swept=True)))
    draft.applies.append(partial(_forget_counts, core, batch_id))


def _forget_counts(core: Core, batch_id: bytes) -> None:
    for entry in [entry for entry in core.memory(BatchMemory).counts if entry.key == batch_id]:
        del core.memory(BatchMemory).counts[entry]


def tidy_leftovers(core: Core) -> int:
    """Tidy complete and deleted batches that a crash left untidied; return how many there were."""
    tidied = 0
    for batch_id, row in stored_batches(core):
        if (row.deleted_at and not row.swept) or (row.completed_at and _has_bits(core, batch_id)):
            tidy(core, batch_id)
            tidied += 1
        elif row.counting is Counting.ESTIMATED and state_of(row) is BatchState.SEALED:
            core.memory(BatchMemory).work.look_at(batch_id)
        if core.closing.is_set():
            break
    return tidied + (_tidy_leftover_parts(core) if core.shard is not None else 0)


def _tidy_leftover_parts(core: Core) -> int:
    deleted = {
        batch_id
        for partition in core.owned
        for batch_id, value in core.store.scan(partition, Space.BATCH_PART)
        if decode_part(value).state is PartState.DELETED
    }
    for batch_id in deleted:
        _tidy_parts(core, batch_id)
    return len(deleted)


def _has_bits(core: Core, batch_id: bytes) -> bool:
    home, end = home_of(core, batch_id), after_prefix(batch_id)
    return any(core.store.scan(home, space, start=batch_id, end=end, limit=1) for space in _COUNTED_SPACES)


def reap_due(core: Core) -> int:
    """Reap if a batch may be due; return how many were reaped. Batches opened or sealed later are due later."""
    now = core.clock()
    if now < core.memory(BatchMemory).due:
        return 0
    patience = _patience(core)
    due = now + min(patience.values())
    for _, row in stored_batches(core):
        idle = idle_since(row, added_up(())) + patience["sealed_for" if row.sealed_at else "open_for"]
        due = min(due, idle if idle > now else now + _LOOK_AGAIN)
    reaped = len(reap(core, dry_run=False).batches)
    core.memory(BatchMemory).due = due
    return reaped


def reap(core: Core, *, dry_run: bool) -> Reaped:
    """Delete the batches that have been unused for long."""
    reaped = []
    for batch_id, row in stored_batches(core):
        if core.closing.is_set():
            break
        if row.swept and not dry_run and row.deleted_at + _patience(core)["sealed_for"] <= core.clock():
            core.commit(partial(_delete, home_of(core, batch_id), Space.BATCH, [batch_id]))
        found = _reapable(core, batch_id, row)
        if found is not None and (dry_run or _reap(core, batch_id)):
            reaped.append(found)
    if core.shard is not None and not dry_run:
        _forget_parts(core)
    return Reaped(batches=tuple(reaped))


def _forget_parts(core: Core) -> None:
    """Delete parts of batches that were deleted long ago. Later requests are answered by the home of the batch."""
    before = core.clock() - _patience(core)["sealed_for"]
    for partition in core.owned:
        parts = [(key, decode_part(value)) for key, value in core.store.scan(partition, Space.BATCH_PART)]
        gone = [key for key, part in parts if part.state is PartState.DELETED and part.closed_at <= before]
        for first in range(0, len(gone), _ROWS_AT_ONCE):
            core.commit(partial(_delete, partition, Space.BATCH_PART, gone[first : first + _ROWS_AT_ONCE]))


def _reapable(core: Core, batch_id: bytes, row: BatchRow) -> ReapedBatch | None:
    if row.deleted_at or not _is_reapable(core, row) or core.memory(BatchMemory).is_kept(batch_id):
        return None
    total = added_up(counts_by_partition(core, batch_id))
    if not is_reapable(row, total, now=core.clock(), **_patience(core)):
        return None
    if any(delivery.next_attempt_at is not None for delivery in deliveries(core, home_of(core, batch_id), batch_id)):
        return None  # A notice is still to be delivered.
    idle = moment(idle_since(row, total))
    return ReapedBatch(id=uuid_text(batch_id), key=row.key, state=state_of(row), idle_since=idle)


def _is_reapable(core: Core, row: BatchRow) -> bool:
    """Whether a batch may be reaped according to its row alone, which saves reading the counts of most batches."""
    return is_reapable(row, added_up(()), now=core.clock(), **_patience(core))


def _patience(core: Core) -> dict[str, int]:
    settings = core.settings
    return {
        "open_for": int(settings.open_batch_retention_seconds * 1_000_000),
        "sealed_for": int(settings.sealed_batch_retention_seconds * 1_000_000),
    }


def _reap(core: Core, batch_id: bytes) -> bool:
    """Delete a batch if it may still be reaped; return whether it was."""
    try:
        reaped = core.commit(partial(_plan_reap, core, batch_id))
    except BatchUnknown:
        return False
    if reaped:
        if core.shard is not None:
            run(core, closing(core, batch_id))
        tidy(core, batch_id)
    return reaped


def _plan_reap(core: Core, batch_id: bytes, draft: RequestDraft) -> bool:
    row = check_known(row_of(core, draft, batch_id), batch_id)
    # With several shards no commit can add up all counts; they were gathered just before.
    total = total_of(core, draft, batch_id) if core.shard is None else added_up(())
    if not is_reapable(row, total, now=core.clock(), **_patience(core)):
        return False
    if core.memory(BatchMemory).is_kept(batch_id):
        return False
    plan_delete(core, batch_id, EVERYTHING, draft)
    draft.applies.append(partial(_count_reaped, core))
    return True


def _count_reaped(core: Core) -> None:
    core.memory(BatchMemory).reaped += 1


def _work_always(core: Core) -> None:
    guarded(core, tidy_leftovers)
    wanted = core.memory(BatchMemory).work.wanted
    while not core.closing.is_set():
        wanted.wait(_WORK_SECONDS)
        if not core.closing.is_set():
            guarded(core, work)


TASK = Task(
    "batches",
    _work_always,
    wake=lambda core: core.memory(BatchMemory).work.wanted.set(),
    component="housekeeping",
)
