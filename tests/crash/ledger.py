"""What the children said they did, over all their lives, held against what a hub shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from restante.client.surface.surface import Hub, Message, State
from tests.crash.load import ORIGINS, RECIPIENTS, ParcelName, parcel
from tests.crash.seen import check_counters, seen


class Opened(NamedTuple):
    """A bundle that a peek answered."""

    recipient: str
    origin: str
    ids: tuple[str, ...]


@dataclass
class Ledger:
    """What was begun, and what of it was acknowledged."""

    begun: set[ParcelName] = field(default_factory=set)
    published: dict[ParcelName, list[tuple[int, int, int]]] = field(default_factory=dict)
    bundles: dict[str, Opened] = field(default_factory=dict)
    bundle_of: dict[str, str] = field(default_factory=dict)
    """Message → the bundle it was seen in."""
    dequeuing: set[str] = field(default_factory=set)
    dequeued: set[str] = field(default_factory=set)
    withdrawing: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    settled: set[ParcelName] = field(default_factory=set)
    """Parcels of earlier lives that are known to be there, or not: that may not change any more."""
    missing: set[ParcelName] = field(default_factory=set)

    def read(self, words: list[Any]) -> None:
        """Take down one line of a child."""
        what, *rest = words
        takes: dict[str, Callable[..., object]] = {
            "publishes": lambda *name: self.begun.add(ParcelName(*name)),
            "published": self._published,
            "peeked": self.peeked,
            "dequeues": self.dequeuing.add,
            "dequeued": self.dequeued.add,
            "withdraws": self.withdrawing.add,
            "withdrawn": self.withdrawn.add,
            "not withdrawn": self._not_withdrawn,
        }
        assert what != "failed", words
        if what in takes:
            takes[what](*rest)

    def _published(self, life: int, publisher: int, count: int, spans: list[list[int]]) -> None:
        name = ParcelName(life, publisher, count)
        self.published[name] = [(partition, first, last) for partition, first, last in spans]

    def _not_withdrawn(self, chosen: str, code: str) -> None:
        if code == "outcome_unknown":
            return  # It may be withdrawn: its hub lost the store in the middle of the commit.
        assert code in {"bundle_open", "message_collected"}, code
        self.withdrawing.discard(chosen)

    def peeked(self, recipient: str, origin: str, bundle_id: str, ids: list[str]) -> None:
        """The same bundle always has the same messages, and a message is in one bundle only."""
        opened = Opened(recipient, origin, tuple(ids))
        assert self.bundles.setdefault(bundle_id, opened) == opened
        for each in ids:
            assert self.bundle_of.setdefault(each, bundle_id) == bundle_id, f"{each} is in two bundles"

    def check(self, hub: Hub) -> None:
        """The hub shows all that was acknowledged, and of the rest each thing whole or not at all."""
        found = seen(hub, RECIPIENTS)
        check_counters(found)
        stored = {message.id or "": message for own in found.mailboxes.values() for message in own.history}
        assert len(stored) == sum(len(own.history) for own in found.mailboxes.values())
        known = set()
        for name in self.begun:
            known |= self._check_parcel(hub, name, stored)
        assert stored.keys() == known, "nothing that nobody sent"
        for own in found.mailboxes.values():
            check_order(own.history)
        for message in stored.values():
            self._check_state(message)
        self._check_bundles(hub)

    def _check_parcel(self, hub: Hub, name: ParcelName, stored: dict[str, Message]) -> set[str]:
        sent = parcel(name)
        there = [stored[message.id or ""] for message in sent if message.id in stored]
        assert len(there) in (0, len(sent)), f"{name} is there in part"
        assert there or name not in self.published, f"{name} was acknowledged and is missing"
        if name in self.settled:
            assert bool(there) != (name in self.missing), f"{name} has come or gone since"
        self.settled.add(name)
        if not there:
            self.missing.add(name)
            return set()
        for found, message in zip(there, sent, strict=True):
            assert (found.recipient, found.data) == (message.recipient, message.data)
        spans = sorted(numbers_by_partition(hub, there))
        assert spans == sorted(self.published.get(name, spans)), f"{name} has other numbers than it was told"
        return {message.id or "" for message in sent}

    def _check_state(self, message: Message) -> None:
        """Only what was asked for has happened to it."""
        own = message.id or ""
        bundle = self.bundle_of.get(own)
        if own in self.withdrawn:
            assert message.state is State.WITHDRAWN
        elif message.state is State.WITHDRAWN:
            assert own in self.withdrawing
        elif message.state is State.COLLECTED:
            assert bundle in self.dequeued | self.dequeuing
        else:
            assert message.state is State.WAITING
            assert bundle not in self.dequeued

    def _check_bundles(self, hub: Hub) -> None:
        """What was open is open still, with the same messages; what an unanswered peek opened is taken down too."""
        for name in RECIPIENTS:
            shown = {bundle.origin: bundle.bundle_id for bundle in hub.recipient(name).explain().open_bundles}
            for origin in ORIGINS:
                acknowledged = list(self._still_open(name, origin))
                assert len(acknowledged) <= 1
                assert not acknowledged or shown.get(origin) == acknowledged[0]
                if origin in shown:
                    bundle = hub.recipient(name).peek(origins=[origin])
                    assert bundle is not None
                    assert bundle.bundle_id == shown[origin]
                    self.peeked(name, origin, bundle.bundle_id, [message.id or "" for message in bundle.messages])
        self.dequeued |= {bundle for bundle in self.dequeuing if self._is_closed(hub, bundle)}
        self.dequeuing -= self.dequeued

    def _still_open(self, name: str, origin: str) -> Iterator[str]:
        for bundle_id, opened in self.bundles.items():
            if opened[:2] == (name, origin) and bundle_id not in self.dequeued | self.dequeuing:
                yield bundle_id

    def _is_closed(self, hub: Hub, bundle_id: str) -> bool:
        shown = hub.recipient(self.bundles[bundle_id].recipient).explain().open_bundles
        return bundle_id not in {bundle.bundle_id for bundle in shown}


def numbers_by_partition(hub: Hub, messages: list[Message]) -> Iterator[tuple[int, int, int]]:
    """The numbers that a parcel has in each partition: contiguous, in the order of the parcel."""
    by_partition: dict[int, list[int]] = {}
    for message in messages:
        by_partition.setdefault(hub.partition_of(message.recipient), []).append(message.sequence_number or 0)
    for partition, numbers in by_partition.items():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"not contiguous: {numbers}"
        yield partition, numbers[0], numbers[-1]


def check_order(history: tuple[Message, ...]) -> None:
    """In the order in which each publisher sent them; a released or later life comes later."""
    by_publisher: dict[tuple[int, int], list[tuple[int, int]]] = {}
    lives = []
    for message in history:
        life, publisher, count, index, _ = message.data
        by_publisher.setdefault((life, publisher), []).append((count, index))
        lives.append(life)
    assert lives == sorted(lives)
    for sent in by_publisher.values():
        assert sent == sorted(sent)
