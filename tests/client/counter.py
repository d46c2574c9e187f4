"""A post-office counter made of the model's own rules, and dialogues of a producer led to it by hand.

What happens to each attempt is decided by the test: it may get lost on its way, its answer may, or it may arrive later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.producers.lane import Lane
from restante.client.producers.numbered_sends import Prepare, Producing, SendPatience, send
from restante.client.publishing.parcel import Parcel
from restante.client.transport.exchange import LongWork, Pause
from restante.client.transport.options import Retrying
from restante.errors import OutcomeUnknown, ProducerUnknown, RestanteError, Unavailable
from restante.model.mailboxes.answers import PartitionReceipt, ProducerState, Receipt
from restante.model.producers.parcel_digest import Digests
from restante.model.producers.producer import (
    ProducerNumbers,
    ProducerRow,
    Standing,
    repeated,
    row_after,
    row_linked,
    standing,
)
from restante.model.producers.producer import state_of as state_of_row
from restante.model.publishing.few_or_many import Few, few_or_many
from restante.model.publishing.message import Message

T = TypeVar("T")

PARTITION = 3
GROUP = 77

Fate = Callable[[], RestanteError] | None
"""What becomes of an attempt instead of its answer."""


def lost() -> RestanteError:
    """No answer came."""
    return OutcomeUnknown("No answer came.")


def unreached() -> RestanteError:
    return Unavailable("There is no connection.")


@dataclass
class Counter:
    """One partition of a hub."""

    row: ProducerRow | None = None
    stored: list[object] = field(default_factory=list)
    """The data of each message, in order."""
    ids: set[str | None] = field(default_factory=set)

    def publish(self, messages: list[Message], numbers: ProducerNumbers | None) -> Receipt:
        assert numbers is not None
        content = repr([message.data for message in messages]).encode()
        digests = Digests(content, content + repr([message.id for message in messages]).encode())
        if standing(self.row, numbers, len(messages)) is Standing.SAME_NUMBERS:
            assert self.row is not None
            receipt = repeated(self.row, numbers, digests, PARTITION)
        else:
            receipt = self._store(messages)
        self.row = row_after(self.row, numbers, receipt, digests, 0)
        return receipt

    def _store(self, messages: list[Message]) -> Receipt:
        fresh = [message for message in messages if message.id not in self.ids]
        first = len(self.stored) + 1
        self.stored += [message.data for message in fresh]
        self.ids |= {message.id for message in fresh}
        own = PartitionReceipt(partition=PARTITION, first_sequence_number=first, last_sequence_number=len(self.stored))
        partitions = (own,) if fresh else ()
        return Receipt(accepted=len(fresh), duplicates=len(messages) - len(fresh), partitions=partitions)

    def link(self, step: OpenLink) -> ProducerState:
        group = GROUP if step.producer_group is None else step.producer_group
        self.row = row_linked(self.row, group, step.owner_level, step.last_published_sequence_number, 0)
        return state_of_row(self.row, step.partition, group)

    def state(self, step: ReadProducer) -> ProducerState:
        if self.row is None:
            raise ProducerUnknown("There is none.")
        return state_of_row(self.row, step.partition, step.producer_group)


@dataclass
class Trip:
    """Leads dialogues to a counter. `fates` are of the next attempts, in turn; None lets one through."""

    counter: Counter = field(default_factory=Counter)
    fates: list[str] = field(default_factory=list)
    """`lost` before it arrived, `silent` after it was done, `late` for one that arrives when the test says, or `fine`."""
    retrying: Retrying = field(default_factory=lambda: Retrying(times=0))
    steps: list[object] = field(default_factory=list)
    late: list[Publish] = field(default_factory=list)
    before: dict[int, Callable[[], object]] = field(default_factory=dict)
    """What happens just before the attempt of this number, counted from 0."""
    pauses: list[float] = field(default_factory=list)
    now: float = 1_000.0
    giving_up: bool = False

    @property
    def patience(self) -> SendPatience:
        return SendPatience(retrying=self.retrying, clock=lambda: self.now, chance=lambda: 0.0)

    @property
    def kinds(self) -> list[type]:
        """What was asked, but for preparations and pauses."""
        return [type(step) for step in self.steps if isinstance(step, OpenLink | ReadProducer | Publish)]

    @property
    def numbers(self) -> list[int]:
        """The first number of each attempt to publish."""
        return [
            step.producer.published_sequence
            for step in self.steps
            if isinstance(step, Publish) and step.producer is not None
        ]

    def lead(self, dialogue: Producing[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            self.steps.append(step)
            reply = self._reply(step)

    def send(self, lane: Lane, parcel: Parcel) -> Receipt:
        return self.lead(send(lane, parcel, self.patience))

    def arrive(self) -> Receipt:
        """The oldest late attempt arrives now."""
        return self._publish(self.late.pop(0))

    def _reply(self, step: object) -> object:
        if isinstance(step, Prepare):
            step.parcel.identify()
            return few_or_many(step.parcel.messages)
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return self.giving_up
        if isinstance(step, LongWork):
            return step.function()
        try:
            return self._attempt(step)
        except RestanteError as error:
            return error

    def _attempt(self, step: object) -> object:
        happening = self.before.pop(len(self.kinds) - 1, None)
        if happening is not None:
            happening()
        fate = self.fates.pop(0) if self.fates else "fine"
        if fate == "unreached":
            raise unreached()
        if fate == "late":
            assert isinstance(step, Publish)
            self.late.append(step)
        if fate in ("lost", "late"):
            raise lost()
        answer = self._done(step)
        if fate == "silent":
            raise lost()
        return answer

    def _done(self, step: object) -> object:
        if isinstance(step, OpenLink):
            return self.counter.link(step)
        if isinstance(step, ReadProducer):
            return self.counter.state(step)
        assert isinstance(step, Publish)
        return self._publish(step)

    def _publish(self, step: Publish) -> Receipt:
        assert isinstance(step.sent, Few)
        return self.counter.publish(list(step.sent.messages), step.producer)


def lane_of(group: int | None = GROUP, level: int | None = 0, last: int | None = None) -> Lane:
    return Lane(PARTITION, PartitionPublishingConfiguration(group, level, last))


def parcel_of(*data: object) -> Parcel:
    parcel = Parcel(PARTITION)
    for value in data:
        assert parcel.try_add(Message(recipient="ada", data=value))
    return parcel
