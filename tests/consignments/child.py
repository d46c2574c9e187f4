"""The child of the crash tests of consignments: four writers stage, somebody commits or discards, until killed.

Each line on its output is one JSON array: what is about to be done, or what was answered. What former lives have left
open comes as JSON: it is staged again from the start, which is harmless, and ended as it was to be.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import msgspec

from restante.assembly import open_hub
from restante.calls.consignments import BeginConsignment, CommitConsignment, DiscardConsignment, StageParcel
from restante.calls.publishing import Publish
from restante.calls.removal import FileNow
from restante.errors import ConsignmentClosed
from restante.hub.door.hub import OpenHub
from restante.model.publishing.message import Message
from tests.consignments.load import SETTINGS, WRITERS, staged_by, winners_of, winning_attempt

LANES = 2
FILED_AT_ONCE = 5
_telling = threading.Lock()


def tell(*words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    with _telling:
        os.write(1, line)


class Work:
    """One life of the child."""

    def __init__(self, hub: OpenHub, life: int, left: list[str]) -> None:
        self.hub, self.life = hub, life
        self.left = left
        """The keys of what was open when the child was killed."""
        self.writers = ThreadPoolExecutor(LANES * len(WRITERS))
        self.unfiled = threading.Semaphore(0)

    def consign(self, lane: int) -> None:
        for key in self.left[lane::LANES]:
            self.carry_out(key)
        for number in count():
            self.carry_out(f"{self.life} {lane} {number}")

    def carry_out(self, key: str) -> None:
        generator = random.Random(f"{key} in {self.life}")
        tell("opens", key)
        identity = self.hub.call(BeginConsignment(key, batch=generator.random() < 0.3)).id
        tell("opened", key, identity)
        list(self.writers.map(lambda writer: self.write(key, identity, writer), WRITERS))
        self.publish_some(key, generator)
        fate = generator.random()
        if fate < 0.7:
            self.commit(key, identity)
        elif fate < 0.9:
            self.discard(key, identity)
        self.unfiled.release()

    def write(self, key: str, identity: str, writer: str) -> None:
        """An attempt that is given up halfway, if there is one, and then the one that counts; some parcels twice."""
        generator, last = random.Random(f"{key} {writer} {self.life}"), winning_attempt(key, writer)
        for attempt in range(last + 1):
            parcels = staged_by(key, writer)
            for number, messages in enumerate(parcels[:1] if attempt < last else parcels):
                for _ in range(generator.choice([1, 1, 2])):
                    tell("stages", key, writer, attempt, number)
                    try:
                        self.hub.call(StageParcel.of(identity, messages, writer=writer, attempt=attempt, parcel=number))
                    except ConsignmentClosed as error:
                        tell("closed", key, error.details["state"])
                        return
                    tell("staged", key, writer, attempt, number)

    def publish_some(self, key: str, generator: random.Random) -> None:
        """What is staged comes another way too: then it is a duplicate in the commit."""
        staged = [message for writer in WRITERS for messages in staged_by(key, writer) for message in messages]
        if staged and generator.random() < 0.4:
            some: list[Message] = generator.sample(staged, min(len(staged), 3))
            names = [(message.recipient, message.id) for message in some]
            tell("publishes", key, names)
            self.hub.call(Publish.of(some))
            tell("published", key, names)

    def commit(self, key: str, identity: str) -> None:
        tell("commits", key)
        try:
            receipt = self.hub.call(CommitConsignment(identity, winners_of(key)))
        except ConsignmentClosed as error:
            tell("closed", key, error.details["state"])
            return
        tell("committed", key, json.loads(msgspec.json.encode(receipt)))

    def discard(self, key: str, identity: str) -> None:
        tell("discards", key)
        try:
            self.hub.call(DiscardConsignment(identity))
        except ConsignmentClosed as error:
            tell("closed", key, error.details["state"])
            return
        tell("discarded", key)

    def file(self, lane: int) -> None:
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
    folder, life, left = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    tell("opens the hub")
    work = Work(open_hub(folder, settings=SETTINGS), life, left)
    tell("opened the hub")
    tasks: list[tuple[Callable[[int], None], int]] = [(work.consign, lane) for lane in range(LANES)]
    tasks += [(work.file, 0)]
    threads = [threading.Thread(target=guarded, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
