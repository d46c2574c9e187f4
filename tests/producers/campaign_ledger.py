"""What producers of a campaign sent and were told, and what must then be stored: each message once, in its order.

A reign is one producer group in one partition at one owner level. It ends with the campaign, or when a higher level
takes the group over.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from restante.client.surface.surface import Hub
from restante.errors import ProducerDisconnected
from restante.limits import PUBLISHED_SEQUENCE_MAX
from restante.model.mailboxes.answers import ProducerState
from restante.model.producers.producer import following, next_number
from restante.model.publishing.message import Message
from tests.crash.seen import history_of

PATIENCE_SECONDS = 120.0
TRAIL_MAX = 16
NUMBERS = PUBLISHED_SEQUENCE_MAX + 1


@dataclass(frozen=True)
class Place:
    """What a message says about itself: whose it is, of which parcel, and where it stands in it."""

    reign: str
    turn: int
    index: int


@dataclass
class Reign:
    """Written by its own producer only, read by others."""

    partition: int
    group: int
    level: int
    name: str
    last_before: int | None = None
    """The number that its numbers follow."""
    creation_order: bool = True
    """Parcels are stored in the order in which they were made: it never sends another one first."""
    successor: Reign | None = None
    sent: dict[int, int] = field(default_factory=dict)
    """Parcels by their turn, and how many messages each has."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Their first numbers."""
    inherited: set[tuple[str, int]] = field(default_factory=set)
    """Parcels of a predecessor that this one sent again."""
    inherited_numbers: dict[int, int] = field(default_factory=dict)
    """The first numbers that they were given, and how many messages they have."""
    ended: ProducerDisconnected | None = None
    trail: deque[str] = field(default_factory=lambda: deque(maxlen=TRAIL_MAX))
    """What happened last, for whoever has to find out what went wrong."""

    @property
    def last(self) -> int | None:
        """The last number that was acknowledged."""
        ends = [following(start, self.sent[turn] - 1) for turn, start in self.acknowledged.items()]
        ends += [following(start, count - 1) for start, count in self.inherited_numbers.items()]
        return max(ends, key=self.place_of, default=self.last_before)

    def place_of(self, number: int) -> int:
        """How many numbers of this reign come before this one; also after they have started anew from 0."""
        return (number - next_number(self.last_before)) % NUMBERS


class Tally:
    """What happened in a campaign, shared by all its threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.counts: Counter[str] = Counter()
        self.failures: list[BaseException] = []

    def count(self, **more: int) -> None:
        with self._changed:
            self.counts.update(more)
            self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[], bool]) -> None:
        """Until this is so; it is looked at whenever something was counted."""
        with self._changed:
            came = self._changed.wait_for(lambda: self.failures or wanted(), PATIENCE_SECONDS)
        self.check_no_failure()
        assert came, f"not within {PATIENCE_SECONDS} s: {self}"

    def wait_for_parcels(self, more: int) -> None:
        upto = self.counts["parcels"] + more
        self.wait_for(lambda: self.counts["parcels"] >= upto)

    def check_no_failure(self) -> None:
        if self.failures:
            raise self.failures[0]

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))


def stored_in(hub: Hub, recipients: Iterable[str]) -> list[Place]:
    """Everything that a partition has, in the order of its numbers."""
    found: dict[int, Message] = {}
    for name in recipients:
        for message in history_of(hub, name):
            number = message.sequence_number or 0
            assert number not in found, f"{number} was given twice"
            found[number] = message
    return [Place(*found[number].data) for number in sorted(found)]


def check_reigns(
    reigns: Sequence[Reign], stored: Mapping[int, list[Place]], states: Mapping[int, ProducerState]
) -> None:
    """`stored` by partition, `states` by producer group, which no two partitions share here."""
    known = {reign.name for reign in reigns}
    for partition, places in stored.items():
        twice = [place for place, count in Counter(places).items() if count > 1]
        assert not twice, f"stored twice in partition {partition}: {twice[:3]}"
        assert {place.reign for place in places} <= known
    for reign in reigns:
        own = [place for place in stored[reign.partition] if place.reign == reign.name]
        _check_whole(reign, own)
        if reign.successor is None:
            _check_survivor(reign, own, states[reign.group])
        else:
            _check_fenced(reign, reign.successor, stored[reign.partition])


def _check_whole(reign: Reign, own: Sequence[Place]) -> None:
    """What was acknowledged is there; parcels are there whole or not at all, in the order of their numbers."""
    lengths = Counter(place.turn for place in own)
    for turn, count in lengths.items():
        assert count == reign.sent[turn], f"{reign.name} {turn}: {count} of {reign.sent[turn]} messages"
    assert reign.acknowledged.keys() <= lengths.keys(), (
        f"{reign.name} lost {reign.acknowledged.keys() - lengths.keys()}"
    )
    turns = list(dict.fromkeys(place.turn for place in own))
    assert [(place.turn, place.index) for place in own] == [
        (turn, index) for turn in turns for index in range(reign.sent[turn])
    ], f"{reign.name}: parcels are mixed"
    numbered = [turn for turn in turns if turn in reign.acknowledged]
    assert numbered == sorted(numbered, key=lambda turn: reign.place_of(reign.acknowledged[turn])), (
        f"{reign.name}: not in the order of its numbers"
    )
    if reign.creation_order:
        assert turns == sorted(turns), f"{reign.name}: not in the order in which they were sent"


def _check_survivor(reign: Reign, own: Sequence[Place], state: ProducerState) -> None:
    assert reign.ended is None
    assert {place.turn for place in own} == reign.sent.keys() == reign.acknowledged.keys(), reign.name
    ranges = [(start, reign.sent[turn]) for turn, start in reign.acknowledged.items()]
    ranges += reign.inherited_numbers.items()
    upto = next_number(reign.last_before)
    for start, count in sorted(ranges, key=lambda each: reign.place_of(each[0])):
        assert start == upto, f"{reign.name}: {start} follows {upto}"
        upto = following(start, count)
    assert state.owner_level == reign.level
    assert next_number(state.last_published_sequence_number) == upto, f"{reign.name}: the hub has {state}, not {upto}"


def _check_fenced(reign: Reign, successor: Reign, stored: Sequence[Place]) -> None:
    """Once its successor is there, nothing of it is stored any more, but what the successor sent in its place."""
    assert reign.ended is not None, f"{reign.name} was not told that it was taken over"
    assert reign.ended.details == {"received": reign.level, "current": successor.level}
    taken_over = False
    for place in stored:
        taken_over |= place.reign == successor.name
        late = taken_over and place.reign == reign.name and (place.reign, place.turn) not in successor.inherited
        assert not late, f"{place} was stored after the take-over"
    places = set(stored)
    for name, turn in successor.inherited:
        assert Place(name, turn, 0) in places, f"{name} {turn} was handed over, and is not there"
