"""`Threads` and `Watch`, the base of the asynchronous link: calls in threads, and waits without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from restante.calls.call import Call
from restante.errors import Unavailable
from restante.hub.door.hub import OpenHub
from restante.limits import WAIT_SECONDS_MAX

P = ParamSpec("P")
T = TypeVar("T")


OwnWays: TypeAlias = Mapping[type[Call[Any]], Callable[[Any, Any], Awaitable[Any]]]
"""A table from the type of a call to the function of the asynchronous link that carries it out in the event loop, or waits there."""


class Threads(Protocol):
    """A link that has calls of its hub done in threads of its own."""

    @property
    def hub(self) -> OpenHub: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


async def in_thread(threads: Executor, function: Callable[[], T], closed: Callable[[], Unavailable]) -> T:
    """Call a function in one of the threads; `closed` makes the error for when there are none any more."""
    loop = asyncio.get_running_loop()
    try:
        call = loop.run_in_executor(threads, function)
    except RuntimeError as error:  # which says that there are no threads any more
        raise closed() from error
    try:
        return await call
    finally:
        del call  # An error holds this frame: with the call, which holds the error, all would be kept.


class Watch(Generic[T]):
    """Looks once, and once more each time that `ring` says that something has changed; the last look is the answer.

    Have it rung before the first look: mail that comes in between is then not missed, and no look is made in vain.
    """

    def __init__(
        self,
        link: Threads,
        look: Callable[[], T],
        is_there: Callable[[T], bool],
        *,
        is_silent: Callable[[T], bool] | None = None,
    ) -> None:
        """`is_silent`: whether what a look found may change without a ring. It is looked at when the time is up, too."""
        self._link = link
        self._look = look
        self._is_there = is_there
        self._is_silent = is_silent
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Say that something has changed; callable from any thread."""
        self._loop.call_soon_threadsafe(self._rung.set)

    async def look(self) -> T:
        self._rung.clear()
        return await self._link.thread(self._look)

    async def wait(self, found: T, seconds: float) -> T:
        """After a look that found this: what the last look finds, when it is there, or the time is up."""
        deadline = self._loop.time() + min(seconds, WAIT_SECONDS_MAX)
        while not self._is_there(found) and not self._link.hub.closing:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._rung.wait()
            except TimeoutError:
                silent = self._is_silent is not None and self._is_silent(found)
                return await self.look() if silent else found
            found = await self.look()
        return found
