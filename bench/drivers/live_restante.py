"""Live delivery by the hub: `recipient.live()` of the asynchronous client, and bare web sockets.

A bare one reads frames and their JSON, and nothing else: of what was dropped for it, it only knows how much that was. A
publish is a send of the pipeline.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa

import restante.aio
from bench.live import number_of
from bench.live_publishers import Paced
from bench.live_receivers import NOT_READ_BYTES, BareReceiver, Inbox, Link, Receiver
from bench.mail import as_messages
from restante.client.live.live_states import LiveStage, LiveState
from restante.model.publishing.message import Message

TEXT, PING, CLOSE = 0x81, 0x89, 0x88
TWO_OCTETS, EIGHT_OCTETS = 126, 127
PONG_MASKED = b"\x8a\x80\x00\x00\x00\x00"
"""An empty answer to a ping. Frames of a client are masked, with zeros here."""


class Client(Receiver):
    """One client, whose mailboxes have a connection each."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._hub: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, name: str, inbox: Inbox) -> None:
        if self._hub is None:
            self._hub = await restante.aio.connect(self._url)
        connected = asyncio.Event()

        def heed(state: LiveState) -> None:
            if state.stage is LiveStage.CONNECTED:
                connected.set()

        self._tasks.append(asyncio.create_task(self._follow(name, inbox, heed)))
        await connected.wait()

    async def disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._hub is not None:
            await self._hub.close()
            self._hub = None

    async def _follow(self, name: str, inbox: Inbox, heed: Any) -> None:
        async with self._hub.recipient(name).live(on_state=heed) as live:
            async for message in live:
                inbox.take(number_of(message.data))


class Bare(BareReceiver):
    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._not_read: list[socket.socket] = []

    def link(self, name: str, inbox: Inbox) -> Link:
        return _Following(name, inbox)

    async def connect_stuck(self, name: str) -> None:
        """Connect a client that reads the answer to its greeting, as without that it would not be connected, and then nothing."""
        loop = asyncio.get_running_loop()
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NOT_READ_BYTES)
        stuck.setblocking(False)
        self._not_read.append(stuck)
        await loop.sock_connect(stuck, ("127.0.0.1", self._port))
        await loop.sock_sendall(stuck, greeting(name))
        answer = await loop.sock_recv(stuck, NOT_READ_BYTES)
        assert answer.startswith(b"HTTP/1.1 101 "), answer

    async def disconnect(self) -> None:
        await super().disconnect()
        for stuck in self._not_read:
            stuck.close()
        self._not_read = []


class _Given(msgspec.Struct, gc=False):
    data_base64: bytes


class _Frame(msgspec.Struct, gc=False):
    type: str
    counter: int = 0
    message: _Given | None = None


_decode = msgspec.json.Decoder(_Frame).decode


class _Following(Link):
    def __init__(self, name: str, inbox: Inbox) -> None:
        super().__init__(inbox)
        self._name = name
        self._upgraded = False
        self._left = b""
        self._counter = 0

    def greet(self) -> None:
        self.transport.write(greeting(self._name))

    def data_received(self, data: bytes) -> None:
        octets = self._left + data if self._left else data
        if not self._upgraded:
            head, end, rest = octets.partition(b"\r\n\r\n")
            if not end:
                self._left = octets
                return
            if not head.startswith(b"HTTP/1.1 101 "):
                raise RuntimeError(f"the hub refused a connection: {octets[:500]!r}")
            self._upgraded, octets = True, rest
        numbers: list[int] = []
        start = 0
        while (found := _frame(octets, start)) is not None:
            kind, first, start = found
            if kind == TEXT:
                self._take(_decode(octets[first:start]), numbers)
            elif kind == PING:
                self.transport.write(PONG_MASKED)
            elif kind == CLOSE:
                raise RuntimeError(f"the hub closed a connection: {octets[first:start]!r}")
        self._left = octets[start:]
        if numbers:
            self.inbox.take(numbers)

    def _take(self, frame: _Frame, numbers: list[int]) -> None:
        if frame.message is not None:
            numbers += number_of(frame.message.data_base64)
            if frame.counter != self._counter + 1:
                self.inbox.miss(frame.counter - self._counter - 1)
            self._counter = frame.counter
        elif frame.type == "connected":
            self.is_ready()


class PacedClient(Paced[Message]):
    """The pipeline of the asynchronous client."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._hub: Any = None
        self._pipeline: Any = None
        self._sent: list[asyncio.Future[Any]] = []

    def encode(self, table: pa.Table) -> Sequence[Message]:
        return as_messages(table)

    async def connect(self) -> None:
        self._hub = await restante.aio.connect(self._url)
        self._pipeline = self._hub.producer.pipeline()

    def send(self, item: Message) -> None:
        self._sent.append(self._pipeline.send(item))

    async def answered(self, count: int) -> None:
        receipts = await asyncio.gather(*self._sent)
        assert len(receipts) == count
        self._sent = []

    async def disconnect(self) -> None:
        if self._hub is not None:
            await self._pipeline.close()
            await self._hub.close()


def greeting(name: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /v1/recipients/{quote(name, safe='')}/live?client=bench HTTP/1.1\r\nHost: localhost\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def _frame(octets: bytes, start: int) -> tuple[int, int, int] | None:
    """The kind of the frame that begins here, and where its content begins and ends; None while it is not whole."""
    if len(octets) < start + 2:
        return None
    length, first = octets[start + 1], start + 2
    if length == TWO_OCTETS:
        length, first = int.from_bytes(octets[first : first + 2], "big"), first + 2
    elif length == EIGHT_OCTETS:
        length, first = int.from_bytes(octets[first : first + 8], "big"), first + 8
    end = first + length
    return (octets[start], first, end) if end <= len(octets) else None
