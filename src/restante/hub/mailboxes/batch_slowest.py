"""The recipients that have not collected all of a batch, slowest first: by how long their oldest message has waited.

The order is computed for the whole batch from the directories of all partitions, and kept for a few seconds, so that the
pages of one list are of one moment. It is an estimate, because a drawer also has messages of other sends. The counts of each
recipient are exact, and made when its page is read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.calls.batches import ReadProgress
from restante.errors import DataDamaged, InvalidRequest
from restante.hub.engine.core import Core
from restante.hub.engine.damage import tell_once
from restante.hub.engine.partitions import Partition
from restante.hub.mailboxes.batch_progress import (
    BatchBound,
    has_waiting,
    may_wait,
    progress_of,
    touched_drawers,
    visible_batch,
)
from restante.hub.mailboxes.overview import beyond_heads, overview
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import ProgressPage, RecipientProgress
from restante.model.columns.arrow import Column, column_of, strings_of
from restante.model.mailboxes.list_pages import page_size
from restante.model.publishing.message import NEVER

_AGE_MAX = 5_000_000
"""The greatest age of an order, in microseconds."""
_NO_NAMES = pa.array([], pa.string())


@dataclass(slots=True)
class SlowestOrder:
    """The last requested order."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    batch: bytes = b""
    as_of: int = 0
    names: pa.StringArray = field(default_factory=lambda: _NO_NAMES)

    def of(self, core: Core, batch: bytes) -> pa.StringArray:
        """The slowest recipients of a batch. Call it inside `core.pins.reading()`."""
        with self.lock:
            now = core.clock()
            if self.batch != batch or not 0 <= now - self.as_of < _AGE_MAX:
                self.names, self.batch, self.as_of = _ordered(core, batch), batch, now
            return self.names


def slowest(core: Core, call: ReadProgress, caller: Grant) -> ProgressPage:
    """A page of recipients with messages left to collect, the slowest first."""
    batch, size, place = visible_batch(core, call, caller), page_size(call.limit), _place(call.after)
    found: list[RecipientProgress] = []
    with core.pins.reading():
        names = core.memory(SlowestOrder).of(core, batch)
        for entry in _entries(core, batch, names, place):
            place += 1
            found += [] if entry is None else [entry]
            if len(found) == size:
                break
    return ProgressPage(recipients=tuple(found), next=str(place) if place < len(names) else None)


def _place(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdecimal() and len(after) <= 18):
        raise InvalidRequest(f"after must be the `next` of the page before, not {after!r:.80}.", parameter="after")
    return int(after)


def _entries(core: Core, batch: bytes, names: pa.StringArray, place: int) -> Iterator[RecipientProgress | None]:
    """The progress of each recipient from a place on; None for a recipient that has nothing left."""
    now = core.clock()
    for name in strings_of(names.slice(place)):
        address = core.locate(name)
        memory = core.partitions[address.partition]
        bound = BatchBound.of(core, memory.number, batch)
        try:
            entry = None if bound is None else progress_of(core, address, bound, now)
        except DataDamaged as error:
            tell_once(memory, f"The progress of some recipients of partition {memory.number}", error)
            entry = None
        yield entry if entry is not None and has_waiting(entry) else None


def _ordered(core: Core, batch: bytes) -> pa.StringArray:
    """The names of all recipients that may have messages left, by their oldest, then by name."""
    parts = [
        _of_partition(core, memory, bound)
        for memory in core.partitions
        if (bound := BatchBound.of(core, memory.number, batch))
    ]
    names = pa.concat_arrays([name for name, _ in parts]) if parts else _NO_NAMES
    if not len(names):
        return names
    oldest = column_of(np.concatenate([own for _, own in parts]))
    table = pa.table({"oldest": oldest, "name": names})
    order = pc.sort_indices(table, sort_keys=[("oldest", "ascending"), ("name", "ascending")])
    ordered: pa.StringArray = names.take(order)
    return ordered


def _of_partition(core: Core, memory: Partition, bound: BatchBound) -> tuple[Column, NDArray[np.int64]]:
    """The recipients of a partition that may have messages left, and the time of the oldest of each."""
    seen = overview(core, memory)
    waits = (touched_drawers(core, seen, bound.items) | touched_drawers(core, seen, bound.duplicates)) & may_wait(seen)
    beyond = beyond_heads(core, memory, seen)
    published = np.where(beyond.count > 0, beyond.published, seen.published)[waits]
    codes = seen.recipients.filter(column_of(waits)).dictionary_encode()
    oldest = np.full(len(codes.dictionary), NEVER, np.int64)
    np.minimum.at(oldest, np.asarray(codes.indices), published)
    return codes.dictionary, oldest
