"""Why numbers are not used again after an unknown outcome: a producer that does so loses messages.

The rule of the original leaves a producer's state as it was when a send got no answer, so what it sends next gets the
same numbers; and its hub acknowledges numbers that it knows without a look at the messages. Here both are played.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import restante
from restante import errors
from restante.assembly import open_hub
from restante.calls.call import Call
from restante.calls.mailboxes import ReadHistory
from restante.calls.producers import ReadProducer
from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.hub.door.hub import OpenHub
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers, following
from restante.model.publishing.few_or_many import Few
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore

GROUP = 7


class TrustingHub:
    """A real hub, but numbers that it knows are acknowledged unseen; and an answer is lost when the test says so."""

    def __init__(self, hub: OpenHub) -> None:
        self._hub = hub
        self.lose_answer = False

    def call(self, call: Call[Any]) -> Any:
        return self._publish(call) if isinstance(call, Publish) else self._hub.call(call)

    def _publish(self, call: Publish) -> Receipt:
        partition, producer = call.partition, call.producer
        assert partition is not None
        assert producer is not None
        assert call.batch is None, "no batch is named here"
        assert isinstance(call.sent, Few)
        messages = list(call.sent.messages)
        receipt = self._known(messages, partition, producer)
        if receipt is None:
            receipt = self._hub.call(Publish.of(messages, partition=partition, producer=producer))
        if self.lose_answer:
            self.lose_answer = False
            raise errors.OutcomeUnknown("The answer was lost.")
        return receipt

    def _known(self, messages: list[Message], partition: int, producer: ProducerNumbers) -> Receipt | None:
        try:
            last = self._hub.call(ReadProducer(partition, producer.group)).last_published_sequence_number
        except errors.ProducerUnknown:
            return None
        if last != following(producer.published_sequence, len(messages) - 1):
            return None
        return Receipt(accepted=len(messages), duplicates=0, partitions=(), replayed=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)


class ByTheOldRule:
    """Goes on after what was acknowledged: a send without an answer changes nothing."""

    def __init__(self, hub: TrustingHub) -> None:
        self._hub = hub
        self._next = 0

    def send(self, message: Message) -> None:
        numbers = ProducerNumbers(group=GROUP, owner_level=0, published_sequence=self._next)
        self._hub.call(Publish.of([message], partition=0, producer=numbers))
        self._next += 1


class Ours:
    def __init__(self, hub: TrustingHub) -> None:
        link: Any = hub
        self._producer = restante.ProducerClient(sync.Hub(link), enable_idempotent_partitions=True, retry_total=0)

    def send(self, message: Message) -> None:
        self._producer.send_messages(message, partition=0)


@pytest.fixture
def hub() -> Iterator[OpenHub]:
    opened = open_hub(None, settings=Settings(partition_count=1, housekeeping_seconds=0), store=MemoryStore())
    yield opened
    opened.close()


def play(hub: OpenHub, producer: type[ByTheOldRule | Ours]) -> tuple[list[object], list[object]]:
    """What was acknowledged, and what is stored."""
    trusting = TrustingHub(hub)
    sending = producer(trusting)
    acknowledged: list[object] = []
    for text in ("first", "second", "third", "fourth"):
        trusting.lose_answer = text == "second"
        try:
            sending.send(Message(recipient="ada", data=text))
            acknowledged.append(text)
        except errors.OutcomeUnknown:
            continue
    return acknowledged, [message.data for message in hub.call(ReadHistory("ada")).messages]


def test_by_the_old_rule_an_acknowledged_message_is_lost(hub: OpenHub) -> None:
    acknowledged, stored = play(hub, ByTheOldRule)
    assert acknowledged == ["first", "third", "fourth"]
    assert stored == ["first", "second", "fourth"], "the third took the second's number, and was taken for it"


def test_our_producer_loses_nothing_even_where_the_hub_trusts_numbers(hub: OpenHub) -> None:
    acknowledged, stored = play(hub, Ours)
    assert acknowledged == ["first", "third", "fourth"]
    assert stored == ["first", "second", "third", "fourth"]
