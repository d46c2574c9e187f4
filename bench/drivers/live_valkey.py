"""Live delivery by Valkey: a stream for each recipient, and `XREAD BLOCK` on a connection of each client.

An answer has all entries that are there; the next XREAD asks for what comes after its last. A publish is an XADD.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from bench.drivers.valkey import Command, additions
from bench.live import number_of
from bench.live_publishers import Paced, PacedSocket
from bench.live_receivers import BareReceiver, Inbox, Link, Receiver
from bench.resp import packed
from bench.server import driver

START = b"0-0"
DATA_PLACE = 3
"""The place of the data among the fields and values of an entry."""


class Library(Receiver):
    """The library's asyncio client, with libvalkey's parser."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._clients: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, name: str, inbox: Inbox) -> None:
        client = _client(self._port)
        await client.ping()
        self._clients.append(client)
        self._tasks.append(asyncio.create_task(_read(client, name, inbox)))

    async def disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            with suppress(ConnectionError, OSError):
                await client.aclose()
        self._clients, self._tasks = [], []


async def _read(client: Any, name: str, inbox: Inbox) -> None:
    last = START
    while True:
        ((_, entries),) = await client.xread({name: last}, block=0)
        inbox.take(number_of(fields[b"data"])[0] for _, fields in entries)
        last = entries[-1][0]


class Bare(BareReceiver):
    def link(self, name: str, inbox: Inbox) -> Link:
        return _Reading(name, inbox)


class _Reading(Link):
    def __init__(self, name: str, inbox: Inbox) -> None:
        super().__init__(inbox)
        libvalkey = driver("libvalkey")
        self._error = libvalkey.ReplyError
        self._reader = libvalkey.Reader()
        before, marker, after = packed([(b"XREAD", b"BLOCK", b"0", b"STREAMS", name, b"LAST")])[0].partition(
            b"$4\r\nLAST"
        )
        assert marker
        self._ask = before + b"$%d\r\n%b" + after

    def greet(self) -> None:
        """Once PING is answered, the XREAD behind it waits."""
        self.transport.write(b"PING\r\n" + self._question(START))

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not False:
            if answer == b"PONG":
                self.is_ready()
                continue
            if isinstance(answer, self._error):
                raise answer
            ((_, entries),) = answer
            self.inbox.take([number_of(fields[DATA_PLACE])[0] for _, fields in entries])
            self.transport.write(self._question(entries[-1][0]))

    def _question(self, last: bytes) -> bytes:
        return self._ask % (len(last), last)


class PacedLibrary(Paced[Command]):
    """One connection, on which the library sends a command when that before is answered: several would mix up the order."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._client: Any = None
        self._sent: list[asyncio.Task[Any]] = []

    def encode(self, table: pa.Table) -> Sequence[Command]:
        return additions(table)

    async def connect(self) -> None:
        self._client = _client(self._port)
        await self._client.ping()

    def send(self, item: Command) -> None:
        self._sent.append(asyncio.ensure_future(self._client.execute_command(*item)))

    async def answered(self, count: int) -> None:
        assert len(await asyncio.gather(*self._sent)) == count
        self._sent = []

    async def disconnect(self) -> None:
        if self._client is not None:
            await self._client.aclose()


class PacedBare(PacedSocket):
    def encode(self, table: pa.Table) -> Sequence[bytes]:
        return packed(additions(table))

    def count(self, octets: bytes) -> tuple[int, bytes]:
        """The id of an entry comes as a text with its length: two lines."""
        if b"-ERR" in octets:
            raise ValueError(f"Valkey refused a command: {octets[:200]!r}")
        whole, end, left = octets.rpartition(b"\r\n")
        lines = (whole + end).split(b"\r\n")[:-1]
        if len(lines) % 2:
            return len(lines) // 2, lines[-1] + end + left
        return len(lines) // 2, left


def _client(port: int) -> Any:
    return driver("valkey.asyncio").Valkey(port=port, single_connection_client=True, socket_timeout=None)
