"""Carrying out the dialogues of a producer, for programs that wait: one at a time for each partition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.concurrency.waits_sync import WaitingLine
from restante.client.producers.lanes import Lanes
from restante.client.producers.numbered_sends import Prepare, ProducerStep, Producing
from restante.client.transport.exchange import Pause
from restante.client.transport.link import Link
from restante.errors import RestanteError
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many

T = TypeVar("T")


class ProducerCarrier:
    """Carries out the dialogues for each partition in the order of the calls."""

    _link: Link
    """The link to the hub, which does not retry."""
    _frames: Any
    """The publish socket of a pipelined producer, or None."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._turns: dict[int, WaitingLine] = {}
        self._closing = threading.Event()
        self._encode: Callable[[Few | Many], Few | Many | EncodedPublish] = _unchanged

    def _end(self) -> None:
        """Wait for the dialogues under way."""
        self._closing.set()
        for turn in list(self._turns.values()):
            with turn:
                pass

    def _turn(self, partition: int) -> WaitingLine:
        found = self._turns.get(partition)
        return found if found is not None else self._turns.setdefault(partition, WaitingLine())

    def _lead(self, dialogue: Producing[T]) -> T:
        """Carry out a dialogue. If this is interrupted, the dialogue is closed, which leaves its parcel unresolved."""
        reply: Any = None
        try:
            self._lanes.check_open()
            while True:
                reply = self._perform(dialogue.send(reply))
        except StopIteration as done:
            answer: T = done.value
            return answer
        finally:
            dialogue.close()

    def _perform(self, step: ProducerStep) -> object:
        """Carry out a step. The most frequent steps come first."""
        try:
            if isinstance(step, Publish):
                link = self._link if self._frames is None or step.partition is None else self._frames
                return link.call(step)
            if isinstance(step, Prepare):
                step.parcel.identify(copied=not self._lanes.enabled)
                return self._encode(step.parcel.sent)
            if isinstance(step, OpenLink | ReadProducer):
                return self._link.call(step)
        except RestanteError as error:
            return error
        return self._closing.wait(step.seconds) if isinstance(step, Pause) else step.function()


def _unchanged(sent: Few | Many) -> Few | Many:
    """Messages and columns as they are, for a hub in this process."""
    return sent
