"""Readers that fail and go on from what they saved, beside writers that fail and repeat: every change once.

Meanwhile mail is collected, withdrawn, set aside, released, filed, erased; snapshots are begun in the middle of it.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restante.assembly import open_hub
from restante.calls.call import Call
from restante.calls.consignments import BeginConsignment, CommitConsignment, StageParcel
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.calls.mailboxes import Dequeue, ListPartitions, PartitionOf, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.calls.removal import FileNow, Purge, Release, SetAside, Withdraw
from restante.errors import RestanteError
from restante.hub.door.hub import OpenHub
from restante.model.consignments.consignment_answers import Winner
from restante.model.feed.feed_answers import EVERYTHING, FeedWish
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import State
from restante.stores.memory import MemoryStore
from tests.feed.load import PARTITIONS, RECIPIENTS, SETTINGS, parcel
from tests.feed.reading import matches, read_to_end
from tests.feed.replica import Replica, Row, check_against, rows_of
from tests.profiles import by_profile
from tests.reference.intake import EPOCH

SEEDS = range(20 if os.environ.get("RESTANTE_LONG") == "1" else 1)
WRITERS = 3
PARCELS = by_profile(dev=12, ci=25)
PATIENCE_SECONDS = 120
WISHES = [EVERYTHING, FeedWish(kinds=("k",)), FeedWish(recipients=(RECIPIENTS[0],))]


@contextmanager
def hub_at(place: str, folder: Path) -> Iterator[OpenHub]:
    store = MemoryStore() if place == "memory" else None
    hub = open_hub(folder if store is None else None, store=store, settings=SETTINGS)
    try:
        yield hub
    finally:
        hub.close()


@dataclass
class Reader:
    """Saves what it has read together with the position, now and then; what it had beyond that is lost when it fails."""

    partition: int
    wish: FeedWish
    saved: list[Row] = field(default_factory=list)
    position: int = 0
    failures: int = 0

    def read(self, hub: OpenHub, generator: random.Random, *, until: Callable[[], int | None]) -> None:
        while True:
            end = until()
            position, pages = self.position, list[Row]()
            for _ in range(generator.randint(1, 4)):
                answer = hub.call(
                    ReadFeed(
                        self.partition, after=position, wish=self.wish, limit=generator.choice([1, 5, 500]), wait=0.01
                    )
                )
                pages += rows_of(answer.table)
                position = answer.next
            if generator.random() < 0.3:
                self.failures += 1
                continue
            self.saved += pages
            self.position = position
            if end is not None and position >= end:
                return


@dataclass
class Race:
    hub: OpenHub
    seed: int
    over: threading.Event = field(default_factory=threading.Event)
    replicas: list[tuple[int, Replica]] = field(default_factory=list)

    def write(self, number: int) -> None:
        """Each parcel until an answer is seen; some answers are lost."""
        generator = random.Random(f"{self.seed} {number}")
        for turn in range(PARCELS):
            sent = parcel(f"{self.seed} {number}", turn)
            answered = False
            while not answered:
                if turn % 3:
                    self.hub.call(Publish.of(sent))
                else:
                    opened = self.hub.call(BeginConsignment(f"{number} {turn}"))
                    with suppress(RestanteError):
                        self.hub.call(StageParcel.of(opened.id, sent, writer="w", attempt=0, parcel=0))
                    self.hub.call(CommitConsignment(opened.id, [Winner(writer="w", attempt=0, messages=len(sent))]))
                answered = generator.random() < 0.7

    def settle(self, number: int) -> None:
        """Whatever can happen to mail. Much of it is refused, as others collect the same."""
        generator = random.Random(f"{self.seed} settles {number}")
        while not self.over.is_set():
            name = generator.choice(RECIPIENTS)
            with suppress(RestanteError):
                self._settle(name, generator)

    def _settle(self, name: str, generator: random.Random) -> None:
        hub, what = self.hub, generator.choice(["collect", "collect", "withdraw", "aside", "aside", "release", "file"])
        if what == "collect":
            bundle = hub.call(Peek(name, max_messages=generator.choice([1, 5, 60])))
            if isinstance(bundle, BundleAnswer):
                hub.call(Dequeue(name, bundle.bundle_id))
        elif what == "file":
            hub.call(FileNow())
            if generator.random() < 0.1:
                hub.call(Purge(name, kind="l"))
        else:
            state = State.SET_ASIDE if what == "release" else State.WAITING
            messages = hub.call(ReadHistory(name, state=state, limit=20)).messages
            if messages:
                acts: dict[str, Callable[[str, str], Call[None]]]
                acts = {"withdraw": Withdraw, "aside": SetAside, "release": Release}
                hub.call(acts[what](name, generator.choice(messages).id or ""))

    def take_snapshots(self, partition: int) -> None:
        generator = random.Random(f"{self.seed} snapshots {partition}")
        while not self.over.is_set():
            rows, token = list[Row](), None
            while True:
                answer = self.hub.call(ReadSnapshot(partition, after=token, limit=generator.choice([3, 40])))
                rows += rows_of(answer.table)
                token = answer.next
                if token is None:
                    break
            self.replicas.append((partition, Replica.of_snapshot(rows, answer.position)))

    def end(self, partition: int) -> int | None:
        return self.hub.call(ListPartitions())[partition].visible_sequence if self.over.is_set() else None

    def run(self, readers: list[Reader]) -> None:
        def read(number: int) -> None:
            reader = readers[number]
            generator = random.Random(f"{self.seed} reads {number}")
            reader.read(self.hub, generator, until=lambda: self.end(reader.partition))

        with ThreadPoolExecutor(WRITERS + 2 + PARTITIONS + len(readers)) as pool:
            writing = [pool.submit(self.write, number) for number in range(WRITERS)]
            settling = [pool.submit(self.settle, number) for number in range(2)]
            settling += [pool.submit(self.take_snapshots, partition) for partition in range(PARTITIONS)]
            reading = [pool.submit(read, number) for number in range(len(readers))]
            try:
                for work in writing:
                    work.result(PATIENCE_SECONDS)
            finally:
                self.over.set()
            for work in (*settling, *reading):
                work.result(PATIENCE_SECONDS)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_readers_that_fail_and_go_on_beside_writers_that_repeat_get_every_change_once(
    place: str, seed: int, tmp_path: Path
) -> None:
    with hub_at(place, tmp_path / "data") as hub:
        race = Race(hub, seed)
        readers = [Reader(partition, wish) for partition in range(PARTITIONS) for wish in WISHES]
        race.run(readers)
        sent = {
            message.id
            for number in range(WRITERS)
            for turn in range(PARCELS)
            for message in parcel(f"{seed} {number}", turn)
        }
        published = list[bytes]()
        for partition in range(PARTITIONS):
            whole = read_to_end(hub, partition, after=None, limit=lambda: None).rows
            published += [row["id"] for row in whole if row["change"] == "published"]
            for reader in readers:
                if reader.partition == partition:
                    # What came after the reader had ended is the settlers' last.
                    known = [row for row in whole if row["sequence_number"] <= reader.position]
                    assert reader.saved == [row for row in known if matches(row, reader.wish)]
            check_replicas(hub, partition, whole, race)
        assert len(published) == len(set(published)) == len(sent), "however often it was sent"
        assert sum(reader.failures for reader in readers), "no reader failed"


def check_replicas(hub: OpenHub, partition: int, whole: list[Row], race: Race) -> None:
    """Who began with a snapshot knows what who read from the start knows: what history says."""
    first = Replica()
    first.apply(whole)
    others = [replica for own, replica in race.replicas if own == partition]
    assert others
    for replica in (first, *others):
        begin = replica.position
        replica.apply(row for row in whole if replica is not first and row["sequence_number"] > begin)
        for name in RECIPIENTS:
            if hub.call(PartitionOf(name)) == partition:
                table, _ = hub.history_table(ReadHistory(name, limit=1_000))
                shown = rows_of(table)
                upto = shown[-1]["sequence_number"] if shown else 0
                part = Replica(copies={number: copy for number, copy in replica.copies.items() if number <= upto})
                check_against(part, shown, name, kept_since=EPOCH)
