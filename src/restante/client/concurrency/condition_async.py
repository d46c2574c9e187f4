"""A condition for the tasks of one event loop. `restante.client.concurrency.condition_sync` has the one for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


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
