"""Bare sockets: requests made before, sent over many connections by an event loop that only counts answers.

No client does less, so what is measured is the server. The same for a peer's protocol and for HTTP: all that differs
is when an answer is whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import cast

import pyarrow as pa
import uvloop

from bench.load import CONNECTIONS, Run

Whole = Callable[[bytes], bool]
"""Whether these bytes are one answer; raises where it is none that was wanted."""


class BareConnections:
    """A load driver: every connection sends its next request when the last one is answered."""

    def __init__(
        self,
        port: int,
        *,
        encode: Callable[[pa.Table], Sequence[bytes]],
        whole: Whole,
        greetings: Sequence[bytes] = (),
    ) -> None:
        """The requests are dealt to the connections in turn; a greeting for each is sent first, and answered."""
        self._port = port
        self._greetings = greetings
        self._encode = encode
        self._whole = whole
        self._requests: Sequence[bytes] = ()
        self._links: list[_Link] = []
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def prepare(self, table: pa.Table) -> None:
        """Connect again, because a server may have closed connections that were idle since the last sample."""
        self._requests = self._encode(table)
        self._runner.run(self._connect())

    def run(self) -> Run:
        return self._runner.run(self._run())

    def close(self) -> None:
        self._disconnect()
        self._runner.close()

    def _disconnect(self) -> None:
        for link in self._links:
            link.close()
        self._links = []

    async def _connect(self) -> None:
        self._disconnect()
        loop = asyncio.get_running_loop()
        for number in range(CONNECTIONS):
            _, link = await loop.create_connection(lambda: _Link(self._whole), "127.0.0.1", self._port)
            self._links.append(link)
            if self._greetings:
                await link.start([self._greetings[number]], [])

    async def _run(self) -> Run:
        latencies: list[float] = []
        start = time.perf_counter()
        await asyncio.gather(
            *(link.start(self._requests[first::CONNECTIONS], latencies) for first, link in enumerate(self._links))
        )
        return Run(time.perf_counter() - start, latencies)


class _Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self._received = b""
        self._left: list[bytes] = []
        self._latencies: list[float] = []
        self._sent = 0.0
        self._done: asyncio.Future[None] | None = None

    def start(self, requests: Sequence[bytes], latencies: list[float]) -> asyncio.Future[None]:
        self._left = list(reversed(requests))
        self._latencies = latencies
        done = self._done = asyncio.get_running_loop().create_future()
        self._next()
        return done

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._done is None or self._done.done():
            return  # what a server says before it is asked
        received = self._received = self._received + data if self._received else data
        try:
            if not self._whole(received):
                return
        except ValueError as error:
            self._fail(error)
            return
        self._received = b""
        self._latencies.append(time.perf_counter() - self._sent)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed a connection"))

    def _fail(self, error: Exception) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    def _next(self) -> None:
        if not self._left:
            if self._done is not None:
                self._done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(self._left.pop())
