"""`ProducerClient` for asynchronous programs publishes parcels, numbered so that sending them again is safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from restante.calls.mailboxes import ListPartitions
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.producers import lanes, numbered_sends
from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
from restante.client.producers.lanes import ONE_ATTEMPT, Configurations, Lanes
from restante.client.producers.producer_carrier_async import AsyncProducerCarrier
from restante.client.publishing.parcel import Parcel
from restante.client.surface.asynchronous import Hub
from restante.client.surface.connect_async import connected
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.link import AsyncLink, where
from restante.errors import InvalidRequest
from restante.model.mailboxes.answers import Receipt


class ProducerClient(AsyncProducerCarrier):
    """Publishes parcels. Calls may come from any task of one event loop; use it in an `async with` statement, or close it."""

    def __init__(  # noqa: PLR0913 - an argument for each option
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
        """`hub` is an open hub, in process or connected, or an address; `token` goes with an address.

        A send without an answer is tried again up to `retry_total` times, after `retry_backoff_factor` seconds, then twice
        as long each time up to `retry_backoff_max`, but not after `retry_seconds`. Over a network, `pipelined` sends
        parcels for different partitions over one web socket.
        """
        retrying = lanes.retrying_of(
            retry_total=retry_total, factor=retry_backoff_factor, maximum=retry_backoff_max, seconds=retry_seconds
        )
        super().__init__(
            Lanes(enabled=enable_idempotent_partitions, configurations=partition_config, retrying=retrying)
        )
        self._owned: list[Callable[[], Awaitable[None]]] = []
        self._take(hub, token, pipelined=pipelined)

    def _take(self, hub: Hub | str, token: str | None, *, pipelined: bool) -> None:
        if isinstance(hub, str):
            hub = connected(hub, token=token)
            self._owned.append(hub.close)
        elif token is not None:
            raise InvalidRequest("A token belongs to an address. A hub that is open has its own.")
        if not isinstance(hub, Hub):
            # sync: raise lanes.no_hub(hub, twin="restante.aio.ProducerClient")
            # async only
            raise lanes.no_hub(hub, twin="restante.ProducerClient")
        self._hub_link: AsyncLink = hub.link
        self._link = self._hub_link
        self._frames = None
        if isinstance(hub.link, AsyncHttpLink):
            link = hub.link.with_retrying(ONE_ATTEMPT)
            self._link, self._encode = link, link.encode
            if pipelined:
                self._frames = link.frames()
                self._owned.insert(0, self._frames.close)

    def __repr__(self) -> str:
        return f"<ProducerClient of the hub {where(self._hub_link)}>"

    def create_parcel(
        self,
        partition: int | None = None,
        *,
        max_size_in_bytes: int | None = None,
        batch: BatchName | None = None,
    ) -> Parcel:
        """Create an empty parcel for a partition. If a batch is named, the messages become its items.

        ```python
        parcel = producer.create_parcel(partition=0)
        parcel.try_add({"recipient": "alice", "text": "hello"})
        ```
        """
        return self._lanes.create_parcel(partition, max_size_in_bytes, batch)

    async def send_parcel(self, parcel: Parcel) -> Receipt:
        """Publish a parcel: the hub stores all of it, or nothing.

        ```python
        receipt = await producer.send_parcel(parcel)
        ```
        """
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
        """Publish a message, a sequence of them, or an Arrow table or frame: the hub stores all of it, or nothing.

        ```python
        receipt = await producer.send_messages({"recipient": "alice", "text": "hello"}, partition=partition)
        ```
        """
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
        """The state of this producer in a partition. The first call reads it from the hub.

        ```python
        properties = await producer.get_partition_publishing_properties(0)
        print(properties.last_published_sequence_number)
        ```
        """
        self._lanes.check_open()
        if not self._lanes.enabled:
            return self._lanes.unnumbered(partition)
        lane = self._lanes.lane(partition)
        async with self._turn(lane.partition):
            return await self._lead(numbered_sends.describing(lane, self._lanes.patience))

    async def partition_count(self) -> int:
        """How many partitions the hub has.

        ```python
        count = await producer.partition_count()
        ```
        """
        self._lanes.check_open()
        return len(await self._hub_link.call(ListPartitions()))

    def state(self) -> dict[int, PartitionPublishingConfiguration]:
        """The state that a later producer needs to go on, as its `partition_config`. This does not call the hub.

        ```python
        saved = producer.state()
        ```
        """
        return self._lanes.state()

    async def close(self) -> None:
        """Wait for the sends that are under way, and refuse all others.

        ```python
        await producer.close()
        ```
        """
        self._lanes.closed = True
        await self._end()
        while self._owned:
            await self._owned.pop(0)()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
