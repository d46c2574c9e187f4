"""Many at once: however acknowledgements, adds and seals meet, a batch is complete once, never early, and never missed."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante import limits
from restante.calls.batches import (
    AcknowledgeItems,
    AddItems,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    SealBatch,
    WaitForBatch,
)
from restante.client.surface import sync
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.link import AsyncLink
from restante.client.transport.options import terms_of
from restante.errors import BatchSealed
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.model.batches.batch_answers import BatchState, BatchStatus, Counting, ItemRange
from restante.model.storage.change import ChangeKind, decode_change
from restante.model.storage.changes import Space
from restante.server.serve import start
from tests.batches.folding import fold_batches
from tests.batches.places import PLACES, SETTINGS
from tests.profiles import by_profile

SEEDS = range(60 if os.environ.get("RESTANTE_LONG") else by_profile(dev=1, ci=3))
TASKS = 64
BATCHES = 3
ITEMS = 1_500
CALL = 25
PATIENCE_SECONDS = 60.0
WAIT_SECONDS = 25.0
TOLD = "told"


@dataclass(frozen=True)
class Reached:
    """A hub in this process, and the way to it."""

    link: AsyncLink
    hub: OpenHub


@asynccontextmanager
async def reached(place: str, folder: Path) -> AsyncIterator[Reached]:
    if place == "wire":
        running = await asyncio.to_thread(start, folder, SETTINGS)
        link = AsyncHttpLink(terms_of(running.url))
        try:
            yield Reached(link, running.desk.hub)
        finally:
            await link.close()
            await asyncio.to_thread(running.stop)
        return
    own = InProcess(await asyncio.to_thread(PLACES[place](folder).open))
    try:
        yield Reached(own, own.hub)
    finally:
        await own.close()


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)


# --- Acknowledging, beside sealing ------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A batch, what was sent about it so far, and who was told that it is complete."""

    id: str
    items: frozenset[str]
    sent: set[str] = field(default_factory=set)
    seal_sent: bool = False
    told: list[BatchStatus] = field(default_factory=list)
    heard: int = 0
    """By those who acknowledge or seal."""

    def check_not_early(self) -> None:
        assert self.seal_sent, "complete before it was sealed"
        assert self.sent == self.items, "complete before the last item was acknowledged"


@dataclass(frozen=True)
class Call:
    items: tuple[str, ...]
    ranges: tuple[ItemRange, ...] = ()

    def named(self) -> Iterable[str]:
        yield from self.items
        for each in self.ranges:
            yield from (f"{each.group}:{index}" for index in range(each.start, each.upto))


class Race:
    """64 tasks with their shares of the items of some batches, and others who seal these at some moment."""

    def __init__(self, link: AsyncLink, generator: random.Random, *, copies: int, counting: Counting) -> None:
        self.link, self.generator = link, generator
        self.copies, self.counting = copies, counting
        self.batches: dict[str, Watched] = {}
        self.answered = 0
        self.newly = 0
        self.progress = asyncio.Condition()

    async def run(self) -> None:
        for number in range(BATCHES):
            await self._open(number)
        shares = [self._calls(share) for share in self._shares()]
        calls = sum(map(len, shares))
        moments = [self.generator.choice([0, self.generator.randrange(calls), calls]) for _ in self.batches]
        await together(
            [
                *(self._acknowledge(share) for share in shares),
                *(self._seal(batch, after) for batch, after in zip(self.batches.values(), moments, strict=True)),
                *(self._wait(batch) for batch in self.batches.values()),
            ]
        )

    async def _open(self, number: int) -> None:
        opened = await self.link.call(OpenBatch(key=f"key {number}", counting=self.counting, notify=TOLD))
        items: list[str] = []
        for count in (1, ITEMS - 1 - number):
            answer = await self.link.call(AddItems(opened.id, count))
            items += [f"{opened.id}:{group.id}:{index}" for group in answer.groups for index in range(group.upto)]
        self.batches[opened.id] = Watched(opened.id, frozenset(items))

    def _shares(self) -> list[list[str]]:
        """Each item goes to some of the tasks; those of several batches are mixed."""
        shares: list[list[str]] = [[] for _ in range(TASKS)]
        for item in sorted(item for batch in self.batches.values() for item in batch.items):
            for task in self.generator.sample(range(TASKS), self.generator.randint(1, self.copies)):
                shares[task].append(item)
        return shares

    def _calls(self, share: list[str]) -> list[Call]:
        self.generator.shuffle(share)
        calls = []
        while share:
            size = self.generator.randint(1, CALL)
            taken, share = share[:size], share[size:]
            if self.generator.random() < 0.2:
                calls.append(Call((), tuple(map(_alone, taken))))
            else:
                calls.append(Call(tuple(taken)))
        return calls

    async def _acknowledge(self, calls: Sequence[Call]) -> None:
        for call in calls:
            names = defaultdict[str, set[str]](set)
            for item in call.named():
                names[item[:36]].add(item)
            for batch_id, items in names.items():
                self.batches[batch_id].sent |= items
            known = {batch_id for batch_id in names if self.batches[batch_id].told}
            answer = await self.link.call(AcknowledgeItems(call.items, ranges=call.ranges))
            assert answer.unknown == ()
            complete = {each.id for each in answer.complete}
            assert len(complete) == len(answer.complete)
            assert known <= complete <= set(names), "who acknowledges again is told again"
            self.newly += answer.acknowledged
            await self._told(complete)
            await self._progressed()

    async def _seal(self, batch: Watched, after: int) -> None:
        async with self.progress:
            await self.progress.wait_for(lambda: self.answered >= after)
        batch.seal_sent = True
        for _ in range(2):
            if (await self.link.call(SealBatch(batch.id))).complete:
                await self._told([batch.id])

    async def _wait(self, batch: Watched) -> None:
        status = await self.link.call(WaitForBatch(batch.id, WAIT_SECONDS))
        assert status is not None, "who waits is told"
        batch.check_not_early()
        batch.told.append(status)

    async def _told(self, batch_ids: Iterable[str]) -> None:
        for batch_id in batch_ids:
            batch = self.batches[batch_id]
            batch.check_not_early()
            batch.heard += 1
            batch.told.append(await self.link.call(ReadBatch(batch_id)))

    async def _progressed(self) -> None:
        async with self.progress:
            self.answered += 1
            self.progress.notify_all()


