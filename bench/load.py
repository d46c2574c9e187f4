"""Load from processes of their own: small publishes, timed one by one, and bulk ones beside them.

A `Driver` lives in the process: it connects, gets messages to make ready, and runs. All of a workload's load processes
stay up through its repetitions, so that every sample but the first is of warm connections. The same shapes serve the
hub and its peers, which differ in how one message is sent.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa
import uvloop

from bench.mail import Mail
from bench.peer import Peer

CONNECTIONS = 64
STOP_SECONDS_MAX = 30

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Run:
    """The seconds of a run in all and, if each publish was waited for, those of each publish."""

    seconds: float
    latencies: Sequence[float] = ()


class Driver(Protocol):
    def prepare(self, table: pa.Table) -> None:
        """Not timed: the messages in the form in which they are sent."""
        ...

    def run(self) -> Run: ...
    def close(self) -> None: ...


class OneByOne(Generic[Item]):
    """One publisher on one connection that waits for each answer. Subclasses have `encode` and `send`."""

    def __init__(self) -> None:
        self._items: Sequence[Item] = ()

    def encode(self, table: pa.Table) -> Sequence[Item]:
        raise NotImplementedError

    def send(self, item: Item) -> None:
        raise NotImplementedError

    def prepare(self, table: pa.Table) -> None:
        self._items = self.encode(table)

    def run(self) -> Run:
        latencies = []
        begun = start = time.perf_counter()
        for item in self._items:
            self.send(item)
            end = time.perf_counter()
            latencies.append(end - start)
            start = end
        return Run(start - begun, latencies)

    def close(self) -> None: ...


class Concurrent(Generic[Item]):
    """Connections in one event loop, each of which waits for its answers. Subclasses have `sender`."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._items: Sequence[Item] = ()
        self._senders: Sequence[Any] = ()

    def encode(self, table: pa.Table) -> Sequence[Item]:
        raise NotImplementedError

    async def sender(self) -> Any:
        """A connection: a function that sends one item and returns when it is answered."""
        raise NotImplementedError

    async def disconnect(self) -> None: ...

    def prepare(self, table: pa.Table) -> None:
        self._items = self.encode(table)
        if not self._senders:
            self._senders = self._runner.run(self._connect())

    def run(self) -> Run:
        return self._runner.run(self._run())

    def close(self) -> None:
        self._runner.run(self.disconnect())
        self._runner.close()

    async def _connect(self) -> Sequence[Any]:
        return [await self.sender() for _ in range(CONNECTIONS)]

    async def _run(self) -> Run:
        latencies: list[float] = []

        async def each(send: Any, share: Sequence[Item]) -> None:
            for item in share:
                start = time.perf_counter()
                await send(item)
                latencies.append(time.perf_counter() - start)

        start = time.perf_counter()
        shares = [self._items[first::CONNECTIONS] for first in range(CONNECTIONS)]
        await asyncio.gather(*(each(send, share) for send, share in zip(self._senders, shares, strict=True)))
        return Run(time.perf_counter() - start, latencies)


@dataclass(frozen=True, slots=True)
class Bulk:
    """Bodies without pause, by a client that publishes in bulk."""

    connect: Callable[[], Peer]
    messages: int

    def flood(self, peer: Peer, mail: Mail, *, begun: Callable[[], None], stop: Callable[[], bool]) -> Run:
        """Until told to stop: the seconds of each body but the first, after which `begun` is called."""
        latencies: list[float] = []
        self._publish(peer, mail)
        begun()
        while not stop():
            latencies.append(self._publish(peer, mail))
        return Run(sum(latencies), latencies)

    def _publish(self, peer: Peer, mail: Mail) -> float:
        prepared = peer.prepare(mail.table(mail.newcomer(), self.messages))
        start = time.perf_counter()
        peer.publish(prepared)
        return time.perf_counter() - start


class Child:
    """A process with a pipe. An error in the process is raised here."""

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=target, args=(far, *arguments), daemon=True)
        self._process.start()
        far.close()

    def ask(self, request: object) -> Any:
        self.tell(request)
        return self.answer()

    def tell(self, request: object) -> None:
        self._pipe.send(request)

    def answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError("A load process ended without an answer; its message is above.") from None
        return answer

    def has_answer(self, seconds: float = 0.001) -> bool:
        """Whether there is one, or comes in a moment."""
        return self._pipe.poll(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the process: when it has closed its connections or, after a failure, at once."""
        self._pipe.close()
        self._process.join(STOP_SECONDS_MAX if error is None else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class DriverProcess(Child):
    """A driver in a process of its own: it prepares its load, and runs. Several can be made to run together."""

    def __init__(self, way: Callable[[], Any]) -> None:
        super().__init__(_drive, way)


class LoadProcess(DriverProcess):
    """A `Driver` in a process of its own."""

    def __init__(self, way: Callable[[], Driver]) -> None:
        super().__init__(way)

    def prepare(self, table: pa.Table) -> None:
        self.ask(table)

    def run(self) -> Run:
        found: Run = self.ask(None)
        return found


class BulkProcess(Child):
    """Bulk publishes in a process of its own, from `start` to `stop`."""

    def __init__(self, bulk: Bulk) -> None:
        super().__init__(_flood, bulk)
        self.messages = bulk.messages

    def start(self) -> None:
        """Returns when the first body is stored and the next under way."""
        self.ask(None)

    def stop(self) -> Run:
        found: Run = self.ask(None)
        return found


def _drive(pipe: Connection, way: Callable[[], Any]) -> None:
    driver = way()
    try:
        with suppress(EOFError):
            while True:
                given = pipe.recv()
                if given is None:
                    pipe.send(driver.run())
                else:
                    driver.prepare(given)
                    pipe.send(None)
    finally:
        driver.close()


def _flood(pipe: Connection, bulk: Bulk) -> None:
    peer, mail = bulk.connect(), Mail()
    try:
        with suppress(EOFError, BrokenPipeError):
            while True:
                pipe.recv()
                found = bulk.flood(peer, mail, begun=lambda: pipe.send(None), stop=pipe.poll)
                pipe.recv()
                pipe.send(found)
    finally:
        peer.close()
