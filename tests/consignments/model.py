"""Consignments as the rules are written, over the reference hub: dictionaries, walked over from the start each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from restante import errors
from restante.client.surface import surface
from restante.model.consignments.consignment_answers import ConsignmentState, Staged, StagedAttempt, Winner
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message, State
from restante.settings import Settings
from tests.reference import intake
from tests.reference.hub import ReferenceHub
from tests.reference.mailbox import Letter

OPEN, COMMITTED, DISCARDED = ConsignmentState


class ParcelName(NamedTuple):
    writer: str
    attempt: int
    parcel: int


@dataclass
class Parcel:
    sent: list[Message]
    completed: list[Message]


@dataclass
class Consignment:
    id: str
    key: str
    batch: str | None
    opened_at: int
    last_activity_at: int
    staged_at: int
    """When it was opened, or the last new parcel came: that much is kept for sure when a hub is opened again."""
    state: ConsignmentState = OPEN
    closed_at: int | None = None
    parcels: dict[ParcelName, Parcel] = field(default_factory=dict)
    receipt: Receipt | None = None
    named: list[Winner] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    """What the commit stored, in the order of its numbers."""

    def of_attempt(self, writer: str, attempt: int) -> list[Parcel]:
        """By ascending parcel number."""
        names = sorted(name for name in self.parcels if name[:2] == (writer, attempt))
        return [self.parcels[name] for name in names]

    def count(self, writer: str, attempt: int) -> int:
        return sum(len(parcel.sent) for parcel in self.of_attempt(writer, attempt))

    def attempts(self) -> Iterator[tuple[str, int, int, int]]:
        """Writer, attempt, parcels, messages."""
        for writer, attempt in sorted({name[:2] for name in self.parcels}):
            yield writer, attempt, len(self.of_attempt(writer, attempt)), self.count(writer, attempt)

    @property
    def staged(self) -> int:
        return sum(len(parcel.sent) for parcel in self.parcels.values())

    def close(self, state: ConsignmentState, now: int) -> None:
        self.state, self.closed_at, self.last_activity_at = state, now, now
        self.parcels.clear()


class Consignments:
    """All that there are. Ids are given from outside, so that they can be those of a hub."""

    def __init__(self) -> None:
        self.known: dict[str, Consignment] = {}

    def with_key(self, key: str) -> Consignment | None:
        """The one that has this key: a discarded one has it no longer."""
        found = [one for one in self.known.values() if one.key == key and one.state is not DISCARDED]
        assert len(found) <= 1
        return found[0] if found else None

    def open(self, key: str, *, now: int, new: Callable[[], tuple[str, str | None]]) -> tuple[Consignment, bool]:
        """The consignment, and whether it is new."""
        known = self.with_key(key)
        if known is not None:
            return known, False
        identity, batch = new()
        assert identity not in self.known
        self.known[identity] = Consignment(identity, key, batch, opened_at=now, last_activity_at=now, staged_at=now)
        return self.known[identity], True

    def find(self, identity: str) -> Consignment:
        if identity not in self.known:
            raise errors.ConsignmentUnknown("there is no such consignment")
        return self.known[identity]

    def stage(self, hub: ReferenceHub, identity: str, sent: Sequence[Message], name: ParcelName) -> Staged:
        found = self.find(identity)
        if found.state is not OPEN:
            raise errors.ConsignmentClosed("too late", state=found.state.value)
        if name in found.parcels:
            if found.parcels[name].sent != list(sent):
                raise errors.InvalidClientState("another parcel has these three")
            return Staged(staged=len(sent))
        completed = checked(hub, sent)
        new_messages(hub, completed)
        found.parcels[name] = Parcel(list(sent), completed)
        found.last_activity_at = found.staged_at = hub.office.clock()
        return Staged(staged=len(sent))

    def commit(self, hub: ReferenceHub, identity: str, winners: Sequence[Winner]) -> Receipt:
        found = self.find(identity)
        if found.receipt is not None:
            if sorted(winners, key=_by_writer) != sorted(found.named, key=_by_writer):
                raise errors.ConsignmentClosed("another commit", state=found.state.value, recorded=found.receipt)
            return found.receipt
        if found.state is DISCARDED:
            raise errors.ConsignmentClosed("too late", state=found.state.value)
        check_winners(found, winners)
        named = [
            message
            for winner in winners
            for parcel in found.of_attempt(winner.writer, winner.attempt)
            for message in parcel.completed
        ]
        new = new_messages(hub, named)
        found.receipt, found.named = hub._store(new, duplicates=len(named) - len(new)), list(winners)
        found.letters = [self._letter(hub, message) for message in new]
        found.close(COMMITTED, hub.office.clock())
        return found.receipt

    def _letter(self, hub: ReferenceHub, message: Message) -> Letter:
        letter = hub.store.mailbox(message.recipient).letter(message.id or "")
        assert letter is not None
        return letter

    def discard(self, identity: str, now: int) -> None:
        found = self.find(identity)
        if found.state is COMMITTED:
            raise errors.ConsignmentClosed("too late", state=found.state.value)
        if found.state is OPEN:
            found.close(DISCARDED, now)

    def keep_house(self, settings: Settings, now: int) -> None:
        """Abandoned ones are discarded; answers that are old enough are forgotten."""
        for identity, one in list(self.known.items()):
            if one.closed_at is not None and one.closed_at <= now - micro(settings.consignment_retention_seconds):
                del self.known[identity]
            elif one.state is OPEN and one.last_activity_at <= now - micro(settings.consignment_idle_seconds):
                one.close(DISCARDED, now)


def new_messages(hub: ReferenceHub, messages: Sequence[Message]) -> list[Message]:
    """Those that are no duplicates; raises if others are in conflict, or were erased."""
    new, faults = hub._new_messages(dict(enumerate(messages)))
    intake.raise_faults(faults)
    return new


def _by_writer(winner: Winner) -> str:
    return winner.writer


def micro(seconds: float) -> int:
    return round(seconds * 1_000_000)


def checked(hub: ReferenceHub, sent: Sequence[Message]) -> list[Message]:
    """The messages with their defaults, if they are such as a publish takes."""
    reachable = {name for name, port in hub.office.origins.items() if port.content is not None}
    intake.raise_faults(intake.faults_of(list(sent), content_origins=reachable))
    return [intake.completed(message) for message in sent]


def check_winners(found: Consignment, winners: Sequence[Winner]) -> None:
    """Each writer once, and of each attempt all that was announced is there."""
    if len({winner.writer for winner in winners}) < len(winners):
        raise errors.InvalidRequest("a writer is named twice")
    differing = [
        {"writer": winner.writer, "attempt": winner.attempt, "announced": winner.messages, "staged": staged}
        for winner in winners
        if (staged := found.count(winner.writer, winner.attempt)) != winner.messages
    ]
    if differing:
        raise errors.ConsignmentIncomplete("not all is staged", writers=differing)


def attempts_of(found: Consignment) -> list[tuple[str, int, int, int]]:
    return list(found.attempts())


def shown_attempts(attempts: Sequence[StagedAttempt]) -> list[tuple[str, int, int, int]]:
    return [(one.writer, one.attempt, one.parcels, one.messages) for one in attempts]


@dataclass
class BatchCounts:
    """What a batch must say of the messages that a commit stored."""

    items: int = 0
    collected: int = 0
    expired: int = 0
    withdrawn: int = 0
    pending: int = 0


def batch_counts(hub: ReferenceHub, found: Consignment) -> BatchCounts:
    counts = BatchCounts(items=len(found.letters))
    for letter in found.letters:
        stored = letter in hub.store.mailbox(letter.message.recipient).letters
        match letter.state:
            case State.COLLECTED:
                counts.collected += 1
            case State.EXPIRED:
                counts.expired += 1
            case State.WITHDRAWN:
                counts.withdrawn += 1
            case _ if not stored:
                # Erased while it was pending.
                counts.withdrawn += 1
            case _:
                counts.pending += 1
    return counts


def partitions_of(receipt: surface.Receipt) -> list[int]:
    return [one.partition for one in receipt.partitions]
