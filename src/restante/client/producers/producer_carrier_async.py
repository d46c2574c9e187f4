"""Carrying out the dialogues of a producer, for asynchronous programs: one at a time in each partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.producers.lanes import Lanes
from restante.client.producers.numbered_sends import Prepare, ProducerStep, Producing
from restante.client.publishing.parcel import Parcel
from restante.client.transport.exchange import Pause
from restante.client.transport.link import AsyncLink
from restante.errors import RestanteError
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many

T = TypeVar("T")


class AsyncProducerCarrier:
    """Carries out what is said for each partition in the order of the calls."""

    _link: AsyncLink
    """The link to the hub, over which nothing is tried twice by itself."""
    _frames: Any
    """Where parcels go one after another, if they do."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._turns: dict[int, asyncio.Lock] = {}
        self._closing = asyncio.Event()
        self._encode: Callable[[Few | Many], Few | Many | EncodedPublish] = _unchanged

    async def _end(self) -> None:
        """Let what is under way end."""
        self._closing.set()
        for turn in list(self._turns.values()):
            async with turn:
                pass

    def _turn(self, partition: int) -> asyncio.Lock:
        """The turn of a partition: calls get it in their order."""
        found = self._turns.get(partition)
        return found if found is not None else self._turns.setdefault(partition, asyncio.Lock())

    async def _lead(self, dialogue: Producing[T]) -> T:
        """Carry a dialogue out. If it ends before its time, it is told, for a parcel may be on its way."""
        reply: Any = None
        try:
            self._lanes.check_open()
            while True:
                try:
                    step = dialogue.send(reply)
                except StopIteration as done:
                    answer: T = done.value
                    return answer
                try:
                    reply = await self._perform(step)
                except RestanteError as error:
                    reply = error
        finally:
            dialogue.close()

    async def _perform(self, step: ProducerStep) -> object:
        """The usual steps first: every message comes by here."""
        if isinstance(step, Publish):
            link = self._link if self._frames is None or step.partition is None else self._frames
            return await link.call(step)
        if isinstance(step, Prepare):
            return await self._prepare(step.parcel)
        if isinstance(step, OpenLink | ReadProducer):
            return await self._link.call(step)
        return await (self._pause(step.seconds) if isinstance(step, Pause) else asyncio.to_thread(step.function))

    async def _pause(self, seconds: float) -> bool:
        """Whether the producer is being closed meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _prepare(self, parcel: Parcel) -> object:
        """Many messages are given ids and encoded in a thread, while the event loop goes on."""
        if isinstance(parcel.sent, Few):
            return self._prepared(parcel)
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepared, parcel))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            # The thread goes on with the parcel, so it is held until then.
            await asyncio.wait((preparing,))
            raise
        finally:
            del preparing  # An error holds this frame: with the task, which holds the error, all would be kept.

    def _prepared(self, parcel: Parcel) -> object:
        parcel.identify(copied=not self._lanes.enabled)
        return self._encode(parcel.sent)


def _unchanged(sent: Few | Many) -> Few | Many:
    """A hub in this process takes messages and columns as they are."""
    return sent
