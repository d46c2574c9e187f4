"""Live delivery by RabbitMQ: a durable queue for each client, on a connection of its own, bound to an exchange.

Messages are persistent; a publish is answered when every queue that gets it has it on the disk. Clients need not
acknowledge messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa

from bench.live import number_of
from bench.live_publishers import Paced
from bench.live_receivers import Inbox, Receiver
from bench.peers.rabbitmq import DRIVER, PERSISTENT, RabbitmqClient
from bench.server import LOCALHOST, driver

EXCHANGE = "live"
EXPIRES_MILLISECONDS = 60_000
"""A queue without a client goes away after so long."""

Letter = tuple[str, bytes]


class Library(Receiver):
    """The driver's adapter for asyncio."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connections: list[Any] = []

    async def connect(self, name: str, inbox: Inbox) -> None:
        queue = f"{name}.{uuid4().hex}"
        connection, channel = await _opened(self._port)
        self._connections.append(connection)

        def take(_channel: object, _method: object, _properties: object, body: bytes) -> None:
            inbox.take(number_of(body))

        arguments = {"x-expires": EXPIRES_MILLISECONDS}
        await _answer(channel.exchange_declare, EXCHANGE, durable=True)
        await _answer(channel.queue_declare, queue, durable=True, arguments=arguments)
        await _answer(channel.queue_bind, queue, EXCHANGE, routing_key=name)
        await _answer(channel.basic_consume, queue, take, auto_ack=True)

    async def disconnect(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections = []


class LiveRabbitmqClient(RabbitmqClient):
    """Publishes in transactions, as for other bulk work, by the exchange that the queues of the clients are bound to."""

    def prepare(self, table: pa.Table) -> list[Letter]:
        return _letters(table)

    def publish(self, prepared: list[Letter]) -> None:
        for recipient, data in prepared:
            self._channel.basic_publish(EXCHANGE, recipient, data, self._persistent)
        self._channel.tx_commit()


class PacedLibrary(Paced[Letter]):
    """Publishes that the server confirms."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connection: Any = None
        self._channel: Any = None
        self._confirmed = 0
        self._more = asyncio.Event()

    def encode(self, table: pa.Table) -> Sequence[Letter]:
        return _letters(table)

    async def connect(self) -> None:
        self._connection, self._channel = await _opened(self._port)
        self._persistent = driver(DRIVER).BasicProperties(delivery_mode=PERSISTENT)
        self._confirmed = 0
        confirmed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._channel.confirm_delivery(self._confirm, callback=confirmed.set_result)
        await confirmed

    def send(self, item: Letter) -> None:
        self._channel.basic_publish(EXCHANGE, *item, self._persistent)

    async def answered(self, count: int) -> None:
        while self._confirmed < count:
            self._more.clear()
            await self._more.wait()

    async def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _confirm(self, frame: Any) -> None:
        """One confirmation may stand for all before it; publishes are numbered from 1."""
        assert frame.method.NAME == "Basic.Ack", frame
        self._confirmed = max(self._confirmed, frame.method.delivery_tag)
        self._more.set()


async def _opened(port: int) -> tuple[Any, Any]:
    """A connection and its channel."""
    pika = driver(DRIVER)
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[Any] = loop.create_future()
    connection = driver(f"{DRIVER}.adapters.asyncio_connection").AsyncioConnection(
        pika.ConnectionParameters(host=LOCALHOST, port=port, heartbeat=0),
        on_open_callback=opened.set_result,
        on_open_error_callback=lambda _, error: opened.set_exception(error),
        custom_ioloop=loop,
    )
    await opened
    channel: asyncio.Future[Any] = loop.create_future()
    connection.channel(on_open_callback=channel.set_result)
    return connection, await channel


async def _answer(method: Any, *arguments: Any, **named: Any) -> None:
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    method(*arguments, **named, callback=answered.set_result)
    await answered


def _letters(table: pa.Table) -> list[Letter]:
    columns = [table.column(name).to_pylist() for name in ("recipient", "data")]
    return list(zip(*columns, strict=True))
