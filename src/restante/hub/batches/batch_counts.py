"""Changing the counts of a batch in a commit, and recording its completion.

Everything here runs in the committer's thread, on a draft. Each partition has one small row with its counts of a batch,
written by the commit that changes them. The commit that changes the last of them records the completion, once.
"""

from __future__ import annotations

from functools import lru_cache, partial

import msgspec
import numpy as np

from restante import limits
from restante.hub.batches.batch_parts import enlisted_of
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notices import put_notices
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.model.batches.batch import (
    NOTHING,
    BatchRow,
    Counts,
    added_up,
    decode_batch,
    decode_counts,
    encode_batch,
    encode_counts,
    is_completing,
    plus,
)
from restante.model.batches.batch_answers import Counting
from restante.model.shards.batch_parts import total_at_home
from restante.model.storage.change import ChangeKind, ChangeRecord, encode_change
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.keys import number_key
from restante.model.storage.partition import partition_of

_WORDS = np.dtype("<u8")


def home_of(core: Core, batch_id: bytes) -> int:
    """The home partition of a batch."""
    return _home(batch_id, core.deed.partition_count)


@lru_cache(limits.BATCHES_REMEMBERED_MAX)
def _home(batch_id: bytes, partition_count: int) -> int:
    return partition_of(uuid_text(batch_id), partition_count)


def bell_hash(batch_id: bytes) -> int:
    """The hash by which the bell knows a batch."""
    return int.from_bytes(batch_id[8:], "little")


def row_of(core: Core, draft: RequestDraft, batch_id: bytes) -> BatchRow | None:
    """The row of a batch as this draft sees it; None if there is none, or it was deleted."""
    value = draft.get(home_of(core, batch_id), Space.BATCH, batch_id)
    row = None if value is None else decode_batch(value)
    return None if row is None or row.deleted_at else row


def put_row(core: Core, draft: RequestDraft, batch_id: bytes, row: BatchRow) -> None:
    draft.put(home_of(core, batch_id), Space.BATCH, batch_id, encode_batch(row))
    draft.concerns.append(np.array([bell_hash(batch_id)], _WORDS))


def counts_of(core: Core, draft: RequestDraft, partition: int, batch_id: bytes) -> Counts:
    """The counts of one partition as this draft sees them."""
    entry = EntryKey(partition, Space.BATCH_COUNT, batch_id)
    value = draft.pending_value(entry)
    if value is not None:
        return decode_counts(value)
    known = core.memory(BatchMemory).counts.get(entry)
    if known is None:
        stored = core.store.get(*entry)
        known = NOTHING if stored is None else decode_counts(stored)
        _remember(core, entry, known)
    return known


def total_of(core: Core, draft: RequestDraft, batch_id: bytes) -> Counts:
    """The total counts of a batch, at home. With several shards, only the counts that were reported as final."""
    if core.shard is not None:
        home = home_of(core, batch_id)
        return total_at_home(counts_of(core, draft, home, batch_id), enlisted_of(draft, home, batch_id).values())
    return added_up(counts_of(core, draft, partition, batch_id) for partition in core.owned)


def count(core: Core, draft: RequestDraft, partition: int, batch_id: bytes, more: Counts) -> Counts:
    """Add to the counts of a partition; return the new counts. After its last `count` a caller must call `conclude`."""
    counted = plus(counts_of(core, draft, partition, batch_id), msgspec.structs.replace(more, active_at=core.clock()))
    entry = EntryKey(partition, Space.BATCH_COUNT, batch_id)
    draft.put(*entry, encode_counts(counted))
    draft.applies.append(partial(_remember, core, entry, counted))
    return counted


def conclude(core: Core, draft: RequestDraft, batch_id: bytes, row: BatchRow | None = None) -> BatchRow | None:
    """Record the completion of a batch if this draft completes it; return the row, or None if there is no such batch.

    Acknowledgements of an estimated batch are counted elsewhere, for which this thread must not wait, so such a batch is
    examined after the commit.
    """
    row = row or row_of(core, draft, batch_id)
    if row is None or not row.sealed_at or row.completed_at:
        return row
    exact = row.counting is Counting.EXACT
    if exact and counts_of(core, draft, home_of(core, batch_id), batch_id).hand_pending > 0:
        return row  # There is no need to ask the other partitions.
    total = total_of(core, draft, batch_id)
    if not exact and total.items:
        draft.applies.append(partial(core.memory(BatchMemory).work.look_at, batch_id))
        return row
    return complete(core, draft, batch_id, row, total) if is_completing(row, total) else row


def complete(core: Core, draft: RequestDraft, batch_id: bytes, row: BatchRow, total: Counts) -> BatchRow:
    """Complete the batch: put its row with the time, its change record and its notices into the draft."""
    now, home = core.clock(), home_of(core, batch_id)
    done = msgspec.structs.replace(row, completed_at=now)
    put_row(core, draft, batch_id, done)
    record = ChangeRecord(ChangeKind.BATCH_COMPLETED, now, "", "", "", 0, (), batch=batch_id, key=row.key or "")
    draft.put(home, Space.CHANGE, number_key(draft.take_numbers(home, 1)), encode_change(record))
    put_notices(core, draft, home, batch_id, done, total)
    draft.applies.append(partial(_completed, core, batch_id))
    return done


def _completed(core: Core, batch_id: bytes) -> None:
    core.memory(BatchMemory).completed += 1
    core.memory(BatchMemory).work.tidy(batch_id)


def _remember(core: Core, entry: EntryKey, counts: Counts) -> None:
    known = core.memory(BatchMemory).counts
    if len(known) >= limits.BATCHES_REMEMBERED_MAX and entry not in known:
        known.clear()
    known[entry] = counts
