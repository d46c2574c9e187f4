"""The calls about batches of the link over HTTP, for asynchronous programs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from restante.client import batch_protocol
from restante.client.acknowledgement_text import text_of
from restante.client.exchange import Dialogue
from restante.client.joint_async import AsyncJointCalls
from restante.client.joint_calls import joint_call
from restante.client.options import Terms
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

T = TypeVar("T")


class AsyncBatchCalls:
    """`BatchCalls` with `await`."""

    _terms: Terms
    _joint: AsyncJointCalls | None = None
    """Made when it is needed: then there is an event loop."""

    async def _run(self, dialogue: Dialogue[T]) -> T:
        """Carry a dialogue out."""
        raise NotImplementedError

    async def open_batch(
        self,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened:
        return await self._run(
            batch_protocol.open_batch(
                self._terms,
                key=key,
                unique=unique,
                counting=counting,
                webhook=webhook,
                notify=notify,
                batch_id=batch_id,
            )
        )

    async def add_items(self, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups:
        return await self._run(batch_protocol.add_items(self._terms, batch_id, count, request_id=request_id))

    async def seal_batch(self, batch_id: str) -> Sealed:
        return await self._run(batch_protocol.seal_batch(self._terms, batch_id))

    async def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged:
        """A small call may share a request with others that are made at the same time."""
        call = joint_call(items, ranges=ranges, indices=indices)
        if call.is_large:
            (answer,) = await self._acknowledge((call.text,))
            return answer
        return await self._joint_calls().acknowledge(call)

    async def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]:
        """In one request."""
        if not calls:
            return ()
        texts = [text_of(call.items, ranges=call.ranges, indices=call.indices) for call in calls]
        return await self._acknowledge(texts)

    async def batch_status(self, batch_id: str) -> BatchStatus:
        return await self._run(batch_protocol.batch_status(self._terms, batch_id))

    async def batches(
        self,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage:
        return await self._run(batch_protocol.batches(self._terms, state=state, key=key, limit=limit, after=after))

    async def pending_items(self, batch_id: str, *, limit: int | None = None, after: str | None = None) -> PendingPage:
        return await self._run(batch_protocol.pending_items(self._terms, batch_id, limit=limit, after=after))

    async def batch_progress(
        self, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage:
        dialogue = batch_protocol.batch_progress(self._terms, batch_id, waiting=waiting, limit=limit, after=after)
        return await self._run(dialogue)

    async def wait_batch(self, batch_id: str, seconds: float) -> BatchStatus | None:
        return await self._run(batch_protocol.wait_batch(self._terms, batch_id, seconds))

    async def delete_batch(self, batch_id: str) -> None:
        await self._run(batch_protocol.delete_batch(self._terms, batch_id))

    async def reap_batches(self, *, dry_run: bool = False) -> Reaped:
        return await self._run(batch_protocol.reap_batches(self._terms, dry_run=dry_run))

    async def _acknowledge(self, calls: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        return await self._run(batch_protocol.acknowledge(self._terms, calls))

    def _joint_calls(self) -> AsyncJointCalls:
        loop = asyncio.get_running_loop()
        if self._joint is None or self._joint.loop is not loop:
            self._joint = AsyncJointCalls(loop, self._acknowledge)
        return self._joint
