"""A batch as it is acknowledged, in process: how fast, what it stores, and how much memory it takes.

Each tenth is done by a process of its own, so that memory is that of this tenth alone. At its end the hub is closed, to
see what lies in its folder. The hub folds the bits that it has written ahead before that, inside the timing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeVar, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

import restante
from bench.process import resident_bytes
from bench.workloads.emptied import stored
from restante.hub.batches.batch_upkeep import fold
from restante.hub.door.hub import OpenHub as LocalHub
from restante.model.batches.batch_answers import BatchState, ItemRange

STEPS = 10
TIDY_SECONDS = 1.0
SEED = 7

Order = NDArray[np.uint32]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Work:
    """The work: so many items, so many a call, as a range, or in no order, one by one."""

    items: int
    call: int
    ranges: bool

    @property
    def calls(self) -> int:
        return self.items // self.call

    def order(self) -> Order:
        """The order of the ranges, or of the items."""
        found = np.arange(self.calls if self.ranges else self.items, dtype=np.uint32)
        np.random.default_rng(SEED).shuffle(found)
        return found

    def named(self, group: str, order: Order, call: int) -> ItemRange | list[str]:
        """The items that a call acknowledges."""
        if self.ranges:
            first = int(order[call]) * self.call
            return ItemRange(group=group, start=first, upto=first + self.call)
        return [f"{group}:{index}" for index in order[call * self.call : (call + 1) * self.call].tolist()]


class Begun(NamedTuple):
    """A batch that is added and sealed, and the bytes of the folder before."""

    id: str
    group: str
    empty: int
    add_seconds: float
    seal_seconds: float


class Point(NamedTuple):
    """After a tenth: items acknowledged so far, its seconds, bytes beyond an empty hub, memory beyond one just opened."""

    acknowledged: int
    seconds: float
    stored: int
    resident: int


@dataclass(frozen=True, slots=True)
class Growth:
    items: int
    begun: Begun
    points: list[Point]
    left: int
    """Bytes stored some time after it was complete."""

    @property
    def seconds(self) -> float:
        return sum(point.seconds for point in self.points)

    def rates(self) -> list[tuple[float, float]]:
        step = self.items / STEPS
        return [(float(point.acknowledged), step / point.seconds) for point in self.points]


def grown(folder: Path, work: Work, done: Callable[[], None]) -> Growth:
    """A batch, acknowledged in random order; `done` is called after each tenth."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        batch = processes.submit(_begin, folder, work.items).result()
        points = []
        for step in range(STEPS):
            points.append(processes.submit(_acknowledge, folder, work, batch, step).result())
            done()
        left = processes.submit(_left, folder, batch).result()
    return Growth(work.items, batch, points, left)


def _begin(folder: Path, items: int) -> Begun:
    with restante.open(folder) as hub:
        hub.file()
    empty = stored(folder).disk
    with restante.open(folder) as hub:
        batch = hub.batches.open()
        added, add_seconds = _timed(partial(batch.add, items))
        _, seal_seconds = _timed(batch.seal)
    (group,) = added.ranges()
    return Begun(batch.id, group.group, empty, add_seconds, seal_seconds)


def _acknowledge(folder: Path, work: Work, batch: Begun, step: int) -> Point:
    order = work.order()
    calls = range(work.calls * step // STEPS, work.calls * (step + 1) // STEPS)
    with restante.open(folder) as hub:
        own = hub.batches.get(batch.id)
        own.status()
        before = resident_bytes()
        seconds = sum(_timed(partial(own.acknowledge, work.named(batch.group, order, call)))[1] for call in calls)
        seconds += _timed(partial(fold, cast("LocalHub", hub.link).core, UUID(batch.id).bytes))[1]
        status = own.status()
        held = resident_bytes() - before
    assert (status.state is BatchState.COMPLETE) == (step == STEPS - 1), status
    return Point(status.items - status.pending, seconds, stored(folder).disk - batch.empty, held)


def _left(folder: Path, batch: Begun) -> int:
    """The bytes that a complete batch leaves when the background has tidied up after it: looked at until they get no less."""
    sizes = [stored(folder).disk]
    while len(sizes) < 2 or sizes[-1] < sizes[-2]:
        with restante.open(folder):
            time.sleep(TIDY_SECONDS)
        sizes.append(stored(folder).disk)
    return sizes[-1] - batch.empty


def _timed(action: Callable[[], Found]) -> tuple[Found, float]:
    start = time.perf_counter()
    found = action()
    return found, time.perf_counter() - start
