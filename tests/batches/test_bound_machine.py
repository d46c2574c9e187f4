"""Batches bound to messages, held against the mailboxes: the counts are those that counting one by one gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, NamedTuple
from uuid import UUID

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from restante.calls.batches import AcknowledgeItems, AddItems, OpenBatch, ReadBatch, ReadProgress, SealBatch
from restante.calls.publishing import Publish
from restante.calls.removal import Purge, Release, SetAside, Withdraw
from restante.client.surface import sync
from restante.errors import BatchSealed, RestanteError
from restante.model.batches.batch_answers import BatchState, Counting, RecipientProgress
from restante.model.publishing.message import Message, State
from tests.batches.folding import fold_batches
from tests.batches.model import moment
from tests.batches.places import PLACES
from tests.hub.engines import FakeClock
from tests.producers.machines import Step, Weighted, drive, drive_for_long, weighted
from tests.profiles import by_profile

EXAMPLES = {"memory": by_profile(dev=2, ci=7), "sqlite": by_profile(dev=2, ci=4)}
SHRINKING_SECONDS = 900
NAMES = ("ada", "ben", "cleo", "dora")
MANY = 150
"""So many messages go another way than a few."""
PENDING = (State.WAITING, State.SET_ASIDE)

Name = tuple[str, str]
"""A recipient, and the id of one of its messages."""


class Letter(NamedTuple):
    recipient: str
    known: bool
    """Whether it has been sent before, if anything has."""
    pick: int
    expires: bool


@dataclass
class Bound:
    """A batch: the messages that are items of it, and those of which it has duplicates."""

    id: str
    counting: Counting
    items: set[Name] = field(default_factory=set)
    duplicates: int = 0
    duplicated: set[Name] = field(default_factory=set)
    """Of the duplicates those whose messages waited at the time."""
    hand: int = 0
    hand_done: int = 0
    sealed: bool = False
    completed_at: datetime | None = None


PICK = st.integers(0, 50)
NAME = st.sampled_from(NAMES)
LETTERS = st.lists(
    st.builds(Letter, NAME, st.sampled_from([False, False, True]), PICK, st.sampled_from([False, False, True])),
    min_size=1,
    max_size=5,
)
STEPS: Weighted = [
    (2, "open", {}),
    (10, "publish", {"pick": st.integers(-1, 4), "letters": LETTERS, "many": st.sampled_from([False] * 4 + [True])}),
    (5, "peek", {"name": NAME, "most": st.sampled_from([1, 3, 1_000])}),
    (5, "dequeue", {"name": NAME}),
    (2, "withdraw", {"pick": PICK}),
    (2, "set_aside", {"pick": PICK}),
    (2, "release", {"pick": PICK}),
    (1, "purge", {"name": NAME}),
    (2, "let_time_pass", {"seconds": st.sampled_from([1.0, 20.0])}),
    (2, "add_by_hand", {"pick": PICK}),
    (2, "acknowledge_by_hand", {"pick": PICK}),
    (3, "seal", {"pick": PICK}),
    (1, "file", {}),
    (2, "reopen", {}),
]


class BoundBatches(RuleBasedStateMachine):
    place_name: ClassVar[str] = "memory"
    counting: ClassVar[Counting] = Counting.EXACT

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.clock = FakeClock()
        self.place = PLACES[self.place_name](Path(self.folder.name) / "data")
        self.count = 0
        self.batches: list[Bound] = []
        self.sent: dict[Name, Message] = {}
        self.opened: dict[str, Callable[[], object]] = {}
        self.fates: dict[Name, State] = {}
        """What became of each message, as its mailbox tells."""
        self._open_hub()

    def _open_hub(self) -> None:
        self.core = self.place.open(self.clock)
        self.hub = sync.Hub(self.core)

    def teardown(self) -> None:
        self.hub.close()
        self.folder.cleanup()

    @rule(step=weighted(STEPS))
    def do(self, step: Step) -> None:
        getattr(self, step.what)(**step.how)
        # What expires is settled at once, so that mailboxes and counts speak of the same moment.
        self.hub.expire()
        self.fates = {
            (name, message.id or ""): message.state or State.WAITING
            for name in NAMES
            for message in self.hub.recipient(name).history(limit=1_000).messages
        }
        for batch in self.batches:
            if batch.sealed and batch.completed_at is None and self._pending(batch) == 0:
                batch.completed_at = moment(self.clock())
        self.clock.advance(0.01)

    def _pending(self, batch: Bound) -> int:
        return batch.hand - batch.hand_done + sum(self.fates[name] in PENDING for name in batch.items)

    # What is done.

    def open(self) -> None:
        self.batches.append(Bound(self.core.call(OpenBatch(counting=self.counting)).id, self.counting))

    def publish(self, pick: int, letters: list[Letter], many: bool) -> None:
        batch = self.batches[pick % len(self.batches)] if self.batches and pick >= 0 else None
        parcel = [self._message(letter) for letter in letters]
        if many:
            parcel += [self._message(Letter(NAMES[n % 4], known=False, pick=0, expires=False)) for n in range(MANY)]
        try:
            receipt = self.core.call(Publish.of(parcel, batch=None if batch is None else batch.id))
        except BatchSealed:
            assert batch is not None
            assert batch.sealed
            return
        assert batch is None or not batch.sealed
        accepted = 0
        for message in parcel:
            accepted += self._published(message, batch)
        assert (receipt.accepted, receipt.duplicates) == (accepted, len(parcel) - accepted)
        event(f"published {'bound' if batch else 'free'}, duplicates: {accepted < len(parcel)}")

    def _message(self, letter: Letter) -> Message:
        if letter.known and self.sent:
            return list(self.sent.values())[letter.pick % len(self.sent)]
        self.count += 1
        expires_at = moment(self.clock()) + timedelta(seconds=15) if letter.expires else None
        identity = str(UUID(int=self.count))
        return Message(recipient=letter.recipient, id=identity, data=identity.encode(), expires_at=expires_at)

    def _published(self, message: Message, batch: Bound | None) -> bool:
        name = (message.recipient, message.id or "")
        if name not in self.sent:
            self.sent[name] = message
            self.fates[name] = State.WAITING
            if batch is not None:
                batch.items.add(name)
            return True
        if batch is not None:
            batch.duplicates += 1
            if self.fates[name] in PENDING:
                batch.duplicated.add(name)
        return False

    def peek(self, name: str, most: int) -> None:
        bundle = self.hub.recipient(name).peek(max_messages=most)
        if bundle is not None:
            self.opened[name] = bundle.dequeue

    def dequeue(self, name: str) -> None:
        if name in self.opened:
            self.opened.pop(name)()

    def _each(self, pick: int) -> Name | None:
        return list(self.sent)[pick % len(self.sent)] if self.sent else None

    def withdraw(self, pick: int) -> None:
        name = self._each(pick)
        if name is not None:
            with suppress(RestanteError):
                self.core.call(Withdraw(*name))

    def set_aside(self, pick: int) -> None:
        name = self._each(pick)
        if name is not None:
            with suppress(RestanteError):
                self.core.call(SetAside(*name))

    def release(self, pick: int) -> None:
        aside = [name for name, fate in self.fates.items() if fate is State.SET_ASIDE]
        if aside:
            with suppress(RestanteError):
                self.core.call(Release(*aside[pick % len(aside)]))

    def purge(self, name: str) -> None:
        self.core.call(Purge(name, all=True))

    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def add_by_hand(self, pick: int) -> None:
        if self.batches and not (batch := self.batches[pick % len(self.batches)]).sealed and not batch.hand:
            (group,) = self.core.call(AddItems(batch.id, 2)).groups
            assert group.id == "0"
            batch.hand = 2

    def acknowledge_by_hand(self, pick: int) -> None:
        if self.batches and (batch := self.batches[pick % len(self.batches)]).hand_done < batch.hand:
            self.core.call(AcknowledgeItems([f"{batch.id}:0:{batch.hand_done}"]))
            batch.hand_done += 1

    def seal(self, pick: int) -> None:
        if self.batches:
            batch = self.batches[pick % len(self.batches)]
            complete = self.core.call(SealBatch(batch.id)).complete
            batch.sealed = True
            assert complete == (self._pending(batch) == 0)

    def file(self) -> None:
        self.hub.file()
        fold_batches(self.core)

    def reopen(self) -> None:
        # Of estimated batches the acknowledgements by hand are forgotten then; that is tried elsewhere.
        if self.counting is Counting.EXACT:
            self.hub.close()
            self._open_hub()
            self.opened.clear()

    # What is to be seen.

    @invariant()
    def the_counts_are_those_of_the_messages(self) -> None:
        for batch in self.batches:
            status = self.core.call(ReadBatch(batch.id))
            fates = Counter(self.fates[name] for name in batch.items)
            assert status.items == len(batch.items) + batch.hand
            assert status.pending == self._pending(batch)
            assert status.acknowledged == batch.hand_done
            assert (status.collected, status.expired, status.withdrawn) == (
                fates[State.COLLECTED],
                fates[State.EXPIRED],
                fates[State.WITHDRAWN],
            )
            assert status.duplicates == batch.duplicates
            assert status.duplicates_waiting == sum(self.fates[name] in PENDING for name in batch.duplicated)
            complete = batch.completed_at is not None
            assert (status.state is BatchState.COMPLETE) == complete
            assert status.completed_at == batch.completed_at
            event(f"complete: {complete}, duplicates waiting: {status.duplicates_waiting > 0}")

    @invariant()
    def the_progress_is_that_of_the_mailboxes(self) -> None:
        for batch in self.batches:
            found = {one.recipient: one for one in self.core.call(ReadProgress(batch.id)).recipients}
            expected = {one.recipient: one for name in NAMES if (one := self._progress(batch, name)) is not None}
            assert found == expected
            waiting = {one.recipient: one for one in self.core.call(ReadProgress(batch.id, waiting=True)).recipients}
            left = {name: one for name, one in expected.items() if one.waiting or one.set_aside}
            assert left.items() <= waiting.items() <= expected.items()
            assert all(one.waiting or one.set_aside or one.duplicates_waiting for one in waiting.values())

    def _progress(self, batch: Bound, recipient: str) -> RecipientProgress | None:
        own = [name for name in batch.items if name[0] == recipient]
        fates = Counter(self.fates[name] for name in own)
        duplicated = sum(name[0] == recipient and self.fates[name] in PENDING for name in batch.duplicated)
        if not own and not duplicated:
            return None
        waiting = {name[1] for name in own if self.fates[name] is State.WAITING}
        published = [
            message.published_at
            for message in self.hub.recipient(recipient).history(limit=1_000).messages
            if message.id in waiting and message.published_at is not None
        ]
        return RecipientProgress(
            recipient=recipient,
            collected=fates[State.COLLECTED],
            waiting=len(waiting),
            set_aside=fates[State.SET_ASIDE],
            expired=fates[State.EXPIRED],
            withdrawn=fates[State.WITHDRAWN],
            oldest_waiting=min(published, default=None),
            duplicates_waiting=duplicated,
        )


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("place", list(EXAMPLES))
def test_the_counts_of_a_batch_are_those_of_its_messages(place: str) -> None:
    drive(BoundBatches, campaigns=1, examples=EXAMPLES[place], place_name=place)


@pytest.mark.timeout(SHRINKING_SECONDS)
def test_the_counts_of_an_estimated_batch_are_those_of_its_messages() -> None:
    drive(BoundBatches, campaigns=1, examples=EXAMPLES["sqlite"], place_name="memory", counting=Counting.ESTIMATED)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("counting", list(Counting))
@pytest.mark.parametrize("place", list(EXAMPLES))
def test_the_counts_of_a_batch_are_those_of_its_messages_for_long(place: str, counting: Counting) -> None:
    drive_for_long(BoundBatches, place_name=place, counting=counting)
