"""Many writers at the same time, beside publishers and readers: each message once, all at once, and one answer."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from restante.assembly import open_hub, open_store
from restante.calls.batches import ListBatches
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ReadConsignment,
    StageParcel,
)
from restante.calls.mailboxes import Dequeue, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import ConsignmentClosed, ConsignmentIncomplete, RestanteError
from restante.hub.door.hub import OpenHub
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.model.mailboxes.answers import BundleAnswer, Receipt
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.consignments.examined import findings_of
from tests.profiles import by_profile

SEEDS = range(by_profile(dev=1, ci=3))
ROUNDS = by_profile(dev=10, ci=30)
WRITERS = 8
PARCELS = by_profile(dev=4, ci=6)
SIZES = (1, 5, 80)
PUBLIC = 40
"""So many of the staged messages come another way too."""
PATIENCE_SECONDS = 120
PAUSE_SECONDS = 0.01
"""So long publishers and readers leave the processor to the writers."""
SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)
NAMES = tuple(f"recipient {number}" for number in range(5))


@contextmanager
def hub_at(place: str, folder: Path) -> Iterator[OpenHub]:
    """A hub; the doctor looks at what it leaves."""
    if place == "memory":
        store = MemoryStore()
        hub = open_hub(None, store=store, settings=SETTINGS)
        yield hub
        hub.close()
        assert findings_of(store.survivor()) == ()
        return
    hub = open_hub(folder, settings=SETTINGS)
    yield hub
    hub.close()
    kept = open_store(folder)
    assert findings_of(kept) == ()
    kept.close()


def letter(number: int) -> Message:
    return Message(recipient=NAMES[number % len(NAMES)], id=str(UUID(int=number)), data=f"letter {number}".encode())


def together(works: Sequence[Callable[[], object]]) -> list[object]:
    """All begin at the same moment; gives the answer or the error of each."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        barrier.wait(PATIENCE_SECONDS)
        try:
            return work()
        except RestanteError as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def visible(hub: OpenHub) -> list[str]:
    return [message.id or "" for name in NAMES for message in hub.call(ReadHistory(name, limit=1_000)).messages]


# --- Writers, publishers, readers, committers -------------------------------------------------------------------------


