"""The hub's door for batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from restante import limits
from restante.errors import InvalidRequest
from restante.hub import batch_keeping, batches, progress
from restante.hub.acknowledging import Acknowledge
from restante.hub.batch_counting import bell_hash
from restante.hub.committer import Request
from restante.hub.core import Core
from restante.model.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    ItemGroups,
    ItemIndices,
    ItemRange,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
    Webhook,
)
from restante.model.items import Call, named


class BatchCalls:
    """What a hub does with batches. Every method may be called from any thread."""

    _core: Core

    def open_batch(
        self,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened:
        return batches.open_batch(
            self._core,
            key=key,
            unique=unique,
            counting=counting,
            webhook=webhook,
            notify=notify,
            batch_id=batch_id,
        )

    def add_items(self, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups:
        return batches.add_items(self._core, batches.check_id(batch_id), count, request_id)

    def seal_batch(self, batch_id: str) -> Sealed:
        return batches.seal(self._core, batches.check_id(batch_id))

    def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged:
        request = Acknowledge(named(items, ranges, indices))
        self._core.submit(request)
        return self.finish(request)

    def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]:
        """Several calls at once, each judged after those before it. A malformed one refuses them all."""
        requests = _requests(calls)
        self._core.committer.submit_each(requests)
        return tuple(self.finish(request) for request in requests)

    def acknowledge_soon(self, calls: Sequence[Call], futures: Sequence[asyncio.Future[Request[Acknowledged]]]) -> None:
        """Acknowledge; each future gets its request, in its own event loop. If that `is_to_be_counted`, finish it."""
        self._core.committer.submit_each_soon(_requests(calls), futures)

    def finish(self, request: Request[Acknowledged]) -> Acknowledged:
        """Count what belongs to estimated batches, which may mean to wait for somebody else."""
        if isinstance(request, Acknowledge) and request.is_to_be_counted:
            return batches.finish(self._core, request)
        return request.answer()

    def batch_status(self, batch_id: str) -> BatchStatus:
        return batches.status(self._core, batches.check_id(batch_id))

    def batches(
        self,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage:
        return batches.batches(self._core, state=state, key=key, limit=limit, after=after)

    def pending_items(self, batch_id: str, *, limit: int | None = None, after: str | None = None) -> PendingPage:
        return batches.pending_items(self._core, batches.check_id(batch_id), limit=limit, after=after)

    def batch_progress(
        self, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage:
        return progress.progress(self._core, batches.check_id(batch_id), waiting=waiting, limit=limit, after=after)

    def wait_batch(self, batch_id: str, seconds: float) -> BatchStatus | None:
        return batches.wait(self._core, batches.check_id(batch_id), seconds)

    def listening_to_batch(self, batch_id: str, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `ring` is called after each commit that changes the state of the batch."""
        return self._core.bell.listening(bell_hash(batches.check_id(batch_id)), ring)

    def delete_batch(self, batch_id: str) -> None:
        batch_keeping.delete(self._core, batches.check_id(batch_id))

    def reap_batches(self, *, dry_run: bool = False) -> Reaped:
        return batch_keeping.reap(self._core, dry_run=dry_run)

    def fold_batches(self) -> int:
        """Fold what acknowledgements have written ahead, now; gives the number of batches."""
        return batch_keeping.fold_all(self._core)


def _requests(calls: Sequence[Call]) -> list[Acknowledge]:
    if len(calls) > limits.ACKNOWLEDGED_CALLS_MAX:
        raise InvalidRequest(f"At most {limits.ACKNOWLEDGED_CALLS_MAX:,} calls at once, not {len(calls):,}.")
    return [Acknowledge(named(call.items, call.ranges, call.indices)) for call in calls]
