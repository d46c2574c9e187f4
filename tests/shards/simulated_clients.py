"""Clients of the simulated shards, and the plain model that says what they may see: mail, batches, consignments."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from uuid import UUID

from restante import Message
from restante.calls.batches import OpenBatch, SealBatch
from restante.calls.call import Call
from restante.calls.consignments import BeginConsignment, CommitConsignment, DiscardConsignment
from restante.calls.homes import home_of_call
from restante.calls.mailboxes import Dequeue, Explain, Peek
from restante.calls.publishing import Publish
from restante.calls.shards import NoteParcel, StagedPart, StagePart
from restante.errors import BatchSealed, BatchUnknown, BundleUnknown, ConsignmentClosed, RestanteError, Unavailable
from restante.hub.engine.procedures import Ask, Rest
from restante.hub.publishing.holds import Holds
from restante.model.batches.batch import decode_batch, decode_counts
from restante.model.consignments.consignment import decode_consignment
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.model.mailboxes.answers import BundleAnswer, Reason
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.few_or_many import few_or_many
from restante.model.shards.ranges import shard_of
from restante.model.shards.rounds import decode_prepared, is_held_for
from restante.model.storage.changes import Changes, Space
from restante.model.storage.partition import partition_of
from restante.model.storage.run import RunState, decode_run
from tests.shards.simulation import PARTITIONS, SHARDS, World
from tests.shards.world import names

RECIPIENTS = [name for partition in range(PARTITIONS) for name in names(partition, 1, partitions=PARTITIONS)]
CHAOS, QUIET = 14.0, 45.0
TEXT = "x"
_PATIENCE = 12.0

Steps = Generator[Ask | Rest, Any, Any]


class Broken(AssertionError):
    """A promise was broken."""


def broken_if(condition: object, what: str) -> None:
    if condition:
        raise Broken(what)


class Model:
    """What clients were told, and when."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.attempted: dict[str, set[str]] = {name: set() for name in RECIPIENTS}
        self.stored: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in RECIPIENTS}
        """By recipient and id, when a publish of it began, and when it was acknowledged."""
        self.taken: dict[str, list[str]] = {name: [] for name in RECIPIENTS}
        """By recipient, what was collected, in order."""
        self.leaving: dict[str, set[str]] = {name: set() for name in RECIPIENTS}
        """What somebody has begun to dequeue."""
        self.sealed: dict[str, float] = {}
        """When the seal of a batch was told."""
        self.consignments: dict[str, tuple[list[Message], bool]] = {}
        """What was staged, and whether its commit was answered."""
        self.decided: dict[str, dict[str, float]] = {name: {} for name in RECIPIENTS}
        """By recipient and id, when a consignment with it was decided."""
        self.longest = 0.0
        """For how long somebody was not answered who insisted."""
        self.completed: dict[bytes, int] = {}
        """How many messages a batch had when it became complete."""
        self.early = 0
        """How many messages were pending when their batch became complete."""
        world.watchers.append(self._watch)

    def _watch(self, changes: Changes) -> None:
        """Look at each commit: is a batch complete that has something pending? Is a consignment decided?"""
        for (_, space, key), value in changes.entries.items():
            if space is Space.CONSIGNMENT and value is not None:
                self._note_decided(str(UUID(bytes=key)), value)
            if space is Space.BATCH and value is not None and decode_batch(value).completed_at:
                added, pending = self._bound(key)
                self.early += pending
                self.completed.setdefault(key, added)

    def _note_decided(self, consignment: str, value: bytes) -> None:
        if decode_consignment(value).state is ConsignmentState.COMMITTED:
            for message in self.consignments.get(consignment, ([], False))[0]:
                self.decided[message.recipient].setdefault(str(message.id), self.world.now)

    def _bound(self, batch: bytes) -> tuple[int, int]:
        store, added, pending = self.world.durable, 0, 0
        for partition in range(PARTITIONS):
            value = store.get(partition, Space.BATCH_COUNT, batch)
            if value is not None:
                counts = decode_counts(value)
                added, pending = added + counts.added, pending + counts.bound_pending
            for consignment, held in store.scan(partition, Space.PREPARED):
                row = decode_prepared(held)
                pending += row.messages if is_held_for(row, batch) and self._is_decided(consignment) else 0
        return added, pending

    def _is_decided(self, consignment: bytes) -> bool:
        home = partition_of(str(UUID(bytes=consignment)), PARTITIONS)
        value = self.world.durable.get(home, Space.CONSIGNMENT, consignment)
        return value is not None and decode_consignment(value).state is ConsignmentState.COMMITTED

    def gone(self, recipient: str) -> set[str]:
        """What was collected, or somebody has begun to dequeue."""
        return self.leaving[recipient].union(self.taken[recipient])

    def empty(self, recipient: str, asked_at: float, reason: Reason, gone_before: set[str]) -> None:
        """A peek found nothing: nothing may have been acknowledged before it was asked, and be left; and the reason is true.

        The reason is true of some moment since it was asked: what went meanwhile may have been on its way then.
        """
        known = {own for own, (_, told) in self.stored[recipient].items() if told < asked_at}
        gone = self.gone(recipient)
        broken_if(known - gone, f"a peek of {recipient} found nothing, and {known - gone} was acknowledged before")
        decided = {own for own, at in self.decided[recipient].items() if at < asked_at} - gone
        if reason is Reason.NOT_YET_VISIBLE:
            coming = {own for own in self.attempted[recipient] if own[0] in "ce"}
            broken_if(not coming - gone_before, f"{recipient} was told to wait, and nothing is on its way")
        elif reason in (Reason.NOTHING_WAITING, Reason.RECIPIENT_UNKNOWN):
            broken_if(decided, f"{recipient} was told that nothing waits, and {decided} is decided")
            broken_if(known and reason is Reason.RECIPIENT_UNKNOWN, f"{recipient} got mail, and is called unknown")
        else:
            raise Broken(f"a peek of {recipient} found nothing: {reason}")

    def ready(self, recipient: str, taken_before: set[str]) -> None:
        """Somebody was told that a peek answers messages: there were some."""
        broken_if(
            not self.attempted[recipient] - taken_before, f"{recipient} was told that mail waits, and there is none"
        )

    def bundle(self, recipient: str, ids: list[str]) -> None:
        """What was collected: once, attempted by somebody, and in the order of what was acknowledged first."""
        broken_if(set(ids) & set(self.taken[recipient]), f"{recipient} got something twice")
        broken_if(set(ids) - self.attempted[recipient], f"{recipient} got what nobody sent")
        self.taken[recipient] += ids

    def finish(self) -> None:
        """After everything has healed and come to rest."""
        broken_if(self.world.names_taken, "two owners have written one blob")
        broken_if(self.early, "a batch is complete, and something of it is pending")
        for recipient, told in self.stored.items():
            broken_if(set(told) - set(self.taken[recipient]), f"{recipient} did not get what was acknowledged")
            self._check_order(recipient)
        for consignment, (messages, answered) in self.consignments.items():
            self._check_whole(consignment, messages, answered=answered)
        for batch, added in self.completed.items():
            broken_if(self._bound(batch)[0] != added, "something was added to a complete batch")
        self._check_batches()
        self._check_leftovers()

    def _check_order(self, recipient: str) -> None:
        place = {own: at for at, own in enumerate(self.taken[recipient])}
        sent_once = [(own, times) for own, times in self.stored[recipient].items() if not own.startswith("e")]
        told = [(*times, place[own]) for own, times in sent_once]
        for began, _, at in told:
            for _, ended, other in told:
                broken_if(
                    ended < began and other > at, f"{recipient} got messages in another order than they were sent"
                )

    def _check_whole(self, consignment: str, messages: list[Message], *, answered: bool) -> None:
        own = UUID(consignment).bytes
        committed = self._is_decided(own)
        there = [str(message.id) in self.taken[message.recipient] for message in messages]
        broken_if(committed and not all(there), "a consignment was committed, and a part of it is missing")
        alone = [message for message in messages if str(message.id).startswith("c")]
        seen = [str(message.id) in self.taken[message.recipient] for message in alone]
        broken_if(not committed and any(seen), "a consignment was not committed, and a part of it was delivered")
        broken_if(answered and not committed, "a commit was answered, and is forgotten")

    def _check_batches(self) -> None:
        for batch in self.sealed:
            broken_if(
                UUID(batch).bytes not in self.completed, "a sealed batch of which all is collected is not complete"
            )

    def _check_leftovers(self) -> None:
        world, store = self.world, self.world.durable
        held = [world.owner(shard).core.memory(Holds).by_partition for shard in range(SHARDS)]
        broken_if(any(held), "something is held without a round")
        for partition in range(PARTITIONS):
            broken_if(store.scan(partition, Space.PREPARED), "something is prepared without a round")
            staged = [decode_run(value).identity for _, value in store.scan(partition, Space.RUN) if _is_staged(value)]
            broken_if(staged and not self._any_open(), "something is staged without an open consignment")

    def _any_open(self) -> bool:
        return any(
            decode_consignment(value).state is ConsignmentState.OPEN
            for partition in range(PARTITIONS)
            for _, value in self.world.durable.scan(partition, Space.CONSIGNMENT)
        )


