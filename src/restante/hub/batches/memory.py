"""The memory of batches, beside what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from restante.hub.batches.batch_work import BatchWork
from restante.hub.batches.notice_schedule import Schedule
from restante.model.batches.batch import Counts
from restante.model.storage.changes import EntryKey
from restante.ports.counters import Counters
from restante.ports.webhook import PostWebhook


@dataclass(slots=True)
class BatchMemory:
    """The batches of one open hub: counts used last, work to be done, notices to be sent, and totals for metrics."""

    counters: Counters | None = None
    """Where estimated batches are counted."""
    post_webhook: PostWebhook | None = None
    counts: dict[EntryKey, Counts] = field(default_factory=dict)
    """The counts of batches used last; only the committer's thread looks here."""
    due: int = 0
    """Before this time no batch has been idle for so long that it may go."""
    work: BatchWork = field(default_factory=BatchWork)
    notices: Schedule = field(default_factory=Schedule)
    """Whom to tell of completed batches, and when."""
    keepers: list[Callable[[bytes], bool]] = field(default_factory=list)
    """Functions of other subjects that say whether they still need the batch of an id."""
    opened: int = 0
    completed: int = 0
    reaped: int = 0
    items_acknowledged: int = 0
    notices_delivered: dict[str, int] = field(default_factory=dict)
    notices_failed: dict[str, int] = field(default_factory=dict)
    """Attempts that failed, whether they are made again or not."""

    def is_kept(self, batch_id: bytes) -> bool:
        """Whether another subject still needs the batch, such as a consignment that will bind messages to it."""
        return any(keeps(batch_id) for keeps in self.keepers)
