"""Batches of a hub in this process as asynchronous programs use them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from restante.hub.acknowledging import Acknowledge
from restante.hub.committer import Request
from restante.hub.in_process_threads import Threads
from restante.limits import ACKNOWLEDGED_SMALL_MAX, WAIT_SECONDS_MAX
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
from restante.model.items import Call


class InProcessBatches:
    """The calls about batches; small acknowledgements go to the committer from the event loop itself."""

    async def open_batch(
        self: Threads,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened:
        return await self.thread(
            self.hub.open_batch,
            key=key,
            unique=unique,
            counting=counting,
            webhook=webhook,
            notify=notify,
            batch_id=batch_id,
        )

    async def add_items(self: Threads, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups:
        return await self.thread(self.hub.add_items, batch_id, count, request_id=request_id)

    async def seal_batch(self: Threads, batch_id: str) -> Sealed:
        return await self.thread(self.hub.seal_batch, batch_id)

    async def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged:
        (answer,) = await self.acknowledge_each((Call(items, ranges, indices),))
        return answer

    async def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]:
        link: Threads = self  # type: ignore[assignment]  # the link that these calls are part of
        if sum(map(_named, calls)) > ACKNOWLEDGED_SMALL_MAX or link.hub.crowded:
            return await link.thread(link.hub.acknowledge_each, calls)
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Request[Acknowledged]]] = [loop.create_future() for _ in calls]
        link.hub.acknowledge_soon(calls, futures)
        requests = [await future for future in futures]
        if any(isinstance(request, Acknowledge) and request.is_to_be_counted for request in requests):
            return tuple([await link.thread(link.hub.finish, request) for request in requests])
        return tuple([request.answer() for request in requests])

    async def batch_status(self: Threads, batch_id: str) -> BatchStatus:
        return await self.thread(self.hub.batch_status, batch_id)

    async def batches(
        self: Threads,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage:
        return await self.thread(self.hub.batches, state=state, key=key, limit=limit, after=after)

    async def pending_items(
        self: Threads, batch_id: str, *, limit: int | None = None, after: str | None = None
    ) -> PendingPage:
        return await self.thread(self.hub.pending_items, batch_id, limit=limit, after=after)

    async def batch_progress(
        self: Threads, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage:
        return await self.thread(self.hub.batch_progress, batch_id, waiting=waiting, limit=limit, after=after)

    async def wait_batch(self: Threads, batch_id: str, seconds: float) -> BatchStatus | None:
        """Waits in the event loop: whoever waits takes no thread."""
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        deadline = loop.time() + min(max(seconds, 0), WAIT_SECONDS_MAX)

        def ring() -> None:
            loop.call_soon_threadsafe(rung.set)

        with self.hub.listening_to_batch(batch_id, ring):
            while True:
                found = await self.thread(self.hub.batch_status, batch_id)
                if found.state is BatchState.COMPLETE:
                    return found
                if loop.time() >= deadline or self.hub.closing:
                    return None
                try:
                    async with asyncio.timeout_at(deadline):
                        await rung.wait()
                except TimeoutError:
                    continue
                rung.clear()

    async def delete_batch(self: Threads, batch_id: str) -> None:
        await self.thread(self.hub.delete_batch, batch_id)

    async def reap_batches(self: Threads, *, dry_run: bool = False) -> Reaped:
        return await self.thread(self.hub.reap_batches, dry_run=dry_run)


def _named(call: Call) -> int:
    return len(call.items) + len(call.ranges) + sum([len(one.indices) for one in call.indices])