def name_of(message: Message) -> str:
    """What a message is known by: its id, or its text if it was sent without one."""
    return str(message.id) if message.text == TEXT else str(message.text)


def _is_staged(value: bytes) -> bool:
    return decode_run(value).state is RunState.STAGED


class SimulatedClients:
    """Those who insist until they are answered."""

    def __init__(self, world: World, model: Model) -> None:
        self.world, self.model, self.random = world, model, world.random

    def _begin(self, steps: Steps) -> None:
        def fail(error: RestanteError) -> None:
            raise Broken(f"a client was refused: {error}") from error

        self.world.later(self.random.uniform(0, 2), lambda: self.world.start(steps, None, lambda _: None, fail))

    def _insist(self, call: Call[Any], partition: int, until: float = 1e9) -> Steps:
        """Ask again until it is answered."""
        began = self.world.now
        while True:
            try:
                answer = yield Ask(partition, call)
            except Unavailable:
                if self.world.now > until:
                    raise
                yield Rest(self.random.uniform(0.05, 0.5))
            else:
                self.model.longest = max(self.model.longest, self.world.now - began)
                return answer

    def _at_home(self, call: Call[Any], until: float = 1e9) -> Steps:
        home = home_of_call(call, PARTITIONS)
        assert home is not None
        return (yield from self._insist(call, home, until))


