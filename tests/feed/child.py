"""The child of the crash tests of the feed: writers write, somebody collects and consigns, readers read, until killed.

Each line on its output is one JSON array: what was answered. A writer goes on with the first of its parcels that was not
answered, a reader with the position that it told last.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from restante.assembly import open_hub
from restante.calls.consignments import BeginConsignment, CommitConsignment, ReadConsignment, StageParcel
from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import FileNow
from restante.errors import BundleUnknown
from restante.hub.door.hub import OpenHub
from restante.model.consignments.consignment_answers import Winner
from restante.model.mailboxes.answers import BundleAnswer
from tests.feed.load import PARTITIONS, RECIPIENTS, SETTINGS, parcel
from tests.feed.replica import Row, rows_of

WRITERS = 2
FILED_AT_ONCE = 20
WAIT_SECONDS = 5
_telling = threading.Lock()


def tell(*words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    with _telling:
        os.write(1, line)


def brief(row: Row) -> list[Any]:
    """Enough of a change to tell it from all others."""
    identity = None if row["id"] is None else str(UUID(bytes=row["id"]))
    return [row["sequence_number"], row["change"], row["message_sequence_number"], identity]


class Work:
    def __init__(self, hub: OpenHub, life: int, given: dict[str, dict[str, int]]) -> None:
        self.hub, self.life = hub, life
        self.done = given["done"]
        """By writer: how many of its parcels were answered."""
        self.positions = given["positions"]
        self.unfiled = threading.Semaphore(0)

    def write(self, number: int) -> None:
        writer = f"writer {number}"
        for turn in count(self.done.get(writer, 0)):
            self.hub.call(Publish.of(parcel(writer, turn)))
            tell("written", writer, turn)
            self.unfiled.release()

    def consign(self, number: int) -> None:
        for turn in count(self.done.get("consignor", 0)):
            opened = self.hub.call(BeginConsignment(f"consignment {turn}")).id
            winners = []
            for writer in ("one", "two"):
                sent = parcel(f"consigned by {writer}", turn)
                winners.append(Winner(writer=writer, attempt=self.life, messages=len(sent)))
                # What an earlier life committed before its answer came is closed, with the attempts of that life.
                if self.hub.call(ReadConsignment(opened)).state.value == "open":
                    self.hub.call(StageParcel.of(opened, sent, writer=writer, attempt=self.life, parcel=0))
            if self.hub.call(ReadConsignment(opened)).state.value == "open":
                self.hub.call(CommitConsignment(opened, winners))
            tell("written", "consignor", turn)

    def collect(self, number: int) -> None:
        generator = random.Random(f"{self.life} {number}")
        while True:
            name = generator.choice(RECIPIENTS)
            bundle = self.hub.call(Peek(name, max_messages=generator.choice([1, 5, 60]), wait=0.01))
            if isinstance(bundle, BundleAnswer):
                self.hub.call(Dequeue(name, bundle.bundle_id))
                try:
                    self.hub.call(Dequeue(name, bundle.bundle_id))
                except BundleUnknown:
                    continue
                raise AssertionError("a bundle was dequeued twice")

    def read(self, partition: int) -> None:
        generator = random.Random(f"{self.life} {partition} reads")
        position = self.positions[str(partition)]
        while True:
            answer = self.hub.call(
                ReadFeed(
                    partition, after=position, limit=generator.choice([1, 7, 1_000]), wait=WAIT_SECONDS, reader="child"
                )
            )
            if generator.random() < 0.2:
                continue  # As if it had been lost before it was written down.
            tell("read", partition, position, answer.next, [brief(row) for row in rows_of(answer.table)])
            position = answer.next

    def file(self, number: int) -> None:
        while True:
            for _ in range(FILED_AT_ONCE):
                self.unfiled.acquire()
            self.hub.call(FileNow())


def guarded(work: Callable[[int], None], number: int) -> None:
    try:
        work(number)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        tell("failed", work.__name__, repr(error))
        os._exit(1)


def main() -> None:
    folder, life, given = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    work = Work(open_hub(folder, settings=SETTINGS), life, given)
    tell("opened")
    tasks: list[tuple[Callable[[int], None], int]] = [(work.write, number) for number in range(WRITERS)]
    tasks += [(work.read, partition) for partition in range(PARTITIONS)]
    tasks += [(work.consign, 0), (work.collect, 0), (work.file, 0)]
    threads = [threading.Thread(target=guarded, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
