"""Stored messages that are bound to batches: the commit that settles one counts it.

Everything but `forget_bindings` runs in the committer's thread, on a draft. Nothing is counted for a batch that was deleted
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from restante.hub.batches.batch_counts import conclude, count, row_of
from restante.hub.batches.batch_parts import is_part_there, report_if_final
from restante.hub.batches.memory import BoundMemory
from restante.hub.engine.core import Core
from restante.hub.engine.plan import Note, RequestDraft
from restante.model.batches.batch import Counts
from restante.model.batches.bound_stretches import BindingRole, Bindings, BoundStretch, Share, binding_key
from restante.model.columns.arrays import Numbers
from restante.model.storage.change import ChangeKind
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key

_ROWS_AT_ONCE = 1_000
_COUNTED_AS = {
    ChangeKind.COLLECTED: "collected",
    ChangeKind.EXPIRED: "expired",
    ChangeKind.WITHDRAWN: "withdrawn",
}


class BoundSoFar(Note):
    """The bindings that a commit changes, by partition."""

    def __init__(self) -> None:
        self.bindings: dict[int, Bindings] = {}
        self.memory = BoundMemory()
        """The memory that `apply` updates; `bind` sets it."""

    def take_over(self, later: BoundSoFar) -> None:
        self.bindings.update(later.bindings)
        self.memory = later.memory

    def apply(self) -> None:
        self.memory.bindings.update(self.bindings)


def bind(core: Core, draft: RequestDraft, partition: int, bindings: Bindings) -> None:
    """Set the bindings of a partition's messages as they are after the commit."""
    note = draft.note(BoundSoFar)
    note.memory = core.memory(BoundMemory)
    note.bindings[partition] = bindings


def binding(core: Core, draft: RequestDraft, partition: int) -> Bindings:
    """The bindings of a partition's messages as a draft sees them."""
    for note in draft.noted(BoundSoFar):
        if partition in note.bindings:
            return note.bindings[partition]
    return core.memory(BoundMemory).of(partition)


def shares_of(core: Core, draft: RequestDraft, partition: int, taken: Sequence[Numbers]) -> tuple[Share, ...]:
    """The shares of batches in a bundle, given its ascending message numbers in parts."""
    known = binding(core, draft, partition)
    return known.shares(np.concatenate(taken)) if known else ()


def count_settled(core: Core, draft: RequestDraft, partition: int, numbers: Numbers, kind: ChangeKind) -> None:
    """Count messages that are settled. Messages set aside are still pending, so setting aside counts nothing."""
    known = binding(core, draft, partition)
    if known and kind in _COUNTED_AS:
        count_shares(core, draft, partition, known.shares(numbers), kind)


def count_shares(core: Core, draft: RequestDraft, partition: int, shares: Sequence[Share], kind: ChangeKind) -> None:
    for batch, items, duplicates in shares:
        if not _is_counted(core, draft, partition, batch):
            continue
        done = msgspec.structs.replace(Counts(duplicates_waiting=-duplicates), **{_COUNTED_AS[kind]: items})
        counted = count(core, draft, partition, batch, done)
        if items and not counted.bound_pending:
            # While messages are pending here, the other partitions need not be read.
            _conclude(core, draft, partition, batch, counted)


def _is_counted(core: Core, draft: RequestDraft, partition: int, batch: bytes) -> bool:
    """Whether a batch still exists, as far as this partition knows."""
    if core.shard is not None:
        return is_part_there(draft, partition, batch)
    return row_of(core, draft, batch) is not None


def _conclude(core: Core, draft: RequestDraft, partition: int, batch: bytes, counted: Counts) -> None:
    """Report, or conclude, a batch of which nothing is pending in a partition."""
    if core.shard is not None:
        report_if_final(core, draft, partition, batch, counted)
    else:
        conclude(core, draft, batch)


def bind_moved(core: Core, draft: RequestDraft, partition: int, old: int, new: int) -> None:
    """Bind a message under its new number, which is the highest so far. Under the old number it never waits again."""
    known = binding(core, draft, partition)
    shares = known.shares(np.array([old], np.int64)) if known else ()
    for batch, items, duplicates in shares:
        if not _is_counted(core, draft, partition, batch):
            continue
        stretch = BoundStretch(new, new, batch)
        if items:
            known = Bindings(known.items.with_next(stretch), known.duplicates)
            put_stretch(draft, partition, BindingRole.ITEM, stretch)
        if duplicates:
            known = Bindings(known.items, known.duplicates.with_more([stretch]))
            put_stretch(draft, partition, BindingRole.DUPLICATE, stretch)
    if shares:
        bind(core, draft, partition, known)


def put_stretch(draft: RequestDraft, partition: int, role: BindingRole, stretch: BoundStretch) -> None:
    key = binding_key(stretch.first, role, stretch.batch)
    draft.put(partition, Space.BATCH_BINDING, key, number_key(stretch.last))


def forget_bindings(core: Core, batch_id: bytes) -> None:
    """Drop the bindings of a deleted batch, in small commits. Not for the committer's thread.

    It may be called again, for example after a crash, until it has completed.
    """
    memory = core.memory(BoundMemory)
    for partition in core.owned:
        keys = memory.of(partition).keys(batch_id)
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            page = keys[start : start + _ROWS_AT_ONCE]
            last = start + _ROWS_AT_ONCE >= len(keys)
            core.commit(partial(_forget_page, core, partition, batch_id, page, last=last))


def _forget_page(
    core: Core, partition: int, batch_id: bytes, keys: Sequence[bytes], draft: RequestDraft, *, last: bool
) -> None:
    for key in keys:
        draft.delete(partition, Space.BATCH_BINDING, key)
    if last:
        bind(core, draft, partition, binding(core, draft, partition).without(batch_id))
