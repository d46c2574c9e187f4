"""The child of the crash tests: works on a data folder, or a database, from several threads, and tells what it does, until killed.

Each line on its output is one JSON array: what is about to be done, or what was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import count

import restante
from restante.client.surface.surface import Hub
from restante.errors import BundleUnknown, NotOwner, RestanteError
from tests.crash.load import ORIGINS, RECIPIENTS, SETTINGS, ParcelName, message_id, parcel

PUBLISHERS = 3
COLLECTORS = 2
FILED_AT_ONCE = 10
_telling = threading.Lock()


def tell(*words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    with _telling:
        os.write(1, line)


class Work:
    """One life of the child."""

    def __init__(self, hub: Hub, life: int) -> None:
        self.hub, self.life = hub, life
        self.published: deque[tuple[str, str]] = deque(maxlen=500)
        """Recipients and ids that may be withdrawn."""
        self.unfiled = threading.Semaphore(0)

    def publish(self, publisher: int) -> None:
        for number in count():
            name = ParcelName(self.life, publisher, number)
            messages = parcel(name)
            tell("publishes", *name)
            receipt = self.hub.producer.send(messages)
            spans = [(p.partition, p.first_sequence_number, p.last_sequence_number) for p in receipt.partitions]
            tell("published", *name, spans)
            chosen = random.Random(repr(name)).randrange(len(messages))
            self.unfiled.release()
            self.published.append((messages[chosen].recipient, message_id(name, chosen)))

    def collect(self, seed: int) -> None:
        generator = random.Random(f"{self.life} {seed}")
        while True:
            name, origin = generator.choice(RECIPIENTS), generator.choice(ORIGINS)
            bundle = self.hub.recipient(name).peek(
                origins=[origin], max_messages=generator.choice([1, 5, 40]), wait=0.01
            )
            if bundle is None:
                continue
            tell("peeked", name, origin, bundle.bundle_id, [message.id for message in bundle.messages])
            if generator.random() < 0.8:
                self.dequeue(name, bundle.bundle_id)

    def dequeue(self, name: str, bundle_id: str) -> None:
        tell("dequeues", bundle_id)
        try:
            self.hub.recipient(name).dequeue(bundle_id)
        except BundleUnknown as error:
            if "dequeued_at" not in error.details:
                raise
            return
        tell("dequeued", bundle_id)

    def withdraw(self, seed: int) -> None:
        waits = threading.Event()
        while True:
            if not self.published:
                waits.wait(0.001)
                continue
            name, chosen = self.published.popleft()
            tell("withdraws", chosen)
            try:
                self.hub.recipient(name).withdraw(chosen)
            except NotOwner:
                raise
            except RestanteError as error:
                tell("not withdrawn", chosen, error.code)
                continue
            tell("withdrawn", chosen)

    def file(self, seed: int) -> None:
        while True:
            for _ in range(FILED_AT_ONCE):
                self.unfiled.acquire()
            tell("files")
            self.hub.file()
            tell("filed")


def guarded(work: Callable[[int], None], number: int) -> None:
    try:
        work(number)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        tell("failed", work.__name__, repr(error))
        os._exit(1)


def main() -> None:
    folder, life = sys.argv[1], int(sys.argv[2])
    tell("opens")
    work = Work(restante.open(folder, settings=SETTINGS), life)
    tell("opened")
    tasks: list[tuple[Callable[[int], None], int]] = [(work.publish, number) for number in range(PUBLISHERS)]
    tasks += [(work.collect, number) for number in range(COLLECTORS)]
    tasks += [(work.withdraw, 0), (work.file, 0)]
    threads = [threading.Thread(target=guarded, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