class Clients(SimulatedClients):
    """Some publishers, a collector for each mailbox, batches and consignments."""

    def __init__(self, world: World, model: Model) -> None:
        super().__init__(world, model)
        self._numbers = 0
        self.until = CHAOS + QUIET - 8
        """When those who collect stop."""

    def start(self, *, decided_at_home: bool = True) -> None:
        for recipient in RECIPIENTS:
            self._begin(self._collecting(recipient))
        for _ in range(2):
            self._begin(self._publishing())
        self._begin(self._explaining())
        for number in range(2 * decided_at_home):
            self._begin(self._batch(f"batch {number}"))
            self._begin(self._consignment(f"consignment {number}"))

    def _new(self, recipient: str, kind: str) -> Message:
        self._numbers += 1
        own = f"{kind}0000000-0000-7000-8000-{self._numbers:012}"
        self.model.attempted[recipient].add(own)
        return Message(recipient=recipient, text=TEXT, id=own)

    def _send(self, messages: list[Message], batch: str | None = None) -> Steps:
        """Publish to one partition, until it is acknowledged or refused."""
        began = self.world.now
        partition = partition_of(messages[0].recipient, PARTITIONS)
        yield from self._insist(Publish.of(messages, batch=batch), partition)
        for message in messages:
            known = self.model.stored[message.recipient]
            known.setdefault(str(message.id), (began, self.world.now))

    def _publishing(self) -> Steps:
        while self.world.now < CHAOS:
            recipient = self.random.choice(RECIPIENTS)
            yield from self._send([self._new(recipient, "a") for _ in range(self.random.randint(1, 3))])
            yield Rest(self.random.uniform(0, 1.5))

    def _collecting(self, recipient: str) -> Steps:
        while self.world.now < self.until:
            asked_at, gone_before = self.world.now, self.model.gone(recipient)
            found = yield from self._at_home(Peek(recipient))
            if not isinstance(found, BundleAnswer):
                self.model.empty(recipient, asked_at, found, gone_before)
                yield Rest(self.random.uniform(0.3, 2) if asked_at < CHAOS else 6)
                continue
            ids = [name_of(message) for message in to_messages(found.table)]
            self.model.leaving[recipient].update(ids)
            with suppress(BundleUnknown):  # asked again, it was dequeued before
                yield from self._at_home(Dequeue(recipient, found.bundle_id))
            self.model.bundle(recipient, ids)

    def _explaining(self) -> Steps:
        """Asks why, all the time: the reason is true."""
        while self.world.now < CHAOS:
            recipient, asked_at = self.random.choice(RECIPIENTS), self.world.now
            before, gone_before = set(self.model.taken[recipient]), self.model.gone(recipient)
            told = yield from self._at_home(Explain(recipient))
            if told.reason is Reason.READY:
                self.model.ready(recipient, before)
            else:
                self.model.empty(recipient, asked_at, told.reason, gone_before)
            yield Rest(self.random.uniform(0, 1.5))

    def _batch(self, key: str) -> Steps:
        """A batch with messages in several shards; a seal beside first messages in new shards; and some that are late."""
        home = partition_of(key, PARTITIONS)
        opened = yield from self._insist(self._opening(key, home), home)
        late = self.random.uniform(2, 6)
        for _ in range(3):
            self._begin(self._bound(opened.id, late))
        yield Rest(late)
        yield from self._at_home(SealBatch(opened.id))
        self.model.sealed[opened.id] = self.world.now
        for _ in range(2):
            self._begin(self._bound(opened.id, 0))

    def _opening(self, key: str, home: int) -> OpenBatch:
        number = 0
        while partition_of(own := f"b0000000-0000-7000-8000-{hash_of(key, number):012}", PARTITIONS) != home:
            number += 1
        return OpenBatch(key=key, batch_id=own)

    def _bound(self, batch: str, until: float) -> Steps:
        yield Rest(self.random.uniform(0, until))
        recipient = self.random.choice(RECIPIENTS)
        message, began = self._new(recipient, "d"), self.world.now
        try:
            yield from self._send([message], batch)
        except (BatchSealed, BatchUnknown):
            return
        broken_if(self.model.sealed.get(batch, 1e9) < began, "a batch took a message after its seal was told")

    def _consignment(self, key: str) -> Steps:
        begun = yield from self._at_home(BeginConsignment(key, batch=True))
        if begun.batch is not None and self.random.random() < 0.3:
            self._begin(self._bound(begun.batch, 3))
        shared = self._shared() if self.random.random() < 0.6 else []
        chosen = self.random.sample(RECIPIENTS, self.random.randint(1, 4))
        messages = [self._new(name, "c") for name in chosen] + shared
        messages.append(messages[0])  # staged twice: it is written again without its twin
        for parcel, part in enumerate((messages[:1], messages[1:])):
            yield from self._stage(begun.id, parcel, part)
        self.model.consignments[begun.id] = (messages, False)
        if self.random.random() < 0.7:
            self._begin(self._again(shared))
        yield from self._end(begun.id, messages, begun.batch)

    def _shared(self) -> list[Message]:
        """Messages that both consignments stage, and others publish."""
        found = [
            Message(recipient=name, text=TEXT, id=f"e0000000-0000-7000-8000-{at:012}")
            for at, name in enumerate(RECIPIENTS[:2])
        ]
        for message in found:
            self.model.attempted[message.recipient].add(str(message.id))
        return found

    def _again(self, messages: list[Message]) -> Steps:
        yield Rest(self.random.uniform(0, 4))
        for message in messages:
            yield from self._send([message])

    def _stage(self, consignment: str, parcel: int, messages: list[Message]) -> Steps:
        digest = blake2b(repr(messages).encode(), digest_size=16).digest()
        parts: dict[int, list[Message]] = {}
        for message in messages:
            parts.setdefault(shard_of(self.world.ranges(), partition_of(message.recipient, PARTITIONS)), []).append(
                message
            )
        staged: list[StagedPart] = []
        for shard, own in parts.items():
            call = StagePart(consignment, few_or_many(own), "w", 0, parcel, digest)
            staged.append((yield from self._insist(call, self.world.ranges()[shard][0])))
        runs = tuple(run for part in staged for run in part.runs)
        counts = sum(part.messages for part in staged), sum(part.length for part in staged)
        yield from self._at_home(NoteParcel(consignment, "w", 0, parcel, digest, *counts, runs))

    def _end(self, consignment: str, messages: list[Message], batch: str | None) -> Steps:
        if self.random.random() < 0.2:
            try:
                yield from self._at_home(DiscardConsignment(consignment))
            except ConsignmentClosed as error:
                raise Broken("a consignment was committed that nobody committed") from error
            return
        winner = Winner(writer="w", attempt=0, messages=len(messages))
        try:
            receipt = yield from self._at_home(CommitConsignment(consignment, [winner]), self.world.now + _PATIENCE)
        except Unavailable:
            if self.random.random() < 0.5:
                return  # It stays open, or is decided: the model looks.
            with suppress(ConsignmentClosed):
                yield from self._at_home(DiscardConsignment(consignment))
            return
        self.model.consignments[consignment] = (messages, True)
        broken_if(receipt.accepted + receipt.duplicates != len(messages), "a receipt does not add up")
        if batch is not None:
            self.model.sealed[batch] = self.world.now


def hash_of(key: str, number: int) -> int:
    return int.from_bytes(blake2b(f"{key} {number}".encode(), digest_size=4).digest(), "big")
