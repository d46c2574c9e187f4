"""Carrying out the dialogues of a producer, for asynchronous programs: one at a time for each partition."""

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
    """Carries out the dialogues for each partition in the order of the calls."""

    _link: AsyncLink
    """The link to the hub, which does not retry."""
    _frames: Any
    """The publish socket of a pipelined producer, or None."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._turns: dict[int, asyncio.Lock] = {}
        self._closing = asyncio.Event()
        self._encode: Callable[[Few | Many], Few | Many | EncodedPublish] = _unchanged

    async def _end(self) -> None:
        """Wait for the dialogues under way."""
        self._closing.set()
        for turn in list(self._turns.values()):
            async with turn:
                pass

    def _turn(self, partition: int) -> asyncio.Lock:
        """The lock of a partition. Calls get it in their order."""
        found = self._turns.get(partition)
        return found if found is not None else self._turns.setdefault(partition, asyncio.Lock())

    async def _lead(self, dialogue: Producing[T]) -> T:
        """Carry out a dialogue. If this is interrupted, the dialogue is closed, which leaves its parcel unresolved."""
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
        """Carry out a step. The most frequent steps come first."""
        if isinstance(step, Publish):
            link = self._link if self._frames is None or step.partition is None else self._frames
            return await link.call(step)
        if isinstance(step, Prepare):
            return await self._prepare(step.parcel)
        if isinstance(step, OpenLink | ReadProducer):
            return await self._link.call(step)
        return await (self._pause(step.seconds) if isinstance(step, Pause) else asyncio.to_thread(step.function))

    async def _pause(self, seconds: float) -> bool:
        """Pause; return whether the producer is being closed."""
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _prepare(self, parcel: Parcel) -> object:
        """Prepare a parcel. Many messages get their ids and are encoded in a thread, so that the event loop goes on."""
        if isinstance(parcel.sent, Few):
            return self._prepared(parcel)
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepared, parcel))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            # The thread is still using the parcel, so hold it until the thread has ended.
            await asyncio.wait((preparing,))
            raise
        finally:
            del preparing  # An error's traceback holds this frame, and the task holds the error: break the cycle.

    def _prepared(self, parcel: Parcel) -> object:
        parcel.identify(copied=not self._lanes.enabled)
        return self._encode(parcel.sent)


def _unchanged(sent: Few | Many) -> Few | Many:
    """Messages and columns as they are, for a hub in this process."""
    return sent
