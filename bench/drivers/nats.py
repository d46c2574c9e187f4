"""Small durable publishes to NATS JetStream: each synced to its file before it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pyarrow as pa
import uvloop

from bench.jetstream import STORED, JetStream, greeting, inbox, requests, subject
from bench.load import CONNECTIONS, Concurrent, OneByOne, Run
from bench.server import driver
from bench.sockets import BareConnections

WINDOW = 4_096
"""Publishes of the library that may be without an answer."""
STALL_SECONDS_MAX = 60.0

Letter = tuple[str, bytes]


class OneByOneBare(OneByOne[bytes]):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._connection = JetStream(port)

    def encode(self, table: pa.Table) -> Sequence[bytes]:
        return requests(table, [self._connection.inbox])

    def send(self, item: bytes) -> None:
        self._connection.send(item)
        _, answer = self._connection.frames(1)[0]
        assert answer.startswith(STORED), answer

    def close(self) -> None:
        self._connection.close()


class OneByOneLibrary(OneByOne[Letter]):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._connection, self._stream = self._runner.run(_connect(port))

    def encode(self, table: pa.Table) -> Sequence[Letter]:
        return letters(table)

    def send(self, item: Letter) -> None:
        self._runner.run(self._stream.publish(*item))

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


class Asynchronous(Concurrent[Letter]):
    """The library, a connection for each publisher."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connections: list[Any] = []

    def encode(self, table: pa.Table) -> Sequence[Letter]:
        return letters(table)

    async def sender(self) -> Callable[[Letter], Awaitable[object]]:
        connection = await driver("nats").connect(f"nats://127.0.0.1:{self._port}")
        self._connections.append(connection)
        stream = connection.jetstream()
        return lambda letter: stream.publish(*letter)

    async def disconnect(self) -> None:
        for connection in self._connections:
            await connection.close()


def bare_connections(port: int) -> BareConnections:
    inboxes = [inbox() for _ in range(CONNECTIONS)]
    return BareConnections(
        port,
        encode=lambda table: requests(table, inboxes),
        whole=_is_answer,
        greetings=[greeting(each) for each in inboxes],
    )


class PipelinedBare:
    """All publishes over one socket, with the answers counted."""

    def __init__(self, port: int) -> None:
        self._connection = JetStream(port)
        self._requests: Sequence[bytes] = ()

    def prepare(self, table: pa.Table) -> None:
        self._requests = requests(table, [self._connection.inbox])

    def run(self) -> Run:
        start = time.perf_counter()
        self._connection.store(b"".join(self._requests), len(self._requests))
        return Run(time.perf_counter() - start)

    def close(self) -> None:
        self._connection.close()


class PipelinedLibrary:
    """The library's asynchronous publishes, so many without an answer at a time."""

    def __init__(self, port: int) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._connection, self._stream = self._runner.run(_connect(port))
        self._letters: Sequence[Letter] = ()

    def prepare(self, table: pa.Table) -> None:
        self._letters = letters(table)

    def run(self) -> Run:
        start = time.perf_counter()
        self._runner.run(self._run())
        return Run(time.perf_counter() - start)

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    async def _run(self) -> None:
        sent = [await self._stream.publish_async(*letter, wait_stall=STALL_SECONDS_MAX) for letter in self._letters]
        await asyncio.gather(*sent)


async def _connect(port: int) -> tuple[Any, Any]:
    connection = await driver("nats").connect(f"nats://127.0.0.1:{port}")
    return connection, connection.jetstream(publish_async_max_pending=WINDOW)


def letters(table: pa.Table) -> list[Letter]:
    columns = [table.column(name).to_pylist() for name in ("recipient", "data")]
    return [(subject(recipient).decode(), data) for recipient, data in zip(*columns, strict=True)]


def _is_answer(octets: bytes) -> bool:
    """The answer to a publish, or the end of the greeting; the server may ask for a sign of life beside it."""
    octets = octets.replace(b"PING\r\n", b"")
    if b'"error"' in octets or b"-ERR" in octets:
        raise ValueError(f"NATS refused a publish: {octets[:300]!r}")
    return (octets.endswith(b"}\r\n") and STORED in octets) or b"PONG\r\n" in octets
