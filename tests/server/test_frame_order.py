"""What a frame waits for: numbered ones of another producer in its partition, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from restante.model.producers.producer import ProducerNumbers
from restante.server.connections.pipeline import FrameOrder, Publishing


def numbers(group: int) -> ProducerNumbers:
    return ProducerNumbers(group=group, owner_level=0, published_sequence=0)


def with_frames(check: Callable[[FrameOrder, list[Publishing], asyncio.Event], Awaitable[None]]) -> None:
    """Two frames of group 7 in partition 1 and one of group 8 in partition 2, under way until the event."""

    async def run() -> None:
        order, end = FrameOrder(), asyncio.Event()

        async def publish() -> None:
            await end.wait()

        tasks = [asyncio.ensure_future(publish()) for _ in range(3)]
        for task, (partition, group) in zip(tasks, ((1, 7), (1, 7), (2, 8)), strict=True):
            order.add(task, partition, numbers(group))
        await check(order, tasks, end)
        end.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_the_next_of_the_same_group_waits_for_nothing() -> None:
    async def check(order: FrameOrder, tasks: list[Publishing], end: asyncio.Event) -> None:
        assert order.ahead(1, numbers(7)) == order.ahead(2, numbers(8)) == []

    with_frames(check)


def test_another_partition_waits_for_nothing() -> None:
    async def check(order: FrameOrder, tasks: list[Publishing], end: asyncio.Event) -> None:
        assert order.ahead(3, numbers(7)) == order.ahead(3, None) == []

    with_frames(check)


def test_another_group_and_plain_frames_wait_for_those_in_their_partition() -> None:
    async def check(order: FrameOrder, tasks: list[Publishing], end: asyncio.Event) -> None:
        assert set(order.ahead(1, numbers(8))) == set(order.ahead(1, None)) == set(tasks[:2])
        assert set(order.ahead(2, numbers(7))) == {tasks[2]}

    with_frames(check)


def test_a_frame_to_any_partition_waits_for_all() -> None:
    async def check(order: FrameOrder, tasks: list[Publishing], end: asyncio.Event) -> None:
        assert set(order.ahead(None, None)) == set(tasks)

    with_frames(check)


def test_whoever_has_waited_finds_nothing_left() -> None:
    async def check(order: FrameOrder, tasks: list[Publishing], end: asyncio.Event) -> None:
        end.set()
        await asyncio.wait(order.ahead(None, None))
        assert order.ahead(None, None) == []
        assert order.ahead(1, numbers(8)) == []

    with_frames(check)
