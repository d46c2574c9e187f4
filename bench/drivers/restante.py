"""Small durable publishes to the hub: by its clients, and over bare sockets."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa

import restante
import restante.aio
from bench.load import Concurrent, OneByOne, Run
from bench.mail import KIND, ORIGIN, as_messages
from bench.sockets import BareConnections
from restante.model.publishing.message import Message

RECEIVE_BYTES = 64 * 1024
ACCEPTED = b"HTTP/1.1 201 "


class OneByOneClient(OneByOne[Message]):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._hub = restante.connect(url)

    def encode(self, table: pa.Table) -> Sequence[Message]:
        return as_messages(table)

    def send(self, item: Message) -> None:
        self._hub.producer.send(item)

    def close(self) -> None:
        self._hub.close()


class OneByOneBare(OneByOne[bytes]):
    """Requests made before, over a socket."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._address = ("127.0.0.1", port)
        self._socket = socket.socket()

    def encode(self, table: pa.Table) -> Sequence[bytes]:
        """Connect again, because the hub may have closed a connection that was idle since the last sample; encode the table."""
        self._socket.close()
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return requests(table)

    def send(self, item: bytes) -> None:
        self._socket.sendall(item)
        received = self._socket.recv(RECEIVE_BYTES)
        while not is_answer(received):
            more = self._socket.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionError("the hub closed the connection")
            received += more

    def close(self) -> None:
        self._socket.close()


class Asynchronous(Concurrent[Message]):
    """One client, whose pool grows to a connection for each publisher."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._hub: Any = None

    def encode(self, table: pa.Table) -> Sequence[Message]:
        return as_messages(table)

    async def sender(self) -> Callable[[Message], Awaitable[object]]:
        if self._hub is None:
            self._hub = await restante.aio.connect(self._url)
        send: Callable[[Message], Awaitable[object]] = self._hub.producer.send
        return send

    async def disconnect(self) -> None:
        if self._hub is not None:
            await self._hub.close()


class Pipelined:
    """Sends that do not wait; the seconds end when the last is answered."""

    def __init__(self, url: str) -> None:
        self._hub = restante.connect(url)
        self._pipeline = self._hub.producer.pipeline()
        self._messages: Sequence[Message] = ()

    def prepare(self, table: pa.Table) -> None:
        self._messages = as_messages(table)

    def run(self) -> Run:
        start = time.perf_counter()
        answers = [self._pipeline.send(message) for message in self._messages]
        self._pipeline.flush()
        seconds = time.perf_counter() - start
        assert all(answer.result(timeout=1).accepted == 1 for answer in answers)
        return Run(seconds)

    def close(self) -> None:
        self._pipeline.close()
        self._hub.close()


def bare_connections(port: int) -> BareConnections:
    """Requests over HTTP/1.1, with JSON bodies, made before."""
    return BareConnections(port, encode=requests, whole=is_answer)


def requests(table: pa.Table) -> list[bytes]:
    columns = [table.column(name).to_pylist() for name in ("recipient", "id", "data")]
    return [_request(message_body(*row)) for row in zip(*columns, strict=True)]


def message_body(recipient: str, identity: bytes, data: bytes) -> bytes:
    message = {
        "recipient": recipient,
        "id": str(UUID(bytes=identity)),
        "origin": ORIGIN,
        "kind": KIND,
        "data_base64": base64.b64encode(data).decode(),
    }
    return msgspec.json.encode({"messages": [message]})


def _request(body: bytes) -> bytes:
    head = (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(body) + body


def is_answer(octets: bytes) -> bool:
    head, end, body = octets.partition(b"\r\n\r\n")
    if not octets.startswith(ACCEPTED):
        raise ValueError(f"Restante refused a publish: {octets[:500]!r}")
    if not end:
        return False
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return len(body) >= length