def _alone(item: str) -> ItemRange:
    group, _, index = item.rpartition(":")
    return ItemRange(group=group, start=int(index), upto=int(index) + 1)


def completions_of(hub: OpenHub) -> list[str]:
    """The batches whose completion was recorded, as often as it was."""
    core = hub._core
    changes = [
        decode_change(value)
        for partition in range(SETTINGS.partition_count)
        for _, value in core.store.scan(partition, Space.CHANGE)
    ]
    return sorted(change.key for change in changes if change.kind is ChangeKind.BATCH_COMPLETED)


def messages_told(hub: OpenHub, count: int) -> list[str]:
    """The batches of which the mailbox that is told of completions has heard, once so many came; as often as it was."""
    mailbox, told = sync.Hub(hub).recipient(TOLD), list[str]()
    while len(told) < count:
        bundle = mailbox.peek(wait=WAIT_SECONDS)
        assert bundle is not None, "nobody was told"
        told += [message.data["id"] for message in bundle.messages]
        bundle.dequeue()
    assert mailbox.peek() is None
    return sorted(told)


async def check_race(race: Race, hub: OpenHub) -> None:
    for batch in race.batches.values():
        status = await race.link.call(ReadBatch(batch.id))
        assert status.state is BatchState.COMPLETE
        assert (status.items, status.pending, status.acknowledged) == (len(batch.items), 0, len(batch.items))
        assert {each.completed_at for each in batch.told} == {status.completed_at}
        assert {each.state for each in batch.told} == {BatchState.COMPLETE}
        assert batch.heard, "one of those who acknowledged or sealed brought it about, and is told"
    assert completions_of(hub) == sorted(f"key {number}" for number in range(BATCHES)), "each once"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "wire"])
def test_overlapping_acknowledgements_complete_a_batch_once_and_never_early(
    place: str, seed: int, tmp_path: Path
) -> None:
    async def run() -> None:
        async with reached(place, tmp_path / "data") as there:
            race = Race(there.link, random.Random(seed), copies=4, counting=Counting.EXACT)
            await race.run()
            await check_race(race, there.hub)
            assert race.newly == sum(len(batch.items) for batch in race.batches.values()), "each counts once"
            assert await asyncio.to_thread(messages_told, there.hub, BATCHES) == sorted(race.batches)

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "wire"])
def test_items_each_acknowledged_once_complete_an_estimated_batch_once_and_never_early(
    place: str, seed: int, tmp_path: Path
) -> None:
    async def run() -> None:
        async with reached(place, tmp_path / "data") as there:
            race = Race(there.link, random.Random(seed), copies=1, counting=Counting.ESTIMATED)
            await race.run()
            await check_race(race, there.hub)
            assert await asyncio.to_thread(messages_told, there.hub, BATCHES) == sorted(race.batches)

    asyncio.run(run())


def over(race: Race) -> bool:
    return len(race.batches) == BATCHES and all(batch.told for batch in race.batches.values())


async def fold(there: Reached, race: Race) -> None:
    while not over(race):
        await asyncio.to_thread(fold_batches, there.hub)


