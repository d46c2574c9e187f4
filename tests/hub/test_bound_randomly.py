"""Batches bound to messages, by chance: whatever happens, the hub counts what plain dictionaries count."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restante.calls.batches import OpenBatch, ReadBatch, ReadProgress, SealBatch
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, ExpireNow, FileNow, Purge, Release, RetainNow, SetAside, Withdraw
from restante.errors import BatchSealed, BundleOpen
from restante.model.batches.batch_answers import BatchState
from restante.model.mailboxes.answers import Reason
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.message import Message
from tests.hub.bound_world import World, worlds
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, at, letter
from tests.profiles import by_profile

NAMES = ("ada", "ben", "cleo", "dora")
ORIGINS = ("charges", "series")
STEPS = 120
PENDING = ("waiting", "set aside")


@dataclass(slots=True)
class Letter:
    """A stored message, as the dictionaries know it."""

    message: Message
    batch: str | None
    state: str = "waiting"
    expires: float | None = None
    duplicates_of: set[str] = field(default_factory=set)
    """The batches under which it came again while it was pending."""


@dataclass(slots=True)
class Sums:
    sealed: bool = False
    items: int = 0
    duplicates: int = 0
    complete: bool = False
    done: dict[str, int] = field(default_factory=lambda: {"collected": 0, "expired": 0, "withdrawn": 0})


class Game:
    """Does things by chance to a hub and to dictionaries, and compares them."""

    def __init__(self, world: World, clock: FakeClock, seed: int) -> None:
        self.world, self.clock, self.chance = world, clock, random.Random(seed)
        self.seconds = 0.0
        self.letters: dict[tuple[str, str], Letter] = {}
        self.batches: dict[str, Sums] = {}
        self.open: dict[tuple[str, str], tuple[str, list[Letter]]] = {}
        """By recipient and origin, the open bundle."""
        self.next_number = 0
        self.retained = False

    def play(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.open_batch, 2),
            (self.publish, 12),
            (self.publish_again, 6),
            (self.peek, 8),
            (self.dequeue, 6),
            (self.withdraw, 2),
            (self.set_aside, 3),
            (self.release, 3),
            (self.purge, 1),
            (self.erase, 1),
            (self.pass_time, 3),
            (self.retain, 1),
            (self.file, 1),
            (self.reopen, 1),
            (self.seal, 2),
        ]
        acts, weights = [act for act, _ in steps], [weight for _, weight in steps]
        self.open_batch()
        for _ in range(STEPS):
            self.chance.choices(acts, weights)[0]()
            self.compare()

    # What is done.

    def open_batch(self) -> None:
        self.batches[self.world.hub.call(OpenBatch()).id] = Sums()

    def _some_batch(self) -> str | None:
        return self.chance.choice([None, *self.batches])

    def publish(self) -> None:
        """New ones, few or many; some of those that are pending may come along."""
        count = self.chance.choice([1, 1, 2, 5, 150])
        news = [self._new() for _ in range(count)]
        known = [one for one in self.letters.values() if one.state in PENDING]
        again = [one.message for one in self.chance.sample(known, min(len(known), self.chance.choice([0, 0, 1, 3])))]
        self._send([*news, *again], len(news))

    def publish_again(self) -> None:
        """One that may be settled, or past its retention: the hub says what it is."""
        if self.letters:
            self._send([self.chance.choice([*self.letters.values()]).message], None)

    def _new(self) -> Message:
        self.next_number += 1
        expires = self.seconds + self.chance.choice([3, 20]) if self.chance.random() < 0.2 else None
        origin, name = self.chance.choice(ORIGINS), self.chance.choice(NAMES)
        return letter(self.next_number, name, origin=origin, expires_at=None if expires is None else at(expires))

    def _send(self, messages: list[Message], news: int | None) -> None:
        batch = self._some_batch()
        if batch is not None and self.batches[batch].sealed:
            with pytest.raises(BatchSealed):
                self.world.hub.call(Publish.of(messages, batch=batch))
            return
        receipt = self.world.hub.call(Publish.of(messages, batch=batch))
        news = receipt.accepted if news is None else news
        assert (receipt.accepted, receipt.duplicates) == (news, len(messages) - news)
        for message in messages[:news]:
            self._store(message, batch)
        for message in messages[news:]:
            self._repeat(message, batch)
        self._expire()

    def _store(self, message: Message, batch: str | None) -> None:
        expires = None if message.expires_at is None else (message.expires_at - at(0)).total_seconds()
        assert message.id is not None
        self.letters[message.recipient, message.id] = Letter(message, batch, expires=expires)
        if batch is not None:
            self.batches[batch].items += 1

    def _repeat(self, message: Message, batch: str | None) -> None:
        if batch is not None:
            self.batches[batch].duplicates += 1
            known = self.letters[message.recipient, message.id or ""]
            if known.state in PENDING:
                known.duplicates_of.add(batch)

    def _settle(self, one: Letter, state: str) -> None:
        assert one.state in PENDING
        one.state = state
        if one.batch is not None:
            self.batches[one.batch].done[state] += 1

    def _held(self) -> set[int]:
        return {id(one) for _, held in self.open.values() for one in held}

    def peek(self) -> None:
        name, origin = self.chance.choice(NAMES), self.chance.choice(ORIGINS)
        most = self.chance.choice([1, 3, 50])
        found = self.world.hub.call(Peek(name, origins=(origin,), max_messages=most))
        if isinstance(found, Reason):
            return
        held = [self.letters[name, message.id or ""] for message in to_messages(found.table)]
        before = self.open.setdefault((name, origin), (found.bundle_id, held))
        assert before == (found.bundle_id, held)

    def dequeue(self) -> None:
        if self.open:
            name, origin = self.chance.choice([*self.open])
            bundle_id, held = self.open.pop((name, origin))
            self.world.hub.call(Dequeue(name, bundle_id))
            for one in held:
                self._settle(one, "collected")

    def _some(self, state: str) -> Letter | None:
        known = [one for one in self.letters.values() if one.state == state]
        return self.chance.choice(known) if known else None

    def withdraw(self) -> None:
        one = self._some(self.chance.choice(PENDING))
        if one is None:
            return
        try:
            self.world.hub.call(Withdraw(one.message.recipient, one.message.id or ""))
        except BundleOpen:
            assert id(one) in self._held()
        else:
            self._settle(one, "withdrawn")

    def set_aside(self) -> None:
        one = self._some("waiting")
        if one is None or id(one) in self._held():
            return
        self.world.hub.call(SetAside(one.message.recipient, one.message.id or ""))
        one.state = "set aside"

    def release(self) -> None:
        one = self._some("set aside")
        if one is not None:
            self.world.hub.call(Release(one.message.recipient, one.message.id or ""))
            one.state = "waiting"
            self._expire()

    def purge(self) -> None:
        name, held = self.chance.choice(NAMES), self._held()
        gone = [
            one
            for one in self.letters.values()
            if one.message.recipient == name and one.state in PENDING and id(one) not in held
        ]
        assert self.world.hub.call(Purge(name, all=True)) == len(gone)
        for one in gone:
            self._settle(one, "withdrawn")

    def erase(self) -> None:
        name = self.chance.choice(NAMES)
        self.world.hub.call(Erase(name))
        for key in [key for key in self.letters if key[0] == name]:
            one = self.letters.pop(key)
            if one.state in PENDING:
                self._settle(one, "withdrawn")
        self.open = {key: bundle for key, bundle in self.open.items() if key[0] != name}

    def pass_time(self) -> None:
        seconds = self.chance.choice([1, 5, 30])
        self.clock.advance(seconds)
        self.seconds += seconds
        self._expire()

    def _expire(self) -> None:
        """What is past its time is settled at once, so that nobody else meets it."""
        self.world.hub.call(ExpireNow())
        held = self._held()
        for one in self.letters.values():
            over = one.expires is not None and one.expires <= self.seconds
            if over and one.state == "waiting" and id(one) not in held:
                self._settle(one, "expired")

    def retain(self) -> None:
        self.clock.advance(RETENTION_SECONDS / 3)
        self.seconds += RETENTION_SECONDS / 3
        self._expire()
        self.world.hub.call(RetainNow())
        self.retained = True

    def file(self) -> None:
        self.world.hub.call(FileNow())

    def reopen(self) -> None:
        self.world.reopen()

    def seal(self) -> None:
        batch = self.chance.choice([*self.batches])
        self.world.hub.call(SealBatch(batch))
        self.batches[batch].sealed = True

    # What is compared.

    def compare(self) -> None:
        for batch, sums in self.batches.items():
            status = self.world.hub.call(ReadBatch(batch))
            done = sum(sums.done.values())
            sums.complete = sums.complete or (sums.sealed and done == sums.items)
            waiting = [one for one in self.letters.values() if batch in one.duplicates_of and one.state in PENDING]
            assert (status.items, status.pending) == (sums.items, sums.items - done)
            found = {"collected": status.collected, "expired": status.expired, "withdrawn": status.withdrawn}
            assert found == sums.done
            assert (status.duplicates, status.duplicates_waiting) == (sums.duplicates, len(waiting))
            assert (status.state is BatchState.COMPLETE) == sums.complete
        self._compare_progress(self.chance.choice([*self.batches]))

    def _compare_progress(self, batch: str) -> None:
        expected: dict[str, dict[str, int]] = {}
        for one in self.letters.values():
            own = expected.setdefault(one.message.recipient, {})
            if one.batch == batch:
                own[one.state] = own.get(one.state, 0) + 1
            if batch in one.duplicates_of and one.state in PENDING:
                own["duplicates"] = own.get("duplicates", 0) + 1
        found: dict[str, dict[str, int]] = {}
        for entry in self.world.hub.call(ReadProgress(batch)).recipients:
            counts = {
                "waiting": entry.waiting,
                "set aside": entry.set_aside,
                "collected": entry.collected,
                "expired": entry.expired,
                "withdrawn": entry.withdrawn,
                "duplicates": entry.duplicates_waiting,
            }
            found[entry.recipient] = {name: count for name, count in counts.items() if count}
        assert self._lasting(found) == self._lasting(expected)

    def _lasting(self, counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """What does not go with retention."""
        lasting = (
            (*PENDING, "duplicates") if self.retained else (*PENDING, "duplicates", "collected", "expired", "withdrawn")
        )
        kept = {name: {what: own[what] for what in lasting if what in own} for name, own in counts.items()}
        return {name: own for name, own in kept.items() if own}


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[World]:
    yield from worlds(request, clock, tmp_path / "data")


@pytest.mark.parametrize("seed", range(by_profile(dev=2, ci=5)))
def test_the_hub_counts_what_dictionaries_count(world: World, clock: FakeClock, seed: int) -> None:
    game = Game(world, clock, seed)
    game.play()
    while game.open:
        game.dequeue()
    for name in NAMES:
        world.hub.call(Purge(name, all=True))
    assert {world.hub.call(ReadBatch(batch)).pending for batch in game.batches} == {0}
