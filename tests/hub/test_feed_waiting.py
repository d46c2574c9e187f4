"""Following the feed: whoever has come to the end hears of the next commit, and holds nobody up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import restante
from restante.calls.feed import ReadFeed
from restante.calls.publishing import Publish
from restante.client.surface.surface import Hub
from restante.errors import Unavailable
from restante.hub.door.in_process import InProcess
from restante.hub.engine.bell import Bell
from restante.hub.feed.calls import feed_readers
from restante.model.columns.arrow import numbers_of
from restante.model.feed.feed_answers import FeedAnswer
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside
from tests.hub.engines import FakeClock
from tests.hub.feed_reading import changes, told
from tests.hub.letters import SETTINGS, letter, taken

TWO = msgspec.structs.replace(SETTINGS, partition_count=2)


class Signal(Bell):
    """A bell that says when somebody listens to a partition."""

    def __init__(self) -> None:
        super().__init__()
        self.listened = threading.Semaphore(0)

    def listening_to_partition(self, partition, ring):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  # as its parent's
        listening = super().listening_to_partition(partition, ring)
        self.listened.release()
        return listening


@pytest.fixture
def hub() -> Iterator[Hub]:
    opened = restante.open(None, store=MemoryStore(), settings=TWO, clock=FakeClock())
    yield opened
    opened.close()


def waiting(hub: Hub, partition: int, **asked: Any) -> FeedAnswer:
    return inside(hub).call(ReadFeed(partition, wait=20, **asked))


def test_who_waits_hears_of_what_is_published_and_of_what_is_collected(hub: Hub) -> None:
    partition = hub.partition_of("ada")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(waiting, hub, partition)
        hub.producer.send(letter(1))
        assert told(answer.result().table.to_pylist()) == [(1, "published", 1)]
        answer = threads.submit(waiting, hub, partition, after=1)
        taken(hub)
        assert told(answer.result().table.to_pylist()) == [(2, "collected", 1)]


def test_who_waits_for_one_partition_is_not_woken_by_another(hub: Hub) -> None:
    partition, rings = hub.partition_of("ada"), []
    with inside(hub).core.bell.listening_to_partition(partition, lambda: rings.append(1)):
        other = next(name for name in map(str, range(100)) if hub.partition_of(name) != partition)
        hub.producer.send(letter(1, other))
        assert not rings
        hub.producer.send(letter(2))
        assert rings == [1]
    hub.producer.send(letter(3))
    assert rings == [1]


def test_waiting_ends_with_the_time_and_says_where_it_is(hub: Hub) -> None:
    answer = inside(hub).call(ReadFeed(0, wait=0.01))
    assert (answer.table.num_rows, answer.next, answer.start, answer.end) == (0, 0, 1, 0)


def test_closing_the_hub_ends_the_waiting() -> None:
    hub = restante.open(None, store=MemoryStore(), settings=TWO, clock=FakeClock())
    inside(hub).core.bell = bell = Signal()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(waiting, hub, 0)
        bell.listened.acquire()
        hub.close()
        with suppress(Unavailable):  # It listens before it looks, and the hub may have been closed between the two.
            assert answer.result(60).table.num_rows == 0


def test_many_wait_in_an_event_loop_without_a_thread_each(hub: Hub) -> None:
    async def follow() -> list[FeedAnswer]:
        link = InProcess(inside(hub))
        partition = hub.partition_of("ada")
        tasks = [asyncio.create_task(link.call(ReadFeed(partition, wait=20, reader=f"r{n}"))) for n in range(100)]
        await asyncio.sleep(0)
        await link.call(Publish.of(letter(1)))
        return await asyncio.gather(*tasks)

    answers = asyncio.run(follow())
    assert [told(answer.table.to_pylist()) for answer in answers] == [[(1, "published", 1)]] * 100
    assert len(feed_readers(inside(hub).core)) == 100


def test_nothing_waits_in_an_event_loop_for_longer_than_asked(hub: Hub) -> None:
    answer = asyncio.run(InProcess(inside(hub)).call(ReadFeed(1, wait=0.01)))
    assert answer.table.num_rows == 0


def test_a_reader_beside_publishers_and_filing_misses_nothing(hub: Hub) -> None:
    partition, last = hub.partition_of("ada"), 600
    link = inside(hub)
    seen: list[int] = []

    def read() -> None:
        position = 0
        while position < last:
            answer = link.call(ReadFeed(partition, after=position, wait=20, limit=17))
            seen.extend(numbers_of(answer.table["sequence_number"]).tolist())
            assert answer.next <= answer.end
            position = answer.next

    def publish(begin: int) -> None:
        for number in range(begin, begin + 200):
            hub.producer.send(letter(number))

    with ThreadPoolExecutor(5) as threads:
        tasks = [threads.submit(read), *(threads.submit(publish, begin) for begin in (1, 201, 401))]
        for _ in range(10):
            hub.file()
        for task in tasks:
            task.result(60)
    assert seen == list(range(1, last + 1))
    assert [row["sequence_number"] for row in changes(hub, partition)] == seen
