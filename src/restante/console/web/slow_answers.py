"""Answers that may take the hub long: a page waits for one only briefly, and a stream asks seldom.

To list the recipients of a hub with a million of them takes seconds of its processor time. So a page that would have to wait
shows what was known before, or that it is on its way, and the page's stream brings the rest. A stream asks again so seldom
that it takes a hundredth of the hub's time at most, however long an answer takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from restante.limits import CONSOLE_PATIENCE_SECONDS, CONSOLE_REMEMBERED_MAX, CONSOLE_STREAM_SECONDS

T = TypeVar("T")

_SHARE = 100
"""A stream waits so many times as long as the answer took."""


@dataclass(frozen=True, slots=True)
class Remembered(Generic[T]):
    """An answer, when it came, and how long it took."""

    answer: T
    at: float
    took: float
    came_at: datetime


class SlowAnswers:
    """The answers of one console. Used from the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[Hashable, Remembered[Any]] = OrderedDict()
        self._tasks: dict[Hashable, asyncio.Task[Remembered[Any]]] = {}

    async def ask(self, key: Hashable, call: Callable[[], Awaitable[T]], *, seldom: bool) -> Remembered[T] | None:
        """The answer, new or known; None if there is none yet. `seldom` is for streams, which wait for the first."""
        known: Remembered[T] | None = self._known.get(key)
        if known is not None and self._clock() - known.at < self._lasts(known, seldom=seldom):
            return known
        task = self._tasks.get(key) or self._begin(key, call)
        await asyncio.wait((task,), timeout=None if seldom and known is None else CONSOLE_PATIENCE_SECONDS)
        if not task.done():
            return known
        return task.result()

    def _lasts(self, known: Remembered[Any], *, seldom: bool) -> float:
        return max(CONSOLE_STREAM_SECONDS, _SHARE * known.took) if seldom else CONSOLE_STREAM_SECONDS

    def _begin(self, key: Hashable, call: Callable[[], Awaitable[Any]]) -> asyncio.Task[Remembered[Any]]:
        task = asyncio.ensure_future(self._answer(key, call))
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._end(key, done))
        return task

    async def _answer(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> Remembered[T]:
        began = self._clock()
        answer = await call()
        now = self._clock()
        found = Remembered(answer, now, now - began, datetime.now(UTC))
        self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > CONSOLE_REMEMBERED_MAX:
            self._known.popitem(last=False)
        return found

    def _end(self, key: Hashable, task: asyncio.Task[Remembered[Any]]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()  # Waiting callers get the exception; this keeps asyncio from logging it.
