"""Publishing beside a reader, in this process or over the wire: parcels one after the other, and single publishes."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvloop

import restante.aio
from bench.drivers.restante import Asynchronous
from bench.load import CONNECTIONS, LoadProcess
from bench.mail import Mail, as_messages
from bench.ours_wire import Restante, RestanteClient
from bench.readers import Reader, ReaderProcess, Seen, reading
from restante.client.surface.asynchronous import Hub
from restante.model.publishing.message import Message

Parcels = Sequence[pa.Table]


class Side:
    """A hub with some mail. Messages are published to it while a reader reads, or without one."""

    name: str

    def __init__(self) -> None:
        self.seen: dict[Reader, list[Seen]] = defaultdict(list)
        self._mail = Mail()

    def fill(self, parcels: Parcels) -> None:
        """Not timed: the mail that a reader catches up with."""
        raise NotImplementedError

    def parcels(self, parcels: Parcels, reader: Reader) -> float:
        """The seconds until the last is answered."""
        raise NotImplementedError

    def prepare_singles(self, table: pa.Table) -> Any:
        """Not timed."""
        raise NotImplementedError

    def singles(self, prepared: Any, reader: Reader) -> float:
        """One message each, by 64 that wait for their answers."""
        raise NotImplementedError

    def settle(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def _one(self) -> pa.Table:
        return self._mail.one_each(self._mail.newcomer())

    def _note(self, reader: Reader, seen: Seen | None) -> None:
        if seen is not None:
            self.seen[reader].append(seen)


class InProcess(Side):
    """Publisher and reader in one event loop, at the hub in their process."""

    name = "in process"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._hub: Hub = self._runner.run(_opened(folder))

    def fill(self, parcels: Parcels) -> None:
        self._runner.run(self._publish(parcels))

    def parcels(self, parcels: Parcels, reader: Reader) -> float:
        count = sum(parcel.num_rows for parcel in parcels)
        return self._runner.run(self._timed(partial(self._publish, parcels), count, reader))

    def prepare_singles(self, table: pa.Table) -> list[Message]:
        return as_messages(table)

    def singles(self, prepared: list[Message], reader: Reader) -> float:
        return self._runner.run(self._timed(partial(self._publish_each, prepared), len(prepared), reader))

    def settle(self) -> None:
        self._runner.run(self._hub.file())

    def close(self) -> None:
        self._runner.run(self._hub.close())
        self._runner.close()

    async def _timed(self, publish: Callable[[], Awaitable[None]], count: int, reader: Reader) -> float:
        async with reading(self._hub, reader, count, partial(self._publish, [self._one()])) as seen:
            start = time.perf_counter()
            await publish()
            seconds = time.perf_counter() - start
        self._note(reader, seen[0] if seen else None)
        return seconds

    async def _publish(self, parcels: Parcels) -> None:
        for parcel in parcels:
            receipt = await self._hub.producer.send(parcel)
            assert receipt.accepted == parcel.num_rows, receipt

    async def _publish_each(self, messages: Sequence[Message]) -> None:
        async def send(share: Sequence[Message]) -> None:
            for message in share:
                await self._hub.producer.send(message)

        await asyncio.gather(*(send(messages[first::CONNECTIONS]) for first in range(CONNECTIONS)))


class OverTheWire(Side):
    """A served hub; publisher and reader in processes of their own, parcels published by that of the bench."""

    name = "over the wire"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        with ExitStack() as stack:
            url = stack.enter_context(closing(Restante(folder))).url
            self._client = stack.enter_context(closing(RestanteClient(url)))
            self._load = stack.enter_context(LoadProcess(partial(Asynchronous, url)))
            self._reader = stack.enter_context(ReaderProcess(url))
            self._started = stack.pop_all()

    def fill(self, parcels: Parcels) -> None:
        for parcel in parcels:
            self._client.publish(parcel)

    def parcels(self, parcels: Parcels, reader: Reader) -> float:
        def publish() -> float:
            start = time.perf_counter()
            self.fill(parcels)
            return time.perf_counter() - start

        return self._timed(publish, sum(parcel.num_rows for parcel in parcels), reader)

    def prepare_singles(self, table: pa.Table) -> int:
        self._load.prepare(table)
        return table.num_rows

    def singles(self, prepared: int, reader: Reader) -> float:
        return self._timed(lambda: self._load.run().seconds, prepared, reader)

    def settle(self) -> None:
        self._client.settle()

    def close(self) -> None:
        self._started.close()

    def _timed(self, publish: Callable[[], float], count: int, reader: Reader) -> float:
        self._reader.start(reader, count, lambda: self._client.publish(self._one()))
        seconds = publish()
        self._note(reader, self._reader.stop())
        return seconds


async def _opened(folder: Path) -> Hub:
    return await restante.aio.open(folder)
