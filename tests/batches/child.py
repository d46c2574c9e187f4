"""The child of the crash tests of batches: adds, acknowledges, seals and folds from several threads, until killed.

Each line on its output is one JSON array: what is about to be done, or what was answered. What it is to work on comes as
JSON: batches with their groups, and calls of former lives whose answers were lost.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path

from restante import limits
from restante.assembly import open_hub
from restante.calls.batches import AcknowledgeItems, AddItems, OpenBatch, SealBatch
from restante.errors import BatchSealed
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import ItemRange
from tests.batches.folding import fold_batches
from tests.batches.places import SETTINGS

ACKNOWLEDGERS = 3
SIZES = (1, 3, 100, 31_999, 32_001, 40_000, 8_000_077)
LARGE_LEFT = 1_500
"""Of a large group all but the last so many items are acknowledged at once, so that what is pending can be listed."""
SEALED_AT = 6
"""A batch of so many groups is sealed, and then finished."""
_telling = threading.Lock()

Spans = list[tuple[int, int]]


def tell(*words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    with _telling:
        os.write(1, line)


class Work:
    """One life of the child."""

    def __init__(self, hub: OpenHub, life: int, left: dict[str, dict[str, int]]) -> None:
        self.hub, self.life = hub, life
        self.groups = {batch: dict(groups) for batch, groups in left.items()}
        """By batch that is not complete: the sizes of its groups."""
        self.calls = count(life * 1_000_000)

    def add(self, seed: int) -> None:
        generator = random.Random(f"{self.life} adds")
        while True:
            open_batches = [batch for batch, groups in self.groups.items() if len(groups) < SEALED_AT]
            if not open_batches:
                batch = str(uuid.UUID(int=generator.getrandbits(128)))
                tell("opens", batch)
                self.hub.call(OpenBatch(batch_id=batch, key=f"life {self.life}"))
                self.groups[batch] = {}
                open_batches = [batch]
            batch = open_batches[0]
            self.add_group(batch, generator.choice(SIZES), str(uuid.UUID(int=generator.getrandbits(128))))
            if len(self.groups[batch]) >= SEALED_AT:
                tell("seals", batch)
                tell("sealed", batch, self.hub.call(SealBatch(batch)).complete)
                self.finish(batch)

    def add_group(self, batch: str, size: int, request: str) -> None:
        tell("adds", batch, size, request)
        try:
            (group,) = self.hub.call(AddItems(batch, size, request_id=request)).groups
        except BatchSealed:
            self.groups[batch] |= {f"sealed {number}": 0 for number in range(SEALED_AT)}
            return
        tell("added", batch, size, request, group.id)
        self.acknowledge_most(batch, group.id, size)
        self.groups[batch] = {**self.groups[batch], group.id: size}

    def acknowledge_most(self, batch: str, group: str, size: int) -> None:
        if size > 2 * LARGE_LEFT:
            self.acknowledge(batch, group, [], [(0, size - LARGE_LEFT)])

    def finish(self, batch: str) -> None:
        for group, size in list(self.groups[batch].items()):
            if size:
                self.acknowledge(batch, group, [], [(0, size)])

    def acknowledge_some(self, seed: int) -> None:
        generator = random.Random(f"{self.life} {seed}")
        while True:
            some = [(batch, group, size) for batch, own in list(self.groups.items()) for group, size in own.items()]
            batch, group, size = generator.choice([each for each in some if each[2]] or [("", "", 0)])
            if not size:
                continue
            low = max(0, size - LARGE_LEFT) if size > 2 * LARGE_LEFT else 0
            items, ranges = some_of(generator, low, size)
            self.acknowledge(batch, group, items, ranges)

    def acknowledge(self, batch: str, group: str, items: list[int], ranges: Spans) -> None:
        number = next(self.calls)
        tell("acknowledges", number, batch, group, [(index, index + 1) for index in items] + ranges)
        answer = self.hub.call(
            AcknowledgeItems(
                [f"{batch}:{group}:{index}" for index in items],
                ranges=[ItemRange(group=f"{batch}:{group}", start=start, upto=upto) for start, upto in ranges],
            )
        )
        assert not answer.unknown, answer.unknown
        tell("acknowledged", number, answer.acknowledged, [each.id for each in answer.complete])

    def fold(self, seed: int) -> None:
        rested = threading.Event()
        while True:
            fold_batches(self.hub)
            rested.wait(0.002)


def some_of(generator: random.Random, low: int, high: int) -> tuple[list[int], Spans]:
    """Some items, and some ranges, of those from `low` to before `high`."""
    most = min(high - low, generator.choice([1, 5, 60]))
    items = generator.sample(range(low, high), generator.randint(1, most))
    if generator.random() < 0.7:
        return items, []
    starts = [generator.randrange(low, high) for _ in range(generator.randint(1, 3))]
    lengths = [generator.choice([1, 7, 1_000]) for _ in starts]
    return [], [(start, min(high, start + length)) for start, length in zip(starts, lengths, strict=True)]


def guarded(work: Callable[[int], None], number: int) -> None:
    try:
        work(number)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        tell("failed", work.__name__, repr(error))
        os._exit(1)


def main() -> None:
    folder, life, given = Path(sys.argv[1]), int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    # Little room, so that batches leave memory and come back all the time.
    limits.BATCH_BITS_BYTES_MAX = given["room"]
    tell("opens the hub")
    work = Work(open_hub(folder, settings=SETTINGS), life, given["groups"])
    tell("opened the hub")
    for batch, groups in given["groups"].items():
        for group, size in groups.items():
            # A former life may have been killed before it did so, and the parent would list millions of items after each life.
            work.acknowledge_most(batch, group, size)
    for batch, size, request in given["adds"]:
        work.add_group(batch, size, request)
    tasks: list[tuple[Callable[[int], None], int]] = [
        (work.acknowledge_some, number) for number in range(ACKNOWLEDGERS)
    ]
    tasks += [(work.add, 0), (work.fold, 0)]
    threads = [threading.Thread(target=guarded, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
