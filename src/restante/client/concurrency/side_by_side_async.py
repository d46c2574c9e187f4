"""A few calls under way at a time, for asynchronous programs: each in a task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def side_by_side(
    say: Callable[[Item], Coroutine[Any, Any, Answer]],
    items: Iterator[Item],
    hear: Callable[[Answer], object],
    *,
    at_most: int,
    apart: bool = False,
) -> None:
    """Say each item, and hear the answers in their order. When one fails, those under way are given up.

    The items are made in the event loop, or `apart`, in a thread, as that takes long.
    """
    under_way: deque[asyncio.Task[Answer]] = deque()
    try:
        while (item := await asyncio.to_thread(next, items, None) if apart else next(items, None)) is not None:
            under_way.append(asyncio.create_task(say(item)))
            # The calls under way go on while the next one is made up.
            await asyncio.sleep(0)
            if len(under_way) >= at_most:
                hear(await under_way[0])
                under_way.popleft()
        for answer in under_way:
            hear(await answer)
    finally:
        for answer in under_way:
            answer.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
