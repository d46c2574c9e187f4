"""A hub in this process as asynchronous programs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import ParamSpec, TypeVar

from restante.hub.committer import Request, closed
from restante.hub.hub import Hub
from restante.hub.in_process_batches import InProcessBatches
from restante.hub.in_process_consignments import InProcessConsignments
from restante.hub.in_process_feed import InProcessFeed
from restante.hub.in_process_live import InProcessLive
from restante.hub.listing import Order
from restante.limits import WAIT_SECONDS_MAX
from restante.model.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    ProducerPage,
    ProducerState,
    Receipt,
    RecipientPage,
)
from restante.model.intake import is_few
from restante.model.message import Message, State
from restante.model.producer import ProducerNumbers

P = ParamSpec("P")
T = TypeVar("T")

_THREADS_MAX = 32


class InProcess(InProcessBatches, InProcessConsignments, InProcessFeed, InProcessLive):
    """The asynchronous link to a hub in this process.

    A small publish is queued from the event loop itself and answered by the committer; everything that reads runs in
    threads of its own.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "restante-aio")

    @property
    def hub(self) -> Hub:
        return self._hub

    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        try:
            call = loop.run_in_executor(self._threads, partial(function, *args, **kwargs))
        except RuntimeError as error:  # which says that there are no threads any more
            raise closed() from error
        return await call

    async def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt:
        if not is_few(sent) or self._hub.crowded:
            return await self.thread(self._hub.publish, sent, partition=partition, producer=producer, batch=batch)
        future: asyncio.Future[Request[Receipt]] = asyncio.get_running_loop().create_future()
        self._hub.publish_soon(sent, future, partition=partition, producer=producer, batch=batch)
        return (await future).answer()

    async def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState:
        return await self.thread(
            self._hub.open_link,
            partition,
            producer_group=producer_group,
            owner_level=owner_level,
            last_published_sequence_number=last_published_sequence_number,
        )

    async def producer_state(self, partition: int, producer_group: int) -> ProducerState:
        return await self.thread(self._hub.producer_state, partition, producer_group)

    async def producer_states(
        self, partition: int, *, limit: int | None = None, after: str | None = None
    ) -> ProducerPage:
        return await self.thread(self._hub.producer_states, partition, limit=limit, after=after)

    async def peek(
        self,
        recipient: str,
        *,
        origins: Collection[str] = (),
        origin_groups: Collection[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,  # the contract's name
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> BundleAnswer | None:
        look = partial(
            self._hub.peek,
            recipient,
            origins=origins,
            origin_groups=origin_groups,
            bundle_id=bundle_id,
            format=format,
            max_messages=max_messages,
            max_weight=max_weight,
        )
        answer = await self.thread(look)
        if answer is not None or wait <= 0:
            return answer
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        deadline = loop.time() + min(wait, WAIT_SECONDS_MAX)

        def ring() -> None:
            loop.call_soon_threadsafe(rung.set)

        with self._hub.listening(recipient, ring):
            while (answer := await self.thread(look)) is None and not self._hub.closing:
                try:
                    async with asyncio.timeout_at(deadline):
                        await rung.wait()
                except TimeoutError:
                    return None
                rung.clear()
        return answer

    async def dequeue(self, recipient: str, bundle_id: str) -> Dequeued:
        future: asyncio.Future[Request[Dequeued]] = asyncio.get_running_loop().create_future()
        self._hub.dequeue_soon(recipient, bundle_id, future)
        return (await future).answer()

    async def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation:
        return await self.thread(self._hub.explain, recipient, origins=origins, origin_groups=origin_groups)

    async def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,  # noqa: ARG002 - a hub counts the gaps of those who are connected to it
    ) -> HistoryPage:
        return await self.thread(self._hub.history, recipient, after=after, before=before, state=state, limit=limit)

    async def find(self, recipient: str, message_id: str) -> Message:
        return await self.thread(self._hub.find, recipient, message_id)

    async def withdraw(self, recipient: str, message_id: str) -> None:
        await self.thread(self._hub.withdraw, recipient, message_id)

    async def set_aside(self, recipient: str, message_id: str) -> None:
        await self.thread(self._hub.set_aside, recipient, message_id)

    async def release(self, recipient: str, message_id: str) -> None:
        await self.thread(self._hub.release, recipient, message_id)

    async def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        return await self.thread(self._hub.purge, recipient, origin=origin, kind=kind, before=before, dry_run=dry_run)

    async def erase(self, recipient: str, *, dry_run: bool = False) -> int:
        return await self.thread(self._hub.erase, recipient, dry_run=dry_run)

    async def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage:
        return await self.thread(self._hub.recipients, order=order, limit=limit, after=after)

    async def partitions(self) -> tuple[PartitionStatus, ...]:
        return self._hub.partitions()

    async def partition_of(self, recipient: str) -> int:
        return self._hub.partition_of(recipient)

    async def file(self) -> int:
        return await self.thread(self._hub.file)

    async def expire(self) -> int:
        return await self.thread(self._hub.expire)

    async def retain(self) -> int:
        return await self.thread(self._hub.retain)

    async def close(self) -> None:
        await self.thread(self._hub.close)
        self._threads.shutdown(wait=False)
