"""`restante.aio.ProducerClient`: `restante.client.producers.producer_sync` with `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from restante.calls.mailboxes import ListPartitions
from restante.calls.producers import OpenLink, ReadProducer
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.producers import lanes, numbered_sends
from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
from restante.client.producers.lanes import ONE_ATTEMPT, Configurations, Lanes
from restante.client.producers.numbered_sends import NumberedPublish, Prepare, ProducerStep, Producing
from restante.client.publishing.parcel import Parcel
from restante.client.surface.asynchronous import Hub
from restante.client.surface.connect_async import connected
from restante.client.transport.exchange import Pause
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.link import AsyncLink
from restante.errors import InvalidRequest, RestanteError
from restante.limits import SMALL_SEND_MESSAGES_MAX
from restante.model.mailboxes.answers import Receipt

T = TypeVar("T")


class ProducerClient:
    """Publishes parcels, for the tasks of one event loop. Use it in an `async with` statement, or close it."""

    def __init__(  # noqa: PLR0913 - all that a producer may be told
        self,
        hub: Hub | str,
        *,
        token: str | None = None,
        enable_idempotent_partitions: bool = False,
        partition_config: Configurations | None = None,
        pipelined: bool = False,
        retry_total: int = lanes.RETRY_TOTAL,
        retry_backoff_factor: float = lanes.RETRY_BACKOFF_FACTOR,
        retry_backoff_max: float = lanes.RETRY_BACKOFF_MAX,
        retry_seconds: float = lanes.RETRY_SECONDS,
    ) -> None:
        """`hub` is an open hub, in process or connected, or the address of one; then `token` opens its door.

        A send without an answer is tried again `retry_total` times, after `retry_backoff_factor` seconds, then twice as
        long each time up to `retry_backoff_max`, but not after `retry_seconds`. Over a network, `pipelined` sends
        parcels for different partitions over one web socket.
        """
        retrying = lanes.retrying_of(
            retry_total=retry_total, factor=retry_backoff_factor, maximum=retry_backoff_max, seconds=retry_seconds
        )
        self._lanes = Lanes(enabled=enable_idempotent_partitions, configurations=partition_config, retrying=retrying)
        self._turns: dict[int, asyncio.Lock] = {}
        self._closing = asyncio.Event()
        self._owned: list[Callable[[], Awaitable[None]]] = []
        self._take(hub, token, pipelined=pipelined)

    def _take(self, hub: Hub | str, token: str | None, *, pipelined: bool) -> None:
        if isinstance(hub, str):
            hub = connected(hub, token=token)
            self._owned.append(hub.close)
        elif token is not None:
            raise InvalidRequest("A token belongs to an address. A hub that is open has its own.")
        if not isinstance(hub, Hub):
            raise lanes.no_hub(hub, twin="restante.ProducerClient")
        self._hub_link: AsyncLink = hub.link
        self._link = self._hub_link
        self._encode: Callable[[object], object] | None = None
        self._frames: Any = None
        if isinstance(hub.link, AsyncHttpLink):
            link = hub.link.with_retrying(ONE_ATTEMPT)
            self._link, self._encode = link, link.encode
            if pipelined:
                self._frames = link.frames()
                self._owned.insert(0, self._frames.close)

    def create_parcel(
        self,
        partition: int | None = None,
        *,
        max_size_in_bytes: int | None = None,
        batch: BatchName | None = None,
    ) -> Parcel:
        """An empty parcel for a partition. Its messages become items of the batch, if one is named."""
        return self._lanes.create_parcel(partition, max_size_in_bytes, batch)

    async def send_parcel(self, parcel: Parcel) -> Receipt:
        """Store a parcel: all of it, or nothing."""
        self._lanes.check_open()
        self._lanes.check_parcel(parcel)
        with parcel.held():
            if not self._lanes.enabled:
                return await self._lead(numbered_sends.send_plainly(parcel, self._lanes.patience))
            lane = self._lanes.lane(parcel.partition)
            async with self._turn(lane.partition):
                return await self._lead(numbered_sends.send(lane, parcel, self._lanes.patience))

    async def send_messages(
        self, messages: object, *, partition: int | None = None, batch: BatchName | None = None
    ) -> Receipt:
        """Store a message, a sequence of them, or an Arrow table or frame: all of it, or nothing."""
        self._lanes.check_open()
        batch_id = batch_id_of(batch)
        if not self._lanes.enabled:
            return await self._lead(
                numbered_sends.send_sent_plainly(messages, partition, self._lanes.patience, batch_id)
            )
        lane = self._lanes.lane(partition)
        async with self._turn(lane.partition):
            return await self._lead(numbered_sends.send_sent(lane, messages, self._lanes.patience, batch_id))

    async def get_partition_publishing_properties(self, partition: int) -> PartitionPublishingProperties:
        """How this producer stands in a partition; read from the hub when first asked."""
        self._lanes.check_open()
        if not self._lanes.enabled:
            return self._lanes.unnumbered(partition)
        lane = self._lanes.lane(partition)
        async with self._turn(lane.partition):
            return await self._lead(numbered_sends.describing(lane, self._lanes.patience))

    async def partition_count(self) -> int:
        """How many partitions the hub has."""
        self._lanes.check_open()
        return len(await self._hub_link.call(ListPartitions()))

    def state(self) -> dict[int, PartitionPublishingConfiguration]:
        """What a later producer needs to go on, as its `partition_config`. Nothing is asked of the hub."""
        return self._lanes.state()

    async def close(self) -> None:
        """Let sends that are under way end, and refuse all others."""
        self._lanes.closed = True
        self._closing.set()
        for turn in list(self._turns.values()):
            async with turn:
                pass
        while self._owned:
            await self._owned.pop(0)()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _turn(self, partition: int) -> asyncio.Lock:
        """Whoever waits for it gets it in the order of their calls."""
        found = self._turns.get(partition)
        return found if found is not None else self._turns.setdefault(partition, asyncio.Lock())

    async def _lead(self, dialogue: Producing[T]) -> T:
        """Carry a dialogue out. If it ends before its time, it is told, for a parcel may be on its way."""
        reply: Any = None
        try:
            self._lanes.check_open()
            while True:
                try:
                    step = dialogue.send(reply)
                except StopIteration as done:
                    answer: T = done.value
                    return answer
                try:
                    reply = await self._perform(step)
                except RestanteError as error:
                    reply = error
        finally:
            dialogue.close()

    async def _perform(self, step: ProducerStep) -> object:
        """The usual steps first: every message comes by here."""
        if isinstance(step, NumberedPublish):
            link = self._link if self._frames is None or step.partition is None else self._frames
            return await link.publish(step.prepared, partition=step.partition, producer=step.numbers, batch=step.batch)
        if isinstance(step, Prepare):
            return await self._prepare(step.parcel)
        if isinstance(step, OpenLink | ReadProducer):
            return await self._link.call(step)
        return await (self._pause(step.seconds) if isinstance(step, Pause) else asyncio.to_thread(step.function))

    async def _pause(self, seconds: float) -> bool:
        """Whether the producer is being closed meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _prepare(self, parcel: Parcel) -> object:
        """Many messages are given ids and encoded in a thread, while the event loop goes on."""
        if isinstance(parcel.content, list) and len(parcel.content) <= SMALL_SEND_MESSAGES_MAX:
            return self._prepared(parcel)
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepared, parcel))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            # The thread goes on with the parcel, so it is held until then.
            await asyncio.wait((preparing,))
            raise
        finally:
            del preparing  # An error holds this frame: with the task, which holds the error, all would be kept.

    def _prepared(self, parcel: Parcel) -> object:
        parcel.identify(copied=not self._lanes.enabled)
        # A hub in this process takes messages and columns as they are.
        return parcel.content if self._encode is None else self._encode(parcel.content)
