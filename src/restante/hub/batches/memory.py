"""The memory of batches: counts, totals, and the work for a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from restante.hub.batches.notice_schedule import NoticeSchedule
from restante.model.batches.batch import Counts
from restante.model.batches.bound_stretches import NOTHING_BOUND, Bindings, load_bindings
from restante.model.storage.changes import EntryKey, Space
from restante.ports.counters import Counters
from restante.ports.store import StoreReader
from restante.ports.webhook import PostWebhook


@dataclass(slots=True)
class BoundMemory:
    """The bindings of each partition's messages to batches. The committer's thread replaces them as whole values."""

    bindings: dict[int, Bindings] = field(default_factory=dict)

    def of(self, partition: int) -> Bindings:
        return self.bindings.get(partition, NOTHING_BOUND)


def load_bound(rows: StoreReader, owned: range) -> BoundMemory:
    """The bindings of the partitions of a hub that is being opened."""
    return BoundMemory({number: load_bindings(rows.scan(number, Space.BATCH_BINDING)) for number in owned})


class BatchWork:
    """The batches to be examined, tidied or folded. Methods may be called from any thread."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._lock = threading.Lock()
        self._to_look_at: set[bytes] = set()
        self._to_tidy: set[bytes] = set()
        self._to_fold: set[bytes] = set()
        self.folding = threading.Lock()
        """Held during a fold, because of two concurrent folds of a batch one could store older bits last."""

    def look_at(self, batch_id: bytes) -> None:
        """Note that an estimated batch may be complete."""
        with self._lock:
            self._to_look_at.add(batch_id)
        self.wanted.set()

    def tidy(self, batch_id: bytes) -> None:
        """Note that a batch is complete or deleted, so that rows needed only for counting can go."""
        with self._lock:
            self._to_tidy.add(batch_id)
        self.wanted.set()

    def fold(self, batch_id: bytes) -> None:
        """Note that a batch has enough entries to be folded."""
        with self._lock:
            self._to_fold.add(batch_id)
        self.wanted.set()

    def take(self) -> tuple[set[bytes], set[bytes], set[bytes]]:
        """Take the batches to be examined, to be tidied, and to be folded."""
        with self._lock:
            taken = (self._to_look_at, self._to_tidy, self._to_fold)
            self._to_look_at, self._to_tidy, self._to_fold = set(), set(), set()
        return taken


@dataclass(slots=True)
class BatchMemory:
    """The memory of batches of one open hub: counts used last, work, notices to be sent, and totals for metrics."""

    counters: Counters | None = None
    """The counters of estimated batches."""
    post_webhook: PostWebhook | None = None
    counts: dict[EntryKey, Counts] = field(default_factory=dict)
    """The counts used last. Only the committer's thread uses them."""
    due: int = 0
    """The time before which no batch has been idle long enough to be reaped."""
    work: BatchWork = field(default_factory=BatchWork)
    notices: NoticeSchedule = field(default_factory=NoticeSchedule)
    """The schedule of notices of completed batches."""
    needs: list[Callable[[bytes], bool]] = field(default_factory=list)
    """Functions of other subjects that say whether they still need a batch."""
    opened: int = 0
    completed: int = 0
    reaped: int = 0
    items_acknowledged: int = 0
    notices_delivered: dict[str, int] = field(default_factory=dict)
    notices_failed: dict[str, int] = field(default_factory=dict)
    """How many attempts failed, by way, including those that are repeated."""

    def is_kept(self, batch_id: bytes) -> bool:
        """Whether another subject still needs the batch, such as a consignment that will bind messages to it."""
        return any(needs(batch_id) for needs in self.needs)
