"""The link over HTTP for asynchronous programs: `restante.client.http_sync` with `await`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.client import protocol
from restante.client.exchange import Dialogue, Pause, Reply, Request, Work
from restante.client.frame_link_async import AsyncFrameLink
from restante.client.http import closed, configured, failure_of, filled, response_of
from restante.client.http_batches_async import AsyncBatchCalls
from restante.client.http_consignments_async import AsyncConsignmentCalls
from restante.client.http_feed_async import AsyncFeedCalls
from restante.client.link import Order
from restante.client.live_socket_async import AsyncSocketDoor
from restante.client.options import Retrying, Terms
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
from restante.model.message import Message, State
from restante.model.producer import ProducerNumbers
from restante.wire.publish import Encoded, encode_publish

T = TypeVar("T")


class AsyncHttpLink(AsyncBatchCalls, AsyncConsignmentCalls, AsyncFeedCalls):
    """For the tasks of one event loop; each call takes a connection of the pool for itself."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._closing = threading.Event()
        builder = ClientBuilder()
        self._pool = [configured(builder, terms.address, connect_seconds=terms.timeout).build()]
        """One client, shared with the links made of this one; none when they are closed, for it holds on to connections."""

    async def _run(self, dialogue: Dialogue[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, Request):
                reply = await self._exchange(step)
            elif isinstance(step, Work):
                reply = await asyncio.to_thread(step.function)
            else:
                assert isinstance(step, Pause)
                await asyncio.sleep(step.seconds)
                reply = None

    async def _exchange(self, request: Request) -> Reply:
        if self._closing.is_set():
            raise closed()
        address = self._terms.address
        try:
            builder = self._pool[0].request(request.method, address.url + request.target)
            response = await filled(builder, request, address).build().send()
            return response_of(response, await response.bytes())
        except PyreqwestError as error:
            return failure_of(error, request)
        except IndexError as error:
            raise closed() from error

    def with_retrying(self, retrying: Retrying) -> AsyncHttpLink:
        """A link over the same connections, with other patience. Closing one closes both."""
        other = copy(self)
        other._terms = replace(self._terms, retrying=retrying)  # noqa: SLF001 - a copy of itself
        other._joint = None  # noqa: SLF001 - a copy of itself
        return other

    def frames(self) -> AsyncFrameLink:
        """A link of its own to the same hub, for parcels over one web socket."""
        return AsyncFrameLink(self._terms)

    def encode(self, sent: object) -> Encoded:
        """What a publish would send. It takes that in place of the messages."""
        return encode_publish(sent, now_ms=self._terms.now_ms(), random=self._terms.random)

    async def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt:
        dialogue = protocol.publish(self._terms, sent, partition=partition, producer=producer, batch=batch)
        return await self._run(dialogue)

    async def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState:
        return await self._run(
            protocol.open_link(
                self._terms,
                partition,
                producer_group=producer_group,
                owner_level=owner_level,
                last_published_sequence_number=last_published_sequence_number,
            )
        )

    async def producer_state(self, partition: int, producer_group: int) -> ProducerState:
        return await self._run(protocol.producer_state(self._terms, partition, producer_group))

    async def producer_states(
        self, partition: int, *, limit: int | None = None, after: str | None = None
    ) -> ProducerPage:
        return await self._run(protocol.producer_states(self._terms, partition, limit=limit, after=after))

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
        return await self._run(
            protocol.peek(
                self._terms,
                recipient,
                origins=origins,
                origin_groups=origin_groups,
                bundle_id=bundle_id,
                format=format,
                max_messages=max_messages,
                max_weight=max_weight,
                wait=wait,
            )
        )

    async def dequeue(self, recipient: str, bundle_id: str) -> Dequeued:
        return await self._run(protocol.dequeue(self._terms, recipient, bundle_id))

    async def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation:
        return await self._run(protocol.explain(self._terms, recipient, origins=origins, origin_groups=origin_groups))

    async def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,
    ) -> HistoryPage:
        asked = protocol.history(
            self._terms, recipient, after=after, before=before, state=state, limit=limit, live_gap=live_gap
        )
        return await self._run(asked)

    async def find(self, recipient: str, message_id: str) -> Message:
        return await self._run(protocol.find(self._terms, recipient, message_id))

    async def withdraw(self, recipient: str, message_id: str) -> None:
        await self._run(protocol.withdraw(self._terms, recipient, message_id))

    async def set_aside(self, recipient: str, message_id: str) -> None:
        await self._run(protocol.set_aside(self._terms, recipient, message_id))

    async def release(self, recipient: str, message_id: str) -> None:
        await self._run(protocol.release(self._terms, recipient, message_id))

    async def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        return await self._run(
            protocol.purge(self._terms, recipient, origin=origin, kind=kind, before=before, dry_run=dry_run)
        )

    async def erase(self, recipient: str, *, dry_run: bool = False) -> int:
        return await self._run(protocol.erase(self._terms, recipient, dry_run=dry_run))

    async def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage:
        return await self._run(protocol.recipients(self._terms, order=order, limit=limit, after=after))

    async def partitions(self) -> tuple[PartitionStatus, ...]:
        return await self._run(protocol.partitions(self._terms))

    async def partition_of(self, recipient: str) -> int:
        return await self._run(protocol.partition_of(self._terms, recipient))

    def live(self, recipient: str, *, client: str | None = None) -> AsyncSocketDoor:
        """The way to a mailbox that is followed. Nothing is connected yet."""
        return AsyncSocketDoor(self._terms, recipient, client)

    async def file(self) -> int:
        return await self._run(protocol.maintain(self._terms, "file"))

    async def expire(self) -> int:
        return await self._run(protocol.maintain(self._terms, "expire"))

    async def retain(self) -> int:
        return await self._run(protocol.maintain(self._terms, "retain"))

    async def close(self) -> None:
        self._closing.set()
        while self._pool:
            await self._pool.pop().close()
