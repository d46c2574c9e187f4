"""A producer before a faulty network, against the model: what it says is true, and nothing is lost, doubled or swallowed.

Whatever the network does and whenever the producer is interrupted or starts again: what was acknowledged is stored once
and in its order; what the producer calls published is stored under these numbers; what it calls free is not stored, and
nothing that is still on its way changes that. Where ids are taken away on the way to the hub, numbers alone must do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, cast
from uuid import uuid4

import msgspec
import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import restante
from restante.calls.producers import OpenLink
from restante.client.producers import producer_async, producer_sync
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.publishing.parcel import Parcel
from restante.client.surface import asynchronous, sync
from restante.client.transport.link import AsyncLink, Link
from restante.errors import (
    InvalidClientState,
    InvalidOperation,
    LinkRefused,
    OutcomeUnknown,
    ProducerDisconnected,
    RestanteError,
    Unavailable,
)
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.hub.engines import FakeClock
from tests.producers.desk import link_of, table_of
from tests.producers.machines import Step, Weighted, drive, drive_for_long, weighted
from tests.producers.model import NUMBERS, Letter, Model
from tests.producers.network import AsyncNetwork, Fate, Network
from tests.profiles import by_profile

EXAMPLES = by_profile(dev=2, ci=7)
SHRINKING_SECONDS = 900

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False)
PARTITION = 0
GROUP = 5
PATIENCE: dict[str, Any] = {"retry_total": 1, "retry_backoff_factor": 0, "retry_backoff_max": 0}

REQUESTS = st.sampled_from(["arrives"] * 6 + ["lost"] * 3 + ["late"] * 4 + ["twice", "unsent", "unsent"])
TROUBLE = st.lists(
    st.builds(
        Fate,
        request=REQUESTS,
        answered=st.sampled_from([True, True, False]),
        interrupted=st.sampled_from([False] * 5 + [True]),
        after_calls=st.sampled_from([0, 0, 0, 1, 1, 2, 3, 6]),
        behind=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
FATES = st.one_of(st.just(list[Fate]()), TROUBLE, TROUBLE)
COUNT = st.integers(1, 3)
PICK = st.integers(0, 1_000)

STEPS: Weighted = [
    (8, "send_a_parcel", {"count": COUNT, "fates": FATES}),
    (5, "send_messages", {"count": COUNT, "as_table": st.sampled_from([False, False, True]), "fates": FATES}),
    (8, "send_the_same_again", {"pick": PICK, "fates": FATES}),
    (2, "send_messages_of_one_in_another", {"pick": PICK, "count": st.integers(0, 2), "fates": FATES}),
    (1, "send_a_twin", {"pick": PICK, "fates": FATES}),
    (2, "start_again", {"with_parcels": st.booleans()}),
    (1, "take_over", {"goes_on": st.booleans()}),
    (1, "let_the_fenced_one_send", {"count": COUNT}),
    (1, "publish_plainly", {}),
    (2, "let_all_arrive", {}),
    (1, "reopen_the_hub", {}),
    (1, "ask_how_it_stands", {"fates": FATES}),
]


class Sending:
    """Something that an application wants to be stored, and what it was told about it."""

    def __init__(self, sent: Parcel | list[Message] | Any, messages: tuple[Message, ...]) -> None:
        self.sent = sent
        self.messages = messages
        self.outcome = "new"
        """Or `stored`, `unknown`, `refused`, also for good by a fence; `abandoned` by an application that forgot it."""
        self.first_tried = 0
        self.acknowledged = 0
        self.loaded = False
        """Whether it is a parcel of a former life."""

    @property
    def parcel(self) -> Parcel | None:
        return self.sent if isinstance(self.sent, Parcel) else None


class SyncDoor:
    def __init__(self, network: Network, configuration: PartitionPublishingConfiguration) -> None:
        self.client = producer_sync.ProducerClient(
            sync.Hub(cast(Link, network)),
            enable_idempotent_partitions=True,
            partition_config={PARTITION: configuration},
            **PATIENCE,
        )

    def do(self, act: Callable[[Any], Any]) -> Any:
        return act(self.client)

    def close(self) -> None:
        self.client.close()


class AsyncDoor:
    """An asynchronous producer, with an event loop of its own."""

    def __init__(self, network: Network, configuration: PartitionPublishingConfiguration) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(self._made(network, configuration))

    async def _made(self, network: Network, configuration: PartitionPublishingConfiguration) -> Any:
        return producer_async.ProducerClient(
            asynchronous.Hub(cast(AsyncLink, AsyncNetwork(network))),
            enable_idempotent_partitions=True,
            partition_config={PARTITION: configuration},
            **PATIENCE,
        )

    def do(self, act: Callable[[Any], Any]) -> Any:
        found = act(self.client)
        return self.loop.run_until_complete(found) if isinstance(found, Coroutine) else found

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


class Application(RuleBasedStateMachine):
    """An application with one producer, which sends again what it has no answer for, or something else."""

    door: ClassVar[type[SyncDoor] | type[AsyncDoor]] = SyncDoor
    strips_ids: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.clock = FakeClock()
        self.hub = restante.open(None, store=self.store, settings=SETTINGS, clock=self.clock)
        self.network = Network(link_of(self.hub), Model(), strips_ids=self.strips_ids)
        self.sendings: list[Sending] = []
        self.fenced: list[SyncDoor | AsyncDoor] = []
        self.time = 0
        self.written = 0
        self.out_of_step = False
        self.former_life = False
        """Whether something may still arrive that this producer does not know of, though it is of its group and level."""
        self.comes_back = False
        """Whether the producer goes on from a saved state, and nothing of it was stored since."""
        self.producer: SyncDoor | AsyncDoor | None = None

    @initialize(off=st.sampled_from([None, 0, 1, 2, 5]))
    def begin(self, off: int | None) -> None:
        """At the very beginning, or near the largest number."""
        self.level, last = 0, None
        if off is not None:
            self.level, last = 1, NUMBERS - 1 - off
            self.network.call(OpenLink(PARTITION, GROUP))
            self.network.call(OpenLink(PARTITION, GROUP, 1, last))
        self.producer = self.door(self.network, PartitionPublishingConfiguration(GROUP, self.level, last))

    def teardown(self) -> None:
        for producer in [*self.fenced, self.producer]:
            if producer is not None:
                producer.close()
        self.network.settle()
        self.what_is_said_is_true()
        self.hub.close()

    @rule(step=weighted(STEPS))
    def do(self, step: Step) -> None:
        getattr(self, step.what)(**step.how)

    # Sending.

    def send_a_parcel(self, count: int, fates: list[Fate]) -> None:
        parcel = self._ask(lambda client: client.create_parcel(PARTITION))
        messages = self._messages(count)
        assert all(parcel.try_add(message) for message in messages)
        self._send_new(Sending(parcel, messages), fates)

    def send_messages(self, count: int, as_table: bool, fates: list[Fate]) -> None:
        messages = self._messages(count)
        if as_table:
            # The producer would give ids to rows that nobody here could see.
            messages = tuple(msgspec.structs.replace(one, id=str(uuid4())) for one in messages)
        self._send_new(Sending(table_of(messages) if as_table else list(messages), messages), fates)

    def send_the_same_again(self, pick: int, fates: list[Fate]) -> None:
        """What is unknown, what was refused, or something published, which is no harm."""
        wanted = [sending for sending in self.sendings if sending.outcome in ("unknown", "refused")]
        if not wanted:
            wanted = [one for one in self.sendings if one.outcome == "stored" and isinstance(one.sent, list | Parcel)]
        if wanted:
            self._send(wanted[pick % len(wanted)], fates)

    def send_messages_of_one_in_another(self, pick: int, count: int, fates: list[Fate]) -> None:
        """Messages of which nobody knows whether they are stored, together with others."""
        unknown = [one for one in self.sendings if one.outcome == "unknown" and isinstance(one.sent, list)]
        if unknown:
            messages = (*unknown[pick % len(unknown)].messages, *self._messages(count + 1))
            self._send_new(Sending(list(messages), messages), fates)

    def send_a_twin(self, pick: int, fates: list[Fate]) -> None:
        """Other messages that say the very same: they are stored too, for they have ids of their own.

        Not in the first send after a crash: then a parcel is known by what it says, as the application may have made it anew.
        """
        if self.strips_ids or not self.sendings or self.comes_back:
            return
        texts = self.sendings[pick % len(self.sendings)].messages
        messages = tuple(Message(recipient=one.recipient, data=one.data) for one in texts)
        self._send_new(Sending(list(messages), messages), fates)

    def _messages(self, count: int) -> tuple[Message, ...]:
        self.written += count
        numbers = range(self.written - count, self.written)
        return tuple(Message(recipient="ada", data=f"letter {number}".encode()) for number in numbers)

    def _send_new(self, sending: Sending, fates: list[Fate]) -> None:
        self.sendings.append(sending)
        sending.first_tried = self.time
        self._send(sending, fates)

    def _send(self, sending: Sending, fates: list[Fate]) -> None:
        self.time += 1
        if sending.outcome == "refused":
            sending.first_tried = self.time
        calm = not fates and not self.network.late
        self.network.fates = list(fates)
        before = sending.outcome
        try:
            receipt = self._ask(lambda client: _sent(client, sending))
        except (OutcomeUnknown, KeyboardInterrupt, asyncio.CancelledError):
            assert not calm
            sending.outcome = "unknown"
        except InvalidOperation:
            self._not_allowed(sending, before)
        except LinkRefused:
            assert before != "unknown" or not _is_numbered(sending)
            sending.outcome = self._refused(sending, before)
            self._start(with_parcels=True, goes_on=False)
        except Unavailable:
            assert not calm
            sending.outcome = self._refused(sending, before)
        except InvalidClientState:
            assert not (self.out_of_step and calm), "after one refusal, hub and producer agree again"
            assert before == "unknown" or self.former_life, "who is alone in a group is in step with the hub"
            self.out_of_step = before != "unknown"
            sending.outcome = self._refused(sending, before)
            if self.strips_ids and sending.loaded:
                # Others went first in this life, so its numbers no longer tell whether it is stored: its ids would.
                sending.outcome = "abandoned"
        else:
            self.out_of_step = self.comes_back = False
            assert receipt.accepted + receipt.duplicates == len(sending.messages)
            sending.outcome, sending.acknowledged = "stored", self.time
        assert before != "stored" or sending.outcome == "stored"
        self.network.fates = []
        event(f"{before}: {sending.outcome}")

    def _refused(self, sending: Sending, before: str) -> str:
        """What was unknown stays so, unless the parcel says otherwise."""
        if before == "unknown" and (sending.parcel is None or sending.parcel.locked):
            return "unknown"
        return "refused"

    def _not_allowed(self, sending: Sending, before: str) -> None:
        """Something in it is published already. If it is not all of it, this has not been sent."""
        published = [one.published_sequence_number is not None for one in _known(sending)]
        assert any(published) or before == "stored"
        if before in ("new", "refused"):
            sending.outcome = "refused"

    # Starting again, and taking over.

    def start_again(self, with_parcels: bool) -> None:
        """The producer crashes. The application goes on with its saved state, and with its parcels or without them."""
        self._start(with_parcels=with_parcels, goes_on=with_parcels)

    def _start(self, *, with_parcels: bool, goes_on: bool) -> None:
        """Going on after the saved number, or where the hub is."""
        assert self.producer is not None
        state = self._ask(lambda client: client.state())[PARTITION]
        self.producer.close()
        self._keep_parcels(with_parcels=with_parcels)
        self.former_life = self.former_life or bool(self.network.late)
        self.comes_back = goes_on
        if not goes_on:
            state = msgspec.structs.replace(state, starting_sequence_number=None)
        self.producer = self.door(self.network, state)

    def _keep_parcels(self, *, with_parcels: bool) -> None:
        for sending in self.sendings:
            parcel = sending.parcel
            if sending.outcome in ("unknown", "refused") and with_parcels and parcel is not None:
                sending.sent, sending.loaded = Parcel.load(parcel.dump()), True
            elif sending.outcome != "stored" or parcel is None:
                sending.outcome = "abandoned"

    def take_over(self, goes_on: bool) -> None:
        """Another producer with a higher owner level; the one before does not know of it."""
        assert self.producer is not None
        self.fenced.append(self.producer)
        self.level += 1
        self.former_life = False
        known = self.network.model.group(PARTITION, GROUP)
        last = known.last if known is not None and goes_on else None
        # With ids, what is unknown may be given to the new producer; without them it must be forgotten.
        self._keep_parcels(with_parcels=not self.strips_ids)
        self.network.call(OpenLink(PARTITION, GROUP, self.level, last))
        self.producer = self.door(self.network, PartitionPublishingConfiguration(GROUP, self.level, last))

    def let_the_fenced_one_send(self, count: int) -> None:
        """It is told so, and nothing of it is ever stored."""
        for producer in self.fenced[-1:]:
            messages = self._messages(count)
            with pytest.raises(ProducerDisconnected):
                producer.do(partial(_send_messages, messages))
            sending = Sending(list(messages), messages)
            sending.outcome = "refused by a fence"
            self.sendings.append(sending)

    # The world around.

    def publish_plainly(self) -> None:
        (message,) = self._messages(1)
        self.hub.producer.send(message)
        self.network.model.publish(PARTITION, (Letter("ada", bytes(message.data).decode()),), None)

    def let_all_arrive(self) -> None:
        self.network.settle()

    def reopen_the_hub(self) -> None:
        self.hub.close()
        self.store = self.store.survivor()
        self.hub = restante.open(None, store=self.store, settings=SETTINGS, clock=self.clock)
        self.network.hub = link_of(self.hub)

    def ask_how_it_stands(self, fates: list[Fate]) -> None:
        self.network.fates = list(fates)
        try:
            properties = self._ask(lambda client: client.get_partition_publishing_properties(PARTITION))
        except (RestanteError, KeyboardInterrupt, asyncio.CancelledError):
            return
        finally:
            self.network.fates = []
        assert (properties.producer_group_id, properties.owner_level) == (GROUP, self.level)

    def _ask(self, act: Callable[[Any], Any]) -> Any:
        assert self.producer is not None
        return self.producer.do(act)

    # What must be true.

    @invariant()
    def what_is_said_is_true(self) -> None:
        for sending in self.sendings:
            if sending.outcome == "stored":
                assert self._stored(sending), f"acknowledged, and not stored: {sending.messages}"
            if sending.outcome.startswith("refused"):
                assert not self._stored(sending), f"refused, and stored: {sending.messages}"
            if sending.outcome != "abandoned" and sending.parcel is not None:
                self._parcel_is_right(sending, sending.parcel)
            for message in _known(sending):
                if message.published_sequence_number is not None:
                    assert message.published_sequence_number in self.network.numbers_of(self._letter(message))

    def _parcel_is_right(self, sending: Sending, parcel: Parcel) -> None:
        stored = self._stored(sending)
        if parcel.published:
            assert stored, f"called published, and not stored: {parcel.messages}"
            first = parcel.starting_published_sequence_number
            assert first in self.network.numbers_of(self._letter(parcel.messages[0]))
        elif not parcel.locked:
            assert not stored, f"called free, and stored: {parcel.messages}"

    @invariant()
    def nothing_is_stored_twice(self) -> None:
        history = self.hub.recipient("ada").history(limit=1_000).messages
        texts = [bytes(message.data).decode() for message in history]
        assert texts == self.network.model.texts(PARTITION, "ada")
        if self.strips_ids:
            assert len(texts) == len(set(texts)), f"stored twice: {texts}"

    @invariant()
    def the_order_is_kept(self) -> None:
        """Who was acknowledged before another was tried stands before it."""
        places = {letter: place for place, letter in enumerate(self.network.model.stored.get(PARTITION, []))}
        known = [sending for sending in self.sendings if sending.outcome == "stored"]
        for sending in known:
            own = [places[self._letter(message)] for message in sending.messages]
            assert own == sorted(own)
            for later in known:
                if sending.acknowledged < later.first_tried:
                    assert own[-1] < places[self._letter(later.messages[0])]

    def _stored(self, sending: Sending) -> bool:
        letters = tuple(map(self._letter, _known(sending)))
        return any(delivery.letters == letters for delivery in self.network.accepted)

    def _letter(self, message: Message) -> Letter:
        own_id = None if self.strips_ids else message.id
        return Letter(message.recipient, bytes(message.data).decode(), own_id)


def _sent(client: Any, sending: Sending) -> Any:
    if sending.parcel is not None:
        return client.send_parcel(sending.parcel)
    return client.send_messages(sending.sent, partition=PARTITION)


def _is_numbered(sending: Sending) -> bool:
    return sending.parcel is not None and sending.parcel.numbers is not None


def _send_messages(messages: tuple[Message, ...], client: Any) -> Any:
    return client.send_messages(list(messages), partition=PARTITION)


def _known(sending: Sending) -> tuple[Message, ...]:
    """The messages as the producer shows them: of columns it has made its own."""
    return sending.parcel.messages if sending.parcel is not None else sending.messages


def _quiet_network() -> Network:
    hub = restante.open(None, store=MemoryStore(), settings=SETTINGS, clock=FakeClock())
    return Network(link_of(hub), Model(), strips_ids=False)


def _written(text: str) -> list[Message]:
    return [Message(recipient="ada", data=text.encode())]


@pytest.mark.parametrize("door", [SyncDoor, AsyncDoor])
def test_a_parcel_of_a_former_life_that_arrives_late_has_one_send_refused_and_no_more(
    door: type[SyncDoor] | type[AsyncDoor],
) -> None:
    network = _quiet_network()
    former = door(network, PartitionPublishingConfiguration(GROUP, 0, None))
    former.do(lambda client: client.send_messages(_written("first"), partition=PARTITION))
    network.fates = [Fate("late", after_calls=99)] * 2
    with pytest.raises(OutcomeUnknown):
        former.do(lambda client: client.send_messages(_written("late"), partition=PARTITION))
    former.close()

    producer = door(network, PartitionPublishingConfiguration(GROUP, 0, None))
    linked = producer.do(lambda client: client.get_partition_publishing_properties(PARTITION))
    assert linked.last_published_sequence_number == 0
    network.settle()
    with pytest.raises(InvalidClientState):
        producer.do(lambda client: client.send_messages(_written("refused"), partition=PARTITION))
    assert producer.do(lambda client: client.send_messages(_written("stored"), partition=PARTITION)).accepted == 1
    producer.close()
    assert network.model.texts(PARTITION, "ada") == ["first", "late", "stored"]
    network.hub.close()


VARIANTS = [
    pytest.param(door, strips_ids, id=f"{name}-{'numbers alone' if strips_ids else 'with ids'}")
    for name, door in (("sync", SyncDoor), ("async", AsyncDoor))
    for strips_ids in (True, False)
]


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize(("door", "strips_ids"), VARIANTS)
def test_what_a_producer_says_is_true_whatever_the_network_does(door: type[SyncDoor], strips_ids: bool) -> None:
    drive(Application, campaigns=1, examples=EXAMPLES, door=door, strips_ids=strips_ids)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("door", "strips_ids"), VARIANTS)
def test_what_a_producer_says_is_true_for_long(door: type[SyncDoor], strips_ids: bool) -> None:
    drive_for_long(Application, door=door, strips_ids=strips_ids)
