"""The clients of programs that publish to the hub: those that number what they send, and their plain twins."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import pyarrow as pa

import restante
import restante.aio
from bench.load import Concurrent, Run
from bench.mail import as_messages
from bench.peer import Peer
from restante.client.surface.asynchronous import Hub
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from restante.model.storage.partition import partition_of

Addressed = tuple[Message, int]
"""A message and its partition."""
Send = Callable[[Addressed], Awaitable[Receipt]]


class BulkSends(Peer):
    """Tables for one partition, by a client that waits."""

    def __init__(self, url: str, partition: int) -> None:
        self.hub = restante.connect(url)
        self.partition = partition

    def prepare(self, table: pa.Table) -> pa.Table:
        return table

    def publish(self, prepared: pa.Table) -> None:
        _check(self.hub.producer.send(prepared, partition=self.partition), prepared.num_rows)

    def close(self) -> None:
        self.hub.close()


class BulkProducer(BulkSends):
    """Bulk sends with the numbers of a producer."""

    def __init__(self, url: str, partition: int) -> None:
        super().__init__(url, partition)
        self._producer = restante.ProducerClient(self.hub, enable_idempotent_partitions=True)

    def publish(self, prepared: pa.Table) -> None:
        _check(self._producer.send_messages(prepared, partition=self.partition), prepared.num_rows)

    def close(self) -> None:
        self._producer.close()
        super().close()


class PlainProducers(Concurrent[Addressed]):
    """Producers as so many tasks that send single messages, over the connections of one client."""

    def __init__(self, url: str, partition_count: int) -> None:
        super().__init__()
        self._url = url
        self._partition_count = partition_count
        self._hub: Hub | None = None

    def encode(self, table: pa.Table) -> Sequence[Addressed]:
        return [(message, partition_of(message.recipient, self._partition_count)) for message in as_messages(table)]

    async def sender(self) -> Send:
        producer = (await self.hub()).producer
        return lambda addressed: producer.send(addressed[0])

    async def hub(self) -> Hub:
        if self._hub is None:
            self._hub = await restante.aio.connect(self._url)
        return self._hub

    async def disconnect(self) -> None:
        if self._hub is not None:
            await self._hub.close()


class NumberedProducers(PlainProducers):
    """Producers that number their messages: each task is one, with a group of its own."""

    def __init__(self, url: str, partition_count: int, *, pipelined: bool = False) -> None:
        super().__init__(url, partition_count)
        self._pipelined = pipelined
        self._producers: list[restante.aio.ProducerClient] = []

    async def sender(self) -> Send:
        producer = await self.producer()
        return lambda addressed: producer.send_messages(addressed[0], partition=addressed[1])

    async def producer(self) -> restante.aio.ProducerClient:
        hub = await self.hub()
        made = restante.aio.ProducerClient(hub, enable_idempotent_partitions=True, pipelined=self._pipelined)
        self._producers.append(made)
        return made

    async def disconnect(self) -> None:
        for producer in self._producers:
            await producer.close()
        await super().disconnect()


class SharedProducer(NumberedProducers):
    """All tasks share one numbering client, which has a group for each partition."""

    async def producer(self) -> restante.aio.ProducerClient:
        return self._producers[0] if self._producers else await super().producer()


class Buffered:
    """Messages enqueued one by one; the seconds end when all are stored."""

    def __init__(self, url: str) -> None:
        self._hub = restante.connect(url)
        self._stored: list[int] = []
        """The stored messages of each parcel; several threads tell."""
        self._failures: list[BaseException] = []
        self._producer = restante.BufferedProducer(self._hub, on_success=self._count, on_error=self._fail)
        self._messages: Sequence[Message] = ()

    def prepare(self, table: pa.Table) -> None:
        self._messages = as_messages(table)
        self._stored = []

    def run(self) -> Run:
        start = time.perf_counter()
        for message in self._messages:
            self._producer.enqueue(message)
        self._producer.flush()
        seconds = time.perf_counter() - start
        assert not self._failures, self._failures
        assert sum(self._stored) == len(self._messages)
        return Run(seconds)

    def close(self) -> None:
        self._producer.close()
        self._hub.close()

    def _count(self, messages: Sequence[Message], _: int) -> None:
        self._stored.append(len(messages))

    def _fail(self, _: Sequence[Message], __: int, error: BaseException) -> None:
        self._failures.append(error)


def _check(receipt: Receipt, messages: int) -> None:
    assert receipt.accepted == messages, receipt
