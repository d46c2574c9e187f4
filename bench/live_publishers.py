"""Publishers for those that wait: all at once as fast as it goes, or one message after the other at an even pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
import pyarrow as pa
import uvloop

from bench.live import Published, Sending
from bench.peer import Peer

Item = TypeVar("Item")


class InBulk:
    """A driver: a client that publishes in bulk; in parcels of some size, or all in one."""

    def __init__(self, connect: Callable[[], Peer], *, parcel: int = 0) -> None:
        self._peer = connect()
        self._size = parcel
        self._parcels: list[tuple[int, Any]] = []

    def prepare(self, sending: Sending) -> None:
        self._peer.settle()
        table, size = sending.table, self._size or sending.table.num_rows
        slices = [table.slice(first, size) for first in range(0, table.num_rows, size)]
        self._parcels = [(each.num_rows, self._peer.prepare(each)) for each in slices]

    def run(self) -> Published:
        begun = []
        for count, parcel in self._parcels:
            begun += [time.perf_counter()] * count
            self._peer.publish(parcel)
        return Published(np.array(begun), time.perf_counter())

    def close(self) -> None:
        self._peer.close()


class Paced(Generic[Item]):
    """A driver: publishes at an even pace, whether the last ones are answered or not. Subclasses have `encode` and `send`."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._items: Sequence[Item] = ()
        self._pace = 1.0
        self._connected = False

    def encode(self, table: pa.Table) -> Sequence[Item]:
        raise NotImplementedError

    async def connect(self) -> None: ...

    def send(self, item: Item) -> object:
        """Does not wait for the answer."""
        raise NotImplementedError

    async def answered(self, count: int) -> None:
        """Returns when so many messages are durable since it was called last."""
        raise NotImplementedError

    async def disconnect(self) -> None: ...

    def prepare(self, sending: Sending) -> None:
        assert sending.pace is not None
        self._items, self._pace = self.encode(sending.table), sending.pace
        self._runner.run(self._again())

    def run(self) -> Published:
        return self._runner.run(self._run())

    def close(self) -> None:
        self._runner.run(self.disconnect())
        self._runner.close()

    async def _again(self) -> None:
        """Connect again, because a server may have closed connections that were idle since the last sample."""
        if self._connected:
            await self.disconnect()
        await self.connect()
        self._connected = True

    async def _run(self) -> Published:
        moments = []
        start = time.perf_counter()
        for number, item in enumerate(self._items):
            early = start + number / self._pace - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            moments.append(time.perf_counter())
            self.send(item)
        await self.answered(len(self._items))
        return Published(np.array(moments), time.perf_counter())


class PacedSocket(Paced[bytes]):
    """Requests made before, over a bare socket whose answers are counted."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._counter: Counter | None = None

    greeting = b""
    """Sent first; its answer is waited for."""

    def count(self, octets: bytes) -> tuple[int, bytes]:
        """The answers in what came, and what is left of a part of one."""
        raise NotImplementedError

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, self._counter = await loop.create_connection(lambda: Counter(self.count), "127.0.0.1", self._port)
        if self.greeting:
            self._counter.transport.write(self.greeting)
            await self._counter.upto(1)

    def send(self, item: bytes) -> None:
        assert self._counter is not None
        self._counter.transport.write(item)

    async def answered(self, count: int) -> None:
        assert self._counter is not None
        await self._counter.upto(count + bool(self.greeting))

    async def disconnect(self) -> None:
        if self._counter is not None:
            self._counter.transport.abort()


class Counter(asyncio.Protocol):
    """Counts answers."""

    def __init__(self, count: Callable[[bytes], tuple[int, bytes]]) -> None:
        self._count = count
        self._found = 0
        self._left = b""
        self._more = asyncio.Event()
        self._failure: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            found, self._left = self._count(self._left + data)
            self._found += found
        except ValueError as error:
            self._failure = error
        self._more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._failure = self._failure or exc or ConnectionError("the server closed the connection")
        self._more.set()

    async def upto(self, count: int) -> None:
        while self._found < count:
            if self._failure is not None:
                raise self._failure
            self._more.clear()
            await self._more.wait()
