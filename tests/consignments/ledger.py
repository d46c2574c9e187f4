"""What the children said they did with consignments, over all their lives, held against what a hub shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from restante.calls.consignments import CommitConsignment, ListConsignments, ReadConsignment
from restante.calls.mailboxes import ListPartitions, PartitionOf, ReadHistory
from restante.hub.door.hub import OpenHub
from restante.model.consignments.consignment_answers import ConsignmentDetails, ConsignmentState
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from tests.consignments.load import PARTITIONS, RECIPIENTS, Place, messages_of, parcel, winners_of

PAGE = 1_000

Name = tuple[str, str]
"""A recipient, and the id of one of its messages."""
Step = tuple[str, int, int]
"""A writer, an attempt and a parcel."""


@dataclass
class Told:
    """Of one consignment what was begun, and what was answered."""

    key: str
    ids: list[str] = field(default_factory=list)
    """Under one key there may be several, one after another: all but the last were discarded."""
    begun: set[Step] = field(default_factory=set)
    staged: set[Step] = field(default_factory=set)
    committing: bool = False
    discarding: bool = False
    receipt: Receipt | None = None
    discarded: bool = False

    def open_anew(self, identity: str) -> None:
        if self.ids[-1:] == [identity]:
            return
        assert not self.ids or self.discarded or self.discarding, "a key has one consignment"
        assert identity not in self.ids, "an id is given once"
        self.ids.append(identity)
        self.begun, self.staged = set(), set()
        self.committing = self.discarding = self.discarded = False


@dataclass
class Ledger:
    told: dict[str, Told] = field(default_factory=dict)
    publishing: set[Name] = field(default_factory=set)
    published: set[Name] = field(default_factory=set)
    whole: int = 0
    """Commits without an answer that were carried out."""
    not_at_all: int = 0

    def read(self, words: list[Any]) -> None:
        """Take down one line of a child."""
        what, *rest = words
        takes: dict[str, Callable[..., object]] = {
            "opens": lambda key: self.told.setdefault(key, Told(key)),
            "opened": lambda key, identity: self.told[key].open_anew(identity),
            "stages": lambda key, *step: self.told[key].begun.add(_step(step)),
            "staged": lambda key, *step: self.told[key].staged.add(_step(step)),
            "commits": lambda key: setattr(self.told[key], "committing", True),
            "committed": lambda key, receipt: self._committed(self.told[key], msgspec.convert(receipt, Receipt)),
            "discards": lambda key: setattr(self.told[key], "discarding", True),
            "discarded": lambda key: self._discarded(self.told[key]),
            "publishes": lambda _, names: self.publishing.update(map(tuple, names)),
            "published": lambda _, names: self.published.update(map(tuple, names)),
            "closed": lambda key, state: self._closed(self.told[key], state),
        }
        if what in takes:
            takes[what](*rest)
        else:
            assert what in ("opens the hub", "opened the hub"), words

    def _discarded(self, told: Told) -> None:
        assert told.receipt is None
        told.discarded = True

    def _closed(self, told: Told, state: str) -> None:
        assert state == "committed", "who opens by a key gets none that was discarded"
        assert told.committing

    def _committed(self, told: Told, receipt: Receipt) -> None:
        assert told.receipt in (None, receipt), "a commit answers what it answered"
        assert receipt.accepted + receipt.duplicates == len(messages_of(told.key))
        told.receipt = receipt

    def left(self) -> list[str]:
        """What the next life is to go on with."""
        return [key for key, told in self.told.items() if told.receipt is None and not told.discarded]

    # What a hub that was opened again must show.

    def check(self, hub: OpenHub) -> None:
        stored = {(message.recipient, message.id or ""): message for message in visible(hub)}
        allowed, wanted = set(self.publishing), set(self.published)
        for told in self.told.values():
            if self._check_state(hub, told):
                names = {(message.recipient, message.id or "") for message in messages_of(told.key)}
                allowed |= names
                wanted |= names
                self._check_visible(hub, told, stored)
        assert wanted <= stored.keys(), "what was acknowledged is missing"
        assert stored.keys() <= allowed, "something is seen that was not committed"
        waiting = sum(status.waiting for status in hub.call(ListPartitions()))
        assert waiting == len(stored), "staged mail is counted"
        self.published |= self.publishing & stored.keys()

    def _check_state(self, hub: OpenHub, told: Told) -> bool:
        """Whether it is committed; all that the hub says of it is what was told."""
        self._adopt_unanswered(hub, told)
        if not told.ids:
            return False
        details = hub.call(ReadConsignment(told.ids[-1]))
        if details.state is ConsignmentState.COMMITTED:
            assert told.committing, "nobody has committed it"
            assert not told.discarded
            assert details.receipt is not None
            self.whole += told.receipt is None
            self._committed(told, details.receipt)
            assert hub.call(CommitConsignment(details.id, winners_of(told.key))) == told.receipt, "the same answer"
        elif details.state is ConsignmentState.DISCARDED:
            assert told.discarding, "nobody has discarded it"
            self._discarded(told)
        else:
            assert told.receipt is None
            assert not told.discarded
            self.not_at_all += told.committing
            told.committing = told.discarding = False
            self._check_staged(told, details)
        if details.state is not ConsignmentState.OPEN:
            assert (details.attempts, details.staged_messages, details.staged_bytes) == ((), 0, 0)
        return details.state is ConsignmentState.COMMITTED

    def _adopt_unanswered(self, hub: OpenHub, told: Told) -> None:
        """The answer to an opening may have been lost."""
        listed = hub.call(ListConsignments(key=told.key)).consignments
        if listed and listed[0].id not in told.ids:
            told.open_anew(listed[0].id)
        if told.ids:
            assert [one.id for one in listed] == told.ids[::-1]
        else:
            assert listed == ()

    def _check_staged(self, told: Told, details: ConsignmentDetails) -> None:
        """Each acknowledged parcel is staged; of the others each whole or not at all."""
        for attempt in details.attempts:
            own = {step for step in told.begun if step[:2] == (attempt.writer, attempt.attempt)}
            sure = own & told.staged
            counts = {(len(some), size_of(told.key, some)) for some in subsets(sure, own - sure)}
            assert (attempt.parcels, attempt.messages) in counts
        named = {(attempt.writer, attempt.attempt) for attempt in details.attempts}
        assert {step[:2] for step in told.staged} <= named, "a parcel that was acknowledged is gone"

    def _check_visible(self, hub: OpenHub, told: Told, stored: dict[Name, Message]) -> None:
        """Published at the same moment, in the order of writers and parcels; but for what came another way."""
        order = dict.fromkeys((message.recipient, message.id or "") for message in messages_of(told.key))
        own = [stored[name] for name in order if name in stored and name not in self.publishing]
        assert len({message.published_at for message in own}) <= 1
        for partition in range(PARTITIONS):
            numbers = [
                message.sequence_number or 0 for message in own if hub.call(PartitionOf(message.recipient)) == partition
            ]
            assert numbers == sorted(numbers)
        assert told.receipt is not None
        assert len(own) <= told.receipt.accepted <= len(order)


def _step(words: Sequence[Any]) -> Step:
    writer, attempt, number = words
    return (str(writer), int(attempt), int(number))


def size_of(key: str, steps: set[Step]) -> int:
    return sum(len(parcel(Place(key, writer, number))) for writer, _, number in steps)


def subsets(sure: set[Step], doubtful: set[Step]) -> Iterator[set[Step]]:
    if not doubtful:
        yield set(sure)
        return
    one, *others = doubtful
    for some in subsets(sure, set(others)):
        yield some
        yield {*some, one}


def visible(hub: OpenHub) -> Iterator[Message]:
    for recipient in RECIPIENTS:
        after = None
        while True:
            page = hub.call(ReadHistory(recipient, after=after, limit=PAGE))
            yield from page.messages
            if page.next is None:
                break
            after = page.next


def commit_what_is_open(hub: OpenHub, told: Told) -> Receipt | None:
    """Commit what is staged already, if all is."""
    staged = {(one.writer, one.attempt): one.messages for one in hub.call(ReadConsignment(told.ids[-1])).attempts}
    winners = winners_of(told.key)
    if any(staged.get((winner.writer, winner.attempt), 0) != winner.messages for winner in winners):
        return None
    return hub.call(CommitConsignment(told.ids[-1], winners))
