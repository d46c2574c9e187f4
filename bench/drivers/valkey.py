"""Small durable publishes to Valkey: one XADD each, in the append-only file before it is answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from bench.load import Concurrent, OneByOne, Run
from bench.resp import Resp, Word, packed
from bench.server import driver
from bench.sockets import BareConnections

WINDOW = 1_000
"""Commands of a pipeline that are sent together."""

Command = tuple[Word, ...]


class OneByOneBare(OneByOne[bytes]):
    """Commands packed before, over a socket."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._connection = Resp(port)

    def encode(self, table: pa.Table) -> Sequence[bytes]:
        return packed(additions(table))

    def send(self, item: bytes) -> None:
        self._connection.send(item)
        self._connection.answers(1)

    def close(self) -> None:
        self._connection.close()


class OneByOneLibrary(OneByOne[Command]):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._client = driver("valkey").Valkey(port=port)

    def encode(self, table: pa.Table) -> Sequence[Command]:
        return additions(table)

    def send(self, item: Command) -> None:
        self._client.execute_command(*item)

    def close(self) -> None:
        self._client.close()


class Asynchronous(Concurrent[Command]):
    """The library's asyncio client, with libvalkey's parser."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._clients: list[Any] = []

    def encode(self, table: pa.Table) -> Sequence[Command]:
        return additions(table)

    async def sender(self) -> Callable[[Command], Awaitable[object]]:
        client = driver("valkey.asyncio").Valkey(port=self._port, single_connection_client=True)
        await client.ping()
        self._clients.append(client)
        return lambda command: client.execute_command(*command)

    async def disconnect(self) -> None:
        for client in self._clients:
            await client.aclose()


def bare_connections(port: int) -> BareConnections:
    return BareConnections(port, encode=lambda table: packed(additions(table)), whole=_is_answer)


class PipelinedLibrary:
    """The library's pipeline, in windows, each of which is answered before the next."""

    def __init__(self, port: int) -> None:
        self._client = driver("valkey").Valkey(port=port)
        self._commands: Sequence[Command] = ()

    def prepare(self, table: pa.Table) -> None:
        self._commands = additions(table)

    def run(self) -> Run:
        start = time.perf_counter()
        for first in range(0, len(self._commands), WINDOW):
            with self._client.pipeline(transaction=False) as pipeline:
                for command in self._commands[first : first + WINDOW]:
                    pipeline.execute_command(*command)
                pipeline.execute()
        return Run(time.perf_counter() - start)

    def close(self) -> None:
        self._client.close()


class Pipelined:
    """One socket: commands packed by libvalkey as they are sent, or, to do even less, all of them before."""

    def __init__(self, port: int, *, packed_before: bool) -> None:
        self._connection = Resp(port)
        self._packed_before = packed_before
        self._encode: Callable[[], Sequence[bytes]] = list

    def prepare(self, table: pa.Table) -> None:
        commands = additions(table)
        ready = packed(commands) if self._packed_before else None
        self._encode = partial(packed, commands) if ready is None else lambda: ready

    def run(self) -> Run:
        start = time.perf_counter()
        requests = self._encode()
        self._connection.send(b"".join(requests))
        self._connection.answers(len(requests))
        return Run(time.perf_counter() - start)

    def close(self) -> None:
        self._connection.close()


def additions(table: pa.Table) -> list[Command]:
    """A stream for each recipient; origin and kind are left out, to Valkey's advantage."""
    columns = [table.column(name).to_pylist() for name in ("recipient", "id", "data")]
    return [
        (b"XADD", recipient.encode(), b"*", b"id", identity, b"data", data)
        for recipient, identity, data in zip(*columns, strict=True)
    ]


def _is_answer(octets: bytes) -> bool:
    """The id of an entry, as a text with its length."""
    if not octets.startswith(b"$"):
        raise ValueError(f"Valkey refused a command: {octets[:200]!r}")
    return octets.endswith(b"\r\n") and octets.count(b"\r\n") == 2
