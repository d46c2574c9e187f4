"""The hub, as one of those that are measured: through the surface that programs see, with default settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import restante
import restante.aio
from bench.mail import as_messages
from bench.peer import Peer, Taken
from restante.client.surface.asynchronous import Producer
from restante.client.surface.sync import Hub
from restante.model.publishing.message import Message
from restante.settings import Settings

NAME = "restante"


class Ours(Peer):
    """A hub that is opened when it is first used, and again after `close`."""

    def __init__(self, folder: Path, *, settings: Settings | None = None) -> None:
        self._folder = folder
        self._settings = settings or Settings()
        self._hub: Hub | None = None

    @property
    def hub(self) -> Hub:
        if self._hub is None:
            self._hub = restante.open(self._folder, settings=self._settings)
        return self._hub

    def prepare(self, table: pa.Table) -> pa.Table:
        return table

    def publish(self, prepared: pa.Table) -> None:
        receipt = self.hub.producer.send(prepared)
        assert receipt.accepted == prepared.num_rows, receipt

    def publish_again(self, prepared: pa.Table) -> None:
        receipt = self.hub.producer.send(prepared)
        assert receipt.duplicates == prepared.num_rows, receipt

    def singles(self, table: pa.Table, *, waiting: int, warm_up: int) -> float:
        messages = as_messages(table)
        self.close()  # the folder is opened by one hub at a time
        return asyncio.run(self._singles(messages, waiting=waiting, warm_up=warm_up))

    async def _singles(self, messages: Sequence[Message], *, waiting: int, warm_up: int) -> float:
        warm = waiting * warm_up
        async with restante.aio.open(self._folder, settings=self._settings) as hub:
            await _send_each(hub.producer, messages[:warm], waiting)
            start = time.perf_counter()
            await _send_each(hub.producer, messages[warm:], waiting)
            return time.perf_counter() - start

    def peek(self, recipient: str) -> Taken:
        bundle = self.hub.recipient(recipient).peek()
        assert bundle is not None
        return Taken(bundle.raw_table.num_rows, bundle)

    def dequeue(self, taken: Taken) -> None:
        taken.handle.dequeue()

    def settle(self) -> None:
        self.hub.file()

    def reopen(self) -> None:
        self.close()
        assert self.hub is not None

    def close(self) -> None:
        if self._hub is not None:
            self._hub.close()
            self._hub = None


async def _send_each(producer: Producer, messages: Sequence[Message], waiting: int) -> None:
    """Send in so many tasks, each of which sends its share one after the other."""

    async def send(share: Sequence[Message]) -> None:
        for message in share:
            await producer.send(message)

    await asyncio.gather(*(send(messages[first::waiting]) for first in range(waiting)))
