"""Waits of an asynchronous program: a condition for tasks, and a few calls under way at a time, each in a task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar


class AsyncCondition:
    """Wakes tasks that wait. Other tasks do not interrupt what is done between two waits, so `with` locks nothing: threads need it."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def notify_all(self) -> None:
        """Wake all tasks that wait; one that waits again waits for the next time."""
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    async def wait(self, seconds: float | None = None) -> None:
        if seconds is None:
            await self._changed.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def wait_for(self, fulfilled: Callable[[], object], seconds: float | None = None) -> bool:
        """Wait until it is so, this long at most. Gives whether it is."""
        if fulfilled():
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not fulfilled():
                    await self._changed.wait()
        return bool(fulfilled())


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
