"""What a producer of a campaign does next, and what it makes of an answer: without I/O, for waiting and asynchronous ones.

A producer goes on in rounds: in each it sends a parcel to every partition of its own, side by side. A parcel of unknown
outcome is sent again in the next round; by a hasty producer sometimes after another one, which is where the client has
to find out by itself what became of the first. Between two rounds the producer may be started anew, from what it saved.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.publishing.parcel import Parcel
from restante.errors import InvalidClientState, OutcomeUnknown, ProducerDisconnected, Unavailable
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import following
from restante.model.publishing.message import Message
from tests.producers.campaign_ledger import Place, Reign, Tally

OTHERS_FIRST_MAX = 2
"""So many parcels may be sent before one of unknown outcome is sent again."""

Configuration = dict[int, PartitionPublishingConfiguration]


class Cancelled(Exception):
    """A send was given up by its caller, who does not know what became of it."""


Outcome = Receipt | Unavailable | Cancelled | InvalidClientState | ProducerDisconnected


@dataclass
class Posting:
    """A parcel that is to be sent, until it is acknowledged."""

    parcel: Parcel
    reign: str
    turn: int
    unclear: bool = False
    """An attempt is over, and its outcome is not known."""
    overtaken: bool = False
    """Another one was sent since, so that its numbers may be gone."""
    loaded: bool = False
    """A new client knows nothing of it, nor of its numbers, until it is sent: so it goes first."""


@dataclass
class Lane:
    """What a producer sends to one partition."""

    reign: Reign
    recipients: Sequence[str]
    turns: int | None
    """So many parcels, and more until the predecessor has heard of it. None: on and on, until it is fenced off."""
    sizes: Sequence[int]
    pending: list[Posting] = field(default_factory=list)
    bequest: list[bytes] = field(default_factory=list)
    """The parcel that its producer had not got through when it was fenced off."""
    predecessor: Lane | None = None

    @property
    def done(self) -> bool:
        if self.reign.ended is not None:
            return True
        return not self.pending and not self._more and not self._inheritance

    @property
    def _more(self) -> bool:
        if self.predecessor is not None and self.predecessor.reign.ended is None:
            return True
        return self.turns is None or len(self.reign.sent) < self.turns

    @property
    def _inheritance(self) -> list[bytes]:
        return [] if self.predecessor is None else self.predecessor.bequest

    def next_posting(self, create: Callable[[int], Parcel], chance: random.Random) -> Posting | None:
        if not self.pending and self._inheritance:
            self.pending.append(self._inherited(self._inheritance.pop()))
        if not self.pending and self._more:
            self.pending.append(self._fresh(create, chance))
        return self.pending[0] if self.pending else None

    def put_another_first(self, create: Callable[[int], Parcel], chance: random.Random) -> bool:
        if self._more and len(self.pending) <= OTHERS_FIRST_MAX:
            for posting in self.pending:
                posting.overtaken = True
            self.pending.insert(0, self._fresh(create, chance))
            return True
        return False

    def _fresh(self, create: Callable[[int], Parcel], chance: random.Random) -> Posting:
        parcel, turn, name = create(self.reign.partition), len(self.reign.sent), self.reign.name
        count = chance.choice(self.sizes)
        for index in range(count):
            place = Place(name, turn, index)
            message = Message(recipient=chance.choice(self.recipients), data=[place.reign, place.turn, place.index])
            assert parcel.try_add(message)
        self.reign.sent[turn] = count
        return Posting(parcel, name, turn)

    def _inherited(self, dumped: bytes) -> Posting:
        parcel = Parcel.load(dumped)
        name, turn, _ = parcel.messages[0].data
        self.reign.inherited.add((name, turn))
        return Posting(parcel, name, turn)


class Plan:
    """All lanes of one producer."""

    def __init__(self, lanes: Sequence[Lane], tally: Tally, *, seed: str, hasty: bool) -> None:
        self.lanes, self.tally, self._hasty = lanes, tally, hasty
        self.retries = 0 if hasty else 2
        """How often the client itself repeats a send. Whoever is hasty goes on while the first may be on its way."""
        self.chance = random.Random(seed)

    @property
    def done(self) -> bool:
        return bool(self.tally.failures) or all(lane.done for lane in self.lanes)

    def next_round(self, create: Callable[[int], Parcel]) -> list[tuple[Lane, Posting]]:
        """What is to be sent now, side by side."""
        found = []
        for lane in self.lanes:
            if lane.done:
                continue
            unclear = bool(lane.pending) and lane.pending[0].unclear and not lane.pending[0].loaded
            if self._hasty and unclear and self.chance.random() < 0.5 and lane.put_another_first(create, self.chance):
                self.tally.count(others_first=1)
            posting = lane.next_posting(create, self.chance)
            if posting is not None:
                lane.reign.trail.append(f"sends {posting.turn} as {posting.parcel.numbers}")
                found.append((lane, posting))
        return found

    def settle(self, lane: Lane, outcome: Outcome) -> None:
        """What became of the first of its parcels."""
        posting = lane.pending[0]
        lane.reign.trail.append(f"{posting.turn} is answered by {outcome!r:.120}")
        match outcome:
            case Receipt():
                self._acknowledged(lane, posting, outcome)
            case ProducerDisconnected():
                lane.bequest.append(posting.parcel.dump())
                lane.reign.ended = outcome
                self.tally.count(disconnected=1)
            case InvalidClientState():
                # Another one has its numbers. It is not stored, and is sent as if it were new.
                assert posting.overtaken, f"{lane.reign.name} {posting.turn}: {outcome.message} {outcome.details}"
                posting.unclear = posting.overtaken = False
                self.tally.count(refused=1)
            case OutcomeUnknown() | Cancelled():
                posting.unclear = True
                self.tally.count(unclear=1)
            case _:
                self.tally.count(unavailable=1)

    def wants_restart(self) -> bool:
        """Sometimes, and more often when something is unclear; never while one parcel has overtaken another."""
        if any(len(lane.pending) > 1 or any(each.overtaken for each in lane.pending) for lane in self.lanes):
            return False
        unclear = any(posting.unclear for lane in self.lanes for posting in lane.pending)
        return self.chance.random() < (0.3 if unclear else 0.02)

    def restarted(self) -> None:
        """All that a new process has of its parcels is what the old one had saved."""
        for lane in self.lanes:
            lane.reign.trail.append("starts anew")
            for posting in lane.pending:
                posting.parcel, posting.loaded = Parcel.load(posting.parcel.dump()), True
        self.tally.count(restarts=1)

    def _acknowledged(self, lane: Lane, posting: Posting, receipt: Receipt) -> None:
        parcel, reign = posting.parcel, lane.reign
        count, start = len(parcel), parcel.starting_published_sequence_number
        assert receipt.accepted + receipt.duplicates == count, receipt
        assert start is not None
        assert parcel.published
        numbers = [message.published_sequence_number for message in parcel.messages]
        assert numbers == [following(start, index) for index in range(count)], numbers
        if posting.reign == reign.name:
            assert not receipt.duplicates, (
                f"{reign.name} {posting.turn}: ids did what the numbers should have: {receipt}"
            )
            reign.acknowledged[posting.turn] = start
        else:
            reign.inherited_numbers[start] = count
            self.tally.count(found_by_id=receipt.duplicates)
        lane.pending.remove(posting)
        self.tally.count(parcels=1, messages=count, replays_answered=receipt.replayed)
