"""Reading along through the surface of asynchronous programs, in process and over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import pytest

import restante.aio
from restante import errors
from restante.client.feed.feed_async import Feed
from restante.client.feed.feed_pages import FeedPage
from restante.client.surface import asynchronous
from restante.model.publishing.message import Message
from tests.client.conftest import SETTINGS

SECONDS = 60.0
Opens = Callable[[], AbstractAsyncContextManager[asynchronous.Hub]]
Row = tuple[int, int, str]


@pytest.fixture(params=["in process", "wire"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Opens:
    """How a hub is opened, in this process or over the network."""
    url = request.getfixturevalue("running").url if request.param == "wire" else None

    @asynccontextmanager
    async def opened() -> AsyncIterator[asynchronous.Hub]:
        door = restante.aio.open(tmp_path / "here", settings=SETTINGS) if url is None else restante.aio.connect(url)
        async with door as hub:
            yield hub

    return opened


def run(opens: Opens, story: Callable[[asynchronous.Hub], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(SECONDS), opens() as hub:
            await story(hub)
            assert len(asyncio.all_tasks()) == 1, "no task is left behind"

    asyncio.run(told())


async def publish(hub: asynchronous.Hub, count: int) -> None:
    for start in range(0, count, 10):
        places = range(start, min(start + 10, count))
        await hub.producer.send([Message(recipient=f"r{place}", data=place) for place in places])


def rows(page: FeedPage) -> list[Row]:
    numbers, changes = page.table["sequence_number"].to_pylist(), page.table["change"].to_pylist()
    return [(page.partition, int(number or 0), str(change)) for number, change in zip(numbers, changes, strict=True)]


async def all_of(feed: Feed) -> list[Row]:
    return sorted([row async for page in feed for row in rows(page)])


async def ends(hub: asynchronous.Hub) -> dict[int, int]:
    return {status.partition: status.visible_sequence for status in await hub.partitions()}


async def take(pages: AsyncIterator[FeedPage], count: int) -> list[Row]:
    taken: list[Row] = []
    while len(taken) < count:
        taken += rows(await anext(pages))
    return taken


def test_every_change_comes_once_and_in_order(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 100)
        feed, seen = hub.feed(limit=7), dict[int, list[int]]()
        async for page in feed:
            seen.setdefault(page.partition, []).extend(number for _, number, _ in rows(page))
        assert seen == {partition: list(range(1, end + 1)) for partition, end in (await ends(hub)).items()}
        assert feed.positions == await ends(hub)
        assert await all_of(feed) == []

    run(opens, story)


def test_positions_move_when_the_next_page_is_asked_for(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 40)
        async with hub.feed(0, limit=3) as feed:
            pages = aiter(feed)
            first = await anext(pages)
            assert feed.positions == {}
            await anext(pages)
            assert feed.positions == {0: first.position}
        assert [page async for page in pages] == []

    run(opens, story)


def test_breaking_off_ends_all_reading_and_the_same_feed_goes_on(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 60)
        feed, finished = hub.feed(limit=4), list[Row]()
        while feed.positions != await ends(hub):
            held: list[Row] = []
            async with aclosing(aiter(feed)) as pages:  # type: ignore[type-var]  # it is a generator
                async for page in pages:
                    finished += held
                    if held and len(finished) % 3 == 0:
                        break
                    held = rows(page)
                else:
                    finished += held
        assert sorted(finished) == await all_of(hub.feed())
        assert len(finished) == len(set(finished))

    run(opens, story)


def test_a_follower_sees_what_comes_at_every_partition(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 20)
        async with hub.feed(follow=True, limit=6) as feed:
            pages = aiter(feed)
            assert sorted(await take(pages, 20)) == await all_of(hub.feed())
            for place in range(30):
                await hub.producer.send(Message(recipient=f"r{place}", data=place))
                assert len(await take(pages, 1)) == 1
            publishing = asyncio.create_task(publish(hub, 200))
            await take(pages, 200)
            await publishing
        assert sum((await ends(hub)).values()) == 250

    run(opens, story)


def test_a_follower_is_closed_while_it_waits(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 10)
        feed, seen = hub.feed(follow=True, linger_seconds=0), asyncio.Event()

        async def follow() -> int:
            count = 0
            async for page in feed:
                count += page.table.num_rows
                if count == 10:
                    seen.set()
            return count

        following = asyncio.create_task(follow())
        await seen.wait()
        await feed.close()
        assert await following == 10
        assert feed.positions == await ends(hub)

    run(opens, story)


def test_a_follower_may_be_cancelled(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        started = asyncio.Event()

        async def follow() -> None:
            async for _ in hub.feed(follow=True):
                started.set()

        following = asyncio.create_task(follow())
        await publish(hub, 10)
        await started.wait()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following

    run(opens, story)


def test_iterating_anew_ends_an_earlier_iteration(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 10)
        async with hub.feed(0, limit=1) as feed:
            earlier, later = aiter(feed), aiter(feed)
            assert rows(await anext(earlier)) == rows(await anext(later))
            with pytest.raises(errors.InvalidOperation):
                await anext(earlier)
            assert feed.positions == {}
            await anext(later)
            assert len(feed.positions) == 1

    run(opens, story)


def test_what_the_hub_refuses_is_raised_to_the_reader(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        with pytest.raises(errors.PartitionUnknown):
            await all_of(hub.feed(99))
        with pytest.raises(errors.InvalidRequest):
            await all_of(hub.feed(columns=["colour"]))

    run(opens, story)


def test_a_snapshot_and_the_feed_from_there_miss_nothing(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 60)
        snapshot = hub.snapshot(limit=7)
        pages = [page async for page in snapshot]
        assert snapshot.positions == await ends(hub)
        assert sum(page.table.num_rows for page in pages) == 60
        await publish(hub, 20)
        assert len(await all_of(hub.feed(after=snapshot.positions))) == 20

    run(opens, story)


def test_a_snapshot_may_be_of_earlier_positions(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await publish(hub, 60)
        first = hub.snapshot(limit=7)
        tables = [page.table async for page in first]
        await publish(hub, 20)
        again = hub.snapshot(positions=first.positions, limit=7)
        assert [page.table async for page in again] == tables
        assert again.positions == first.positions
        with pytest.raises(errors.InvalidRequest, match="positions names partition 99"):
            [page async for page in hub.snapshot(positions={99: 0})]

    run(opens, story)