@dataclass
class Race:
    """Eight writers, each of them twice, as a task that was started again while it still ran."""

    hub: OpenHub
    generator: random.Random
    opened: str = ""
    parcels: dict[tuple[str, int], list[Message]] = field(default_factory=dict)
    public: set[str] = field(default_factory=set)
    """What somebody is about to publish, apart from the consignment."""
    committing: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    collected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opened = self.hub.call(BeginConsignment("night")).id
        next_number, shared = 1, [letter(10_000 + number) for number in range(10)]
        for writer in range(WRITERS):
            for parcel in range(PARCELS):
                size = self.generator.choice(SIZES)
                own = [letter(next_number + at) for at in range(size)]
                next_number += size
                self.parcels[f"writer {writer}", parcel] = [*own, *self.generator.sample(shared, 2)]

    @property
    def messages(self) -> dict[str, Message]:
        return {message.id or "": message for parcel in self.parcels.values() for message in parcel}

    def write(self, writer: str, seed: int) -> None:
        generator = random.Random(f"{writer} {seed}")
        order = generator.sample(range(PARCELS), PARCELS)
        for parcel in [*order, *order[:2]]:
            sent = self.parcels[writer, parcel]
            staged = self.hub.call(StageParcel.of(self.opened, sent, writer=writer, attempt=3, parcel=parcel))
            assert staged.staged == len(sent)
            if generator.random() < 0.3:
                self.hub.call(StageParcel.of(self.opened, sent[:1], writer=writer, attempt=2, parcel=parcel))

    def publish(self, seed: int) -> None:
        generator = random.Random(seed)
        known = random.Random(0).sample(list(self.messages.values()), PUBLIC)
        while not self.over.is_set():
            some = generator.sample(known, 3)
            self.public |= {message.id or "" for message in some}
            self.hub.call(Publish.of(some))
            self.over.wait(PAUSE_SECONDS)

    def collect(self, name: str) -> None:
        while True:
            last = self.over.is_set()
            bundle = self.hub.call(Peek(name, max_messages=50, wait=0 if last else PAUSE_SECONDS))
            if isinstance(bundle, BundleAnswer):
                ids = [str(UUID(bytes=identity)) for identity in bundle.table["id"].to_pylist()]
                if not self.committing.is_set():
                    assert set(ids) <= self.public, "staged mail is seen by nobody"
                self.collected += ids
                self.hub.call(Dequeue(name, bundle.bundle_id))
            elif last:
                return

    def commit(self) -> list[Receipt]:
        counts: dict[str, int] = {}
        for (writer, _), sent in self.parcels.items():
            counts[writer] = counts.get(writer, 0) + len(sent)
        winners = [Winner(writer=writer, attempt=3, messages=count) for writer, count in counts.items()]
        self.committing.set()
        answers = together([lambda: self.hub.call(CommitConsignment(self.opened, winners))] * 2)
        return [answer for answer in answers if isinstance(answer, Receipt)]

    def run(self) -> list[Receipt]:
        with ThreadPoolExecutor(WRITERS * 2 + len(NAMES) + 2) as pool:
            others = [pool.submit(self.collect, name) for name in NAMES]
            others += [pool.submit(self.publish, seed) for seed in range(2)]
            writing = [
                pool.submit(self.write, f"writer {writer}", seed) for writer in range(WRITERS) for seed in range(2)
            ]
            try:
                for work in writing:
                    work.result(PATIENCE_SECONDS)
                receipts = self.commit()
            finally:
                self.over.set()
            for work in others:
                work.result(PATIENCE_SECONDS)
        return receipts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_what_many_writers_stage_beside_publishers_is_delivered_once(place: str, seed: int, tmp_path: Path) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        race = Race(hub, random.Random(seed))
        receipts = race.run()
        assert len(receipts) == 2, "both who commit are answered"
        assert receipts[0] == receipts[1], "with the same"
        assert receipts[0].accepted + receipts[0].duplicates == sum(map(len, race.parcels.values()))
        assert sorted(race.collected) == sorted(race.messages), "each message once"
        assert sorted(visible(hub)) == sorted(race.messages)
        assert hub.call(ReadConsignment(race.opened)).staged_messages == 0


# --- Two things at the same moment ------------------------------------------------------------------------------------


def consigned(hub: OpenHub, start: int, *, size: int = 70) -> str:
    """An open consignment of one writer with one parcel."""
    opened = hub.call(BeginConsignment(f"from {start}")).id
    hub.call(StageParcel.of(opened, [letter(start + at) for at in range(size)], writer="one", attempt=0, parcel=0))
    return opened


def starts() -> Iterator[int]:
    return iter(range(1_000, 1_000 + 200 * ROUNDS, 200))


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_of_a_commit_and_a_discard_at_the_same_time_one_is_refused(place: str, tmp_path: Path) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        expected = list[str]()
        for start in starts():
            opened, winner = consigned(hub, start), Winner(writer="one", attempt=0, messages=70)
            answers = together(
                [
                    lambda opened=opened, winner=winner: hub.call(CommitConsignment(opened, [winner])),  # type: ignore[misc]
                    lambda opened=opened: hub.call(DiscardConsignment(opened)),  # type: ignore[misc]
                ]
            )
            refused = [answer for answer in answers if isinstance(answer, ConsignmentClosed)]
            state = hub.call(ReadConsignment(opened)).state
            assert len(refused) == 1
            assert refused[0] is answers[1 if state is ConsignmentState.COMMITTED else 0]
            assert refused[0].details["state"] == state.value
            if state is ConsignmentState.COMMITTED:
                expected += [letter(start + at).id or "" for at in range(70)]
        assert sorted(visible(hub)) == sorted(expected)