async def look(there: Reached, race: Race) -> None:
    while not over(race):
        await there.link.call(ListBatches())
        for batch in list(race.batches):
            await there.link.call(ListPendingItems(batch, limit=10))


def _names(others: Sequence[Callable[..., object]]) -> str:
    return " and ".join(other.__name__ for other in others)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("others", [[fold], [fold, fold], [look, look], [fold, look]], ids=_names)
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_batches_that_leave_memory_all_the_time_are_complete_once_and_never_early(
    place: str,
    others: Sequence[Callable[[Reached, Race], Coroutine[Any, Any, None]]],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is room for none of them, while they are folded, by one or by two, and looked at."""
    monkeypatch.setattr(limits, "BATCH_BITS_BYTES_MAX", 0)
    monkeypatch.setattr(limits, "BATCH_AHEAD_BYTES_MAX", 100)

    async def run() -> None:
        async with reached(place, tmp_path / "data") as there:
            race = Race(there.link, random.Random(seed), copies=4, counting=Counting.EXACT)
            await together([race.run(), *(other(there, race) for other in others)])
            await check_race(race, there.hub)
            assert race.newly == sum(len(batch.items) for batch in race.batches.values()), "each counts once"

    asyncio.run(run())


# --- Adding, beside sealing -------------------------------------------------------------------------------------------


@dataclass
class Adds:
    """How many items were added, by those who were told so."""

    items: int = 0
    calls: int = 0
    refused: int = 0
    sealed: bool = False
    groups: list[str] = field(default_factory=list)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)


async def add_until_sealed(link: AsyncLink, batch_id: str, adds: Adds, seed: int) -> None:
    generator = random.Random(seed)
    while True:
        count, begun_after = generator.choice([1, 7, 1_000, 10**6]), adds.sealed
        try:
            answer = await link.call(AddItems(batch_id, count))
        except BatchSealed:
            adds.refused += 1
            return
        assert not begun_after, "an item was added after the batch was sealed"
        assert sum(group.upto for group in answer.groups) == count
        adds.items += count
        adds.calls += 1
        adds.groups += [group.id for group in answer.groups]
        async with adds.progress:
            adds.progress.notify_all()


async def seal_after(link: AsyncLink, batch_id: str, adds: Adds, calls: int) -> BatchStatus:
    async with adds.progress:
        await adds.progress.wait_for(lambda: adds.calls >= calls)
    await link.call(SealBatch(batch_id))
    adds.sealed = True
    return await link.call(ReadBatch(batch_id))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "wire"])
def test_no_item_appears_once_a_batch_is_sealed(place: str, seed: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with reached(place, tmp_path / "data") as there, asyncio.timeout(PATIENCE_SECONDS):
            link, adds = there.link, Adds()
            batch_id = (await link.call(OpenBatch())).id
            async with asyncio.TaskGroup() as group:
                sealing = group.create_task(seal_after(link, batch_id, adds, random.Random(seed).randrange(200)))
                for number in range(TASKS):
                    group.create_task(add_until_sealed(link, batch_id, adds, number))
            assert adds.refused == TASKS
            assert len(set(adds.groups)) == adds.calls, "each has a group of its own"
            assert await link.call(ReadBatch(batch_id)) == sealing.result()
            assert sealing.result().items == adds.items
            ranges = [ItemRange(group=f"{batch_id}:{group}", start=0, upto=10**6) for group in adds.groups]
            answer = await link.call(AcknowledgeItems(ranges=ranges))
            assert answer.acknowledged == adds.items
            assert [each.id for each in answer.complete] == [batch_id]

    asyncio.run(run())


# --- One call among many ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["memory", "sqlite", "wire"])
def test_everybody_who_waits_is_told_by_whoever_comes_last(place: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with reached(place, tmp_path / "data") as there, asyncio.timeout(PATIENCE_SECONDS):
            link = there.link
            batch_id = (await link.call(OpenBatch(key="night"))).id
            (group,) = (await link.call(AddItems(batch_id, 2))).groups
            await link.call(SealBatch(batch_id))
            waiting = [asyncio.ensure_future(link.call(WaitForBatch(batch_id, WAIT_SECONDS))) for _ in range(8)]
            first, last = [f"{batch_id}:{group.id}:{index}" for index in (0, 1)]
            assert (await link.call(AcknowledgeItems([first]))).complete == ()
            assert await link.call(WaitForBatch(batch_id, 0)) is None
            assert not any(each.done() for each in waiting)
            (told,) = (await link.call(AcknowledgeItems([last]))).complete
            assert told.key == "night"
            status = await link.call(ReadBatch(batch_id))
            assert [msgspec.structs.replace(each or status) for each in await asyncio.gather(*waiting)] == [status] * 8

    asyncio.run(run())
