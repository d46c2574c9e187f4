"""Small durable publishes to PostgreSQL: one INSERT each, committed before it is answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pyarrow as pa

from bench.load import CONNECTIONS, Concurrent, OneByOne, Run
from bench.server import driver

INSERT = "INSERT INTO message (id, recipient, origin, kind, data) VALUES ({})"
PLACES = INSERT.format("%b, %b, %b, %b, %b")
NUMBERED = INSERT.format("$1, $2, $3, $4, $5").encode()
STATEMENT = b"publish"
PIPELINE_WINDOW = 1_000

Row = tuple[Any, ...]


class OneByOnePsycopg(OneByOne[Row]):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._connection = driver("psycopg").connect(address, autocommit=True)
        self._cursor = self._connection.cursor()

    def encode(self, table: pa.Table) -> Sequence[Row]:
        return as_rows(table)

    def send(self, item: Row) -> None:
        self._cursor.execute(PLACES, item, prepare=True)

    def close(self) -> None:
        self._connection.close()


class OneByOneLibpq(OneByOne[list[bytes]]):
    """A prepared statement by the calls of libpq, without psycopg's adaptation of values."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._publisher = LibpqPublisher(address)

    def encode(self, table: pa.Table) -> Sequence[list[bytes]]:
        return as_parameters(table)

    def send(self, item: list[bytes]) -> None:
        self._publisher.send(item)

    def close(self) -> None:
        self._publisher.close()


class LibpqPublisher:
    def __init__(self, address: str) -> None:
        pq = driver("psycopg.pq")
        self._connection = pq.PGconn.connect(address.encode())
        assert self._connection.status == pq.ConnStatus.OK, self._connection.error_message
        self._connection.prepare(STATEMENT, NUMBERED)
        self._done = pq.ExecStatus.COMMAND_OK

    def send(self, parameters: list[bytes]) -> None:
        result = self._connection.exec_prepared(STATEMENT, parameters, param_formats=[1] * 5)
        assert result.status == self._done, result.error_message

    def close(self) -> None:
        self._connection.finish()


class Asynchronous(Concurrent[Row]):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._connections: list[Any] = []

    def encode(self, table: pa.Table) -> Sequence[Row]:
        return as_rows(table)

    async def sender(self) -> Callable[[Row], Awaitable[object]]:
        connection = await driver("psycopg").AsyncConnection.connect(self._address, autocommit=True)
        self._connections.append(connection)
        cursor = connection.cursor()
        return lambda row: cursor.execute(PLACES, row, prepare=True)

    async def disconnect(self) -> None:
        for connection in self._connections:
            await connection.close()


class Threads:
    """A thread for each connection; libpq waits for its answer outside the interpreter's lock."""

    def __init__(self, address: str) -> None:
        self._publishers = [LibpqPublisher(address) for _ in range(CONNECTIONS)]
        self._threads = ThreadPoolExecutor(CONNECTIONS)
        self._shares: list[Sequence[list[bytes]]] = []

    def prepare(self, table: pa.Table) -> None:
        parameters = as_parameters(table)
        self._shares = [parameters[first::CONNECTIONS] for first in range(CONNECTIONS)]

    def run(self) -> Run:
        barrier = threading.Barrier(CONNECTIONS + 1)
        running = [
            self._threads.submit(_send_each, publisher, share, barrier)
            for publisher, share in zip(self._publishers, self._shares, strict=True)
        ]
        barrier.wait()
        start = time.perf_counter()
        latencies = [latency for each in running for latency in each.result()]
        return Run(time.perf_counter() - start, latencies)

    def close(self) -> None:
        self._threads.shutdown()
        for publisher in self._publishers:
            publisher.close()


class Pipelined:
    """One connection that does not wait for answers. The statements between two syncs are one commit."""

    def __init__(self, address: str) -> None:
        self._connection = driver("psycopg").connect(address, autocommit=True)
        self._rows: Sequence[Row] = ()

    def prepare(self, table: pa.Table) -> None:
        self._rows = as_rows(table)

    def run(self) -> Run:
        start = time.perf_counter()
        with self._connection.pipeline() as pipeline, self._connection.cursor() as cursor:
            for first in range(0, len(self._rows), PIPELINE_WINDOW):
                for row in self._rows[first : first + PIPELINE_WINDOW]:
                    cursor.execute(PLACES, row, prepare=True)
                pipeline.sync()
        return Run(time.perf_counter() - start)

    def close(self) -> None:
        self._connection.close()


def as_parameters(table: pa.Table) -> list[list[bytes]]:
    """The values of each row, as the binary protocol has them."""
    return [[identity, *(text.encode() for text in texts), data] for identity, *texts, data in _values(table)]


def as_rows(table: pa.Table) -> list[Row]:
    return [(UUID(bytes=identity), *rest) for identity, *rest in _values(table)]


def _values(table: pa.Table) -> list[Row]:
    columns = [table.column(name).to_pylist() for name in ("id", "recipient", "origin", "kind", "data")]
    return list(zip(*columns, strict=True))


def _send_each(publisher: LibpqPublisher, share: Sequence[list[bytes]], barrier: threading.Barrier) -> list[float]:
    latencies = []
    barrier.wait()
    for parameters in share:
        start = time.perf_counter()
        publisher.send(parameters)
        latencies.append(time.perf_counter() - start)
    return latencies
