"""A faulty network between a producer and a real hub: it loses requests and answers, delivers late or twice, and cuts.

It is a link like any other. Everything that arrives at the hub is told to the model of the rules too, in the same order,
and must be answered as the model answers it; so the model knows the truth about what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec
import pyarrow as pa

from restante.calls.call import Answer, Call
from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.transport.link import Link
from restante.errors import OutcomeUnknown, RestanteError, Unavailable
from restante.model.mailboxes.answers import ProducerState, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.model.publishing.message import Message
from tests.producers.model import NUMBERS, Letter, Model, Numbers

T = TypeVar("T")


class Fate(NamedTuple):
    """What becomes of one call."""

    request: str
    """It `arrives`, is `lost`, cannot even leave (`unsent`), or arrives `late`; or it arrives `twice`, once late."""
    answered: bool = True
    interrupted: bool = False
    """The caller is interrupted instead of waiting for an answer."""
    after_calls: int = 0
    """How many other calls are let past before what is late."""
    behind: bool = False
    """Whether what is late arrives after the last of these calls, rather than before it."""


FINE = Fate("arrives")


class Delivery(NamedTuple):
    """Letters that the hub has accepted, and the number of the first."""

    letters: tuple[Letter, ...]
    first: int


@dataclass
class Late:
    deliver: Callable[[], object]
    calls_left: int
    behind: bool


class Network:
    """The link of a producer. `hub` is what is behind it, and may be opened anew."""

    def __init__(self, hub: Link, model: Model, *, strips_ids: bool) -> None:
        self.hub = hub
        self.model = model
        self.fates: list[Fate] = []
        self.accepted: list[Delivery] = []
        self.late: list[Late] = []
        self._strips_ids = strips_ids

    def _publish(self, call: Publish) -> Receipt:
        partition, producer = call.partition, call.producer
        assert partition is not None
        assert producer is not None
        assert call.batch is None, "this network carries no batches"
        messages = tuple(self._copied(message) for message in _listed(call.sent))
        return self._call(lambda: self.arrive(partition, messages, producer))

    def call(self, call: Call[Answer]) -> Answer:
        """The calls of producers have their fates; all others are not for producers, and go through."""
        if isinstance(call, Publish):
            return cast("Answer", self._publish(call))
        if isinstance(call, OpenLink):
            return cast("Answer", self._call(lambda: self._linked(call)))
        if isinstance(call, ReadProducer):
            return cast("Answer", self._call(lambda: self.hub.call(call)))
        return self.hub.call(call)

    def _linked(self, call: OpenLink) -> ProducerState:
        assert call.producer_group is not None, "the machine's producers have groups of their own"
        refusal = self.model.link(
            call.partition, call.producer_group, call.owner_level, call.last_published_sequence_number
        )
        answer = _outcome(lambda: self.hub.call(call))
        if isinstance(answer, RestanteError):
            assert refusal is not None and answer.code == refusal.code  # noqa: PT018 - one claim
            raise answer
        assert refusal is None
        return answer

    def close(self) -> None:
        """The hub behind it stays open."""

    def __getattr__(self, name: str) -> Any:
        """Everything else is not for producers, and goes through."""
        return getattr(self.hub, name)

    def settle(self) -> None:
        """Whatever is still on its way arrives."""
        while self.late:
            self._deliver_late(self.late.pop(0))

    def arrive(self, partition: int, messages: tuple[Message, ...], producer: ProducerNumbers) -> Receipt:
        """A parcel arrives at the hub."""
        letters = tuple(Letter(message.recipient, bytes(message.data).decode(), message.id) for message in messages)
        numbers = Numbers(producer.group, producer.owner_level, producer.published_sequence)
        objections = [refusal.code for refusal in self.model.objections(partition, letters, numbers)]
        receipt = _outcome(lambda: self.hub.call(Publish.of(messages, partition=partition, producer=producer)))
        if isinstance(receipt, RestanteError):
            assert receipt.code in objections, f"{receipt!r} for {letters} under {numbers}; not {objections}"
            raise receipt
        assert objections == [], f"{receipt} for {letters} under {numbers}"
        answer = self.model.publish(partition, letters, numbers)
        assert (receipt.accepted, receipt.duplicates, receipt.replayed) == (
            answer.accepted,
            answer.duplicates,
            answer.replayed,
        )
        if not receipt.replayed:
            self.accepted.append(Delivery(letters, numbers.first))
        return receipt

    def numbers_of(self, letter: Letter) -> set[int]:
        """The numbers under which a letter was accepted."""
        return {
            (delivery.first + place) % NUMBERS
            for delivery in self.accepted
            for place, accepted in enumerate(delivery.letters)
            if accepted == letter
        }

    def _copied(self, message: Message) -> Message:
        """As it is now: what is late must not change on its way."""
        copy = msgspec.structs.replace(message)
        return msgspec.structs.replace(copy, id=None) if self._strips_ids else copy

    def _call(self, arrive: Callable[[], T]) -> T:
        fate = self.fates.pop(0) if self.fates else FINE
        due = self._due()
        for one in due:
            if not one.behind:
                self._deliver_late(one)
        try:
            return self._carried(arrive, fate)
        finally:
            for one in due:
                if one.behind:
                    self._deliver_late(one)

    def _due(self) -> list[Late]:
        for one in self.late:
            one.calls_left -= 1
        due = [one for one in self.late if one.calls_left < 0]
        self.late = [one for one in self.late if one.calls_left >= 0]
        return due

    def _carried(self, arrive: Callable[[], T], fate: Fate) -> T:
        if fate.request == "unsent":
            raise Unavailable("The hub cannot be reached.")
        if fate.request in ("late", "twice"):
            self.late.append(Late(arrive, fate.after_calls, fate.behind))
        answer: T | None = None
        failure: RestanteError | None = None
        if fate.request in ("arrives", "twice"):
            try:
                answer = arrive()
            except RestanteError as error:
                failure = error
        if fate.interrupted:
            raise KeyboardInterrupt
        if not fate.answered or fate.request in ("lost", "late"):
            raise OutcomeUnknown("No answer came.")
        if failure is not None:
            raise failure
        assert answer is not None
        return answer

    def _deliver_late(self, late: Late) -> None:
        try:
            late.deliver()
        except RestanteError:
            return


class AsyncNetwork:
    """The same for an asynchronous producer; who is interrupted is cancelled."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def call(self, call: Call[Answer]) -> Answer:
        return await self._called(lambda: self._network.call(call))

    async def close(self) -> None:
        """The hub behind it stays open."""

    async def _called(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        try:
            return call()
        except KeyboardInterrupt:
            raise asyncio.CancelledError from None


def _outcome(act: Callable[[], T]) -> T | RestanteError:
    try:
        return act()
    except RestanteError as error:
        return error


def _listed(sent: Few | Many | EncodedPublish) -> Sequence[Message]:
    if isinstance(sent, Few):
        return sent.messages
    assert isinstance(sent, Many)
    table = sent.content
    assert isinstance(table, pa.Table)
    return [Message(recipient=row["recipient"], data=row["data"], id=_text(row["id"])) for row in table.to_pylist()]


def _text(message_id: object) -> str | None:
    """Columns may hold ids as bytes."""
    return str(UUID(bytes=message_id)) if isinstance(message_id, bytes) else cast(str | None, message_id)
