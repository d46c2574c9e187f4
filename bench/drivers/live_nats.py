"""Live delivery by NATS JetStream: an ordered consumer for each client, on a connection of its own.

That is a push consumer without acknowledgements, kept in memory, with flow control and a sign of life every five seconds,
as the library makes it. The bare one does the same over a socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bench.drivers.nats import WINDOW, Letter, letters
from bench.jetstream import ANSWERABLE, CONNECT, STORED, STREAM, batches, greeting, inbox, request, requests, subject
from bench.live import number_of
from bench.live_publishers import Paced, PacedSocket
from bench.live_receivers import BareReceiver, Inbox, Link, Receiver
from bench.peers.nats import BATCH_MESSAGES_MAX, NatsClient
from bench.server import driver

ANSWERS, DELIVERIES = b"1", b"2"
"""The subscriptions of a bare connection."""
STATUS = b"NATS/1.0 100"
"""How the headers of what is no message begin. A message has some if it came in a batch."""
ORDERED = {
    "ack_policy": "none",
    "deliver_policy": "new",
    "flow_control": True,
    "idle_heartbeat": 5 * 10**9,
    "max_deliver": 1,
    "mem_storage": True,
    "num_replicas": 1,
}


class Library(Receiver):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connections: list[Any] = []

    async def connect(self, name: str, inbox: Inbox) -> None:
        connection = await driver("nats").connect(
            f"nats://127.0.0.1:{self._port}", allow_reconnect=False, error_cb=_not_told
        )
        self._connections.append(connection)

        async def take(message: Any) -> None:
            inbox.take(number_of(message.data))

        policy = driver("nats.js.api").DeliverPolicy.NEW
        await connection.jetstream().subscribe(
            subject(name).decode(), stream=STREAM, cb=take, ordered_consumer=True, deliver_policy=policy
        )

    async def disconnect(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))
        self._connections = []


async def _not_told(error: Exception) -> None:
    """Ignore the error: each connection reports its end, and a message that was missing before then is noticed anyway."""


class Bare(BareReceiver):
    def link(self, name: str, inbox: Inbox) -> Link:
        return _Consuming(name, inbox)


class _Consuming(Link):
    def __init__(self, name: str, taking: Inbox) -> None:
        super().__init__(taking)
        self._name = name
        self._left = b""

    def greet(self) -> None:
        answers, deliveries = inbox(), inbox()
        config = {**ORDERED, "deliver_subject": deliveries.decode(), "filter_subject": subject(self._name).decode()}
        question = json.dumps({"stream_name": STREAM, "config": config}).encode()
        subscribe = b"SUB %s %s\r\n"
        self.transport.write(
            CONNECT
            + subscribe % (answers, ANSWERS)
            + subscribe % (deliveries, DELIVERIES)
            + request(b"$JS.API.CONSUMER.CREATE.%s" % STREAM.encode(), question, answers)
        )

    def data_received(self, data: bytes) -> None:
        octets = self._left + data if self._left else data
        numbers: list[int] = []
        start = 0
        while (end := octets.find(b"\r\n", start)) >= 0:
            words = octets[start:end].split(b" ")
            if words[0] not in {b"MSG", b"HMSG"}:
                self._say(words[0], octets[start:end])
                start = end + 2
                continue
            after = end + 4 + int(words[-1])
            if after > len(octets):
                break
            head = int(words[-2]) if words[0] == b"HMSG" else 0
            if words[2] == DELIVERIES and not octets.startswith(STATUS, end + 2):
                numbers += number_of(octets, end + 2 + head)
            else:
                self._heed(words, octets[end + 2 : after])
            start = after
        self._left = octets[start:]
        if numbers:
            self.inbox.take(numbers)

    def _say(self, word: bytes, line: bytes) -> None:
        """Take in what is no message."""
        if word == b"PING":
            self.transport.write(b"PONG\r\n")
        elif word not in {b"INFO", b"PONG", b"+OK"}:
            raise RuntimeError(f"NATS sent what was not asked for: {line!r}")

    def _heed(self, words: Sequence[bytes], payload: bytes) -> None:
        """The answer to our question, or a sign of life, which may want to know how far we are."""
        if words[2] == ANSWERS:
            if b'"error"' in payload:
                raise RuntimeError(f"NATS refused a consumer: {payload!r}")
            self.is_ready()
            return
        reply = words[3] if len(words) == ANSWERABLE[words[0]] else b""
        marker = b"Nats-Consumer-Stalled: "
        if not reply and marker in payload:
            reply = payload.partition(marker)[2].partition(b"\r\n")[0]
        if reply:
            self.transport.write(b"PUB %s 0\r\n\r\n" % reply)


class LiveNatsClient(NatsClient):
    """Publishes in atomic batches, as for other bulk work, but makes no consumer that could fetch the messages later."""

    def prepare(self, table: pa.Table) -> tuple[bytes, int]:
        return batches(table, size=BATCH_MESSAGES_MAX, inbox=self._connection.inbox)


class PacedLibrary(Paced[Letter]):
    """The library's asynchronous publishes."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connection: Any = None
        self._stream: Any = None
        self._sent: list[asyncio.Task[Any]] = []

    def encode(self, table: pa.Table) -> Sequence[Letter]:
        return letters(table)

    async def connect(self) -> None:
        self._connection = await driver("nats").connect(f"nats://127.0.0.1:{self._port}")
        self._stream = self._connection.jetstream(publish_async_max_pending=WINDOW)

    def send(self, item: Letter) -> None:
        self._sent.append(asyncio.ensure_future(self._stream.publish_async(*item)))

    async def answered(self, count: int) -> None:
        found = await asyncio.gather(*await asyncio.gather(*self._sent))
        assert len(found) == count
        self._sent = []

    async def disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class PacedBare(PacedSocket):
    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._inbox = inbox()
        self.greeting = greeting(self._inbox)

    def encode(self, table: pa.Table) -> Sequence[bytes]:
        return requests(table, [self._inbox])

    def count(self, octets: bytes) -> tuple[int, bytes]:
        """An answer is a line with its size and one of JSON; that to the greeting is PONG."""
        if b'"error"' in octets or b"-ERR" in octets:
            raise ValueError(f"NATS refused a publish: {octets[:300]!r}")
        whole, _, left = octets.rpartition(b"\r\n")
        lines = whole.split(b"\r\n")
        return sum(line.startswith((STORED, b"PONG")) for line in lines), left