@pytest.mark.parametrize("attempt", [0, 1], ids=["of the winner", "of another attempt"])
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_what_is_staged_beside_a_commit_is_refused_or_was_announced(place: str, attempt: int, tmp_path: Path) -> None:
    """A parcel that comes before the commit makes its count wrong, if the attempt counts; one after it is too late."""
    with hub_at(place, tmp_path / "data") as hub:
        expected = list[str]()
        for start in starts():
            opened, winner = consigned(hub, start, size=5), Winner(writer="one", attempt=0, messages=5)
            late = [letter(start + 100 + at) for at in range(70)]
            committed, staged = together(
                [
                    lambda opened=opened, winner=winner: hub.call(CommitConsignment(opened, [winner])),  # type: ignore[misc]
                    lambda opened=opened, late=late: hub.call(
                        StageParcel.of(opened, late, writer="one", attempt=attempt, parcel=1)
                    ),  # type: ignore[misc]
                ]
            )
            if isinstance(committed, ConsignmentIncomplete):
                assert attempt == 0
                assert committed.details["writers"] == [
                    {"writer": "one", "attempt": 0, "announced": 5, "staged": 75},
                ]
                assert not isinstance(staged, RestanteError)
                hub.call(DiscardConsignment(opened))
            else:
                assert isinstance(committed, Receipt)
                assert isinstance(staged, ConsignmentClosed) or attempt == 1
                expected += [letter(start + at).id or "" for at in range(5)]
        assert sorted(visible(hub)) == sorted(expected)


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_a_parcel_that_several_stage_at_the_same_time_is_staged_once(place: str, tmp_path: Path) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        for start in starts():
            opened, sent = hub.call(BeginConsignment(f"from {start}")).id, [letter(start + at) for at in range(70)]
            parcel = StageParcel.of(opened, sent, writer="w", attempt=0, parcel=0)
            answers = together([partial(hub.call, parcel)] * 4)
            assert [getattr(answer, "staged", answer) for answer in answers] == [70] * 4
            (attempt,) = hub.call(ReadConsignment(opened)).attempts
            assert (attempt.parcels, attempt.messages) == (1, 70)
            assert hub.call(CommitConsignment(opened, [Winner(writer="w", attempt=0, messages=70)])).accepted == 70


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_who_opens_by_the_same_key_at_the_same_time_gets_the_same(place: str, tmp_path: Path) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        for start in starts():
            opened = together([lambda start=start: hub.call(BeginConsignment(f"key {start}", batch=True))] * 4)  # type: ignore[misc]
            assert len({getattr(one, "id", one) for one in opened}) == 1
            assert sum(getattr(one, "created", False) for one in opened) == 1
        assert len(hub.call(ListBatches(limit=1_000)).batches) == ROUNDS


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_consignments_with_the_same_mail_committed_at_the_same_time_store_it_once(place: str, tmp_path: Path) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        for start in starts():
            opened = [hub.call(BeginConsignment(f"from {start}, number {number}")).id for number in range(3)]
            for number, one in enumerate(opened):
                sent = [letter(start + 10 * number + at) for at in range(70)]
                hub.call(StageParcel.of(one, sent, writer="w", attempt=0, parcel=0))
            winner = Winner(writer="w", attempt=0, messages=70)
            answers = together(
                [lambda one=one, winner=winner: hub.call(CommitConsignment(one, [winner])) for one in opened]  # type: ignore[misc]
            )
            receipts = [answer for answer in answers if isinstance(answer, Receipt)]
            assert [receipt.accepted + receipt.duplicates for receipt in receipts] == [70] * 3
            assert sum(receipt.accepted for receipt in receipts) == 90
        assert len(visible(hub)) == len(set(visible(hub))) == 90 * ROUNDS
