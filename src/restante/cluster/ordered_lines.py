"""`OrderedLines`: the ways to all shards for one sender, whose calls to a shard are carried out in the order in which they came.

While a shard answers, calls follow each other without a pause. After the shard was lost, or before there is a connection, calls
without an answer go again, in order, before any new call: first the oldest alone and, once it is answered, the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from restante.calls.call import Answer, Call
from restante.cluster.shard_lines import ShardLines, pause_seconds
from restante.errors import OutcomeUnknown, RestanteError
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.model.access.access import EVERYTHING, Grant


class OrderedLines(ShardLines):
    """Shard lines that keep the order of calls. Used in one event loop."""

    def __init__(self, lines: ShardLines) -> None:
        self._lead(lines.ranges, lines.lines, lines.requests)
        self._orders = [_ShardOrder(lines, shard) for shard in range(len(lines.lines))]

    async def call(self, shard: int, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        answer: Answer = await self._orders[shard].call(call, caller)
        return answer


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that is not answered yet."""

    call: Call[Any]
    caller: Grant
    deadline: float
    doubtful: bool = False
    """Whether the call may have been carried out."""
    answer: asyncio.Future[Any] | None = None
    """The future answer to a call that waits for its turn."""

    @property
    def waits(self) -> bool:
        return self.answer is not None and not self.answer.done()

    def settle(self, answer: object, error: BaseException | None = None) -> None:
        if self.answer is not None and not self.answer.done():
            if error is None:
                self.answer.set_result(answer)
            else:
                self.answer.set_exception(error)


class _ShardOrder:
    """The calls of one sender to one shard."""

    def __init__(self, lines: ShardLines, shard: int) -> None:
        self._lines = lines
        self._shard = shard
        self._line = lines.lines[shard]
        self._unanswered: dict[_Asked, None] = {}
        """The calls without an answer, in their order."""
        self._under_way = 0
        self._idle = asyncio.Event()
        self._mending: asyncio.Task[None] | None = None
        self._broken = False
        """Whether a call was lost since the unanswered ones were last sent again."""
        self._sending: set[asyncio.Task[None]] = set()

    async def call(self, call: Call[Any], caller: Grant) -> Any:  # noqa: ANN401 - what the call answers
        loop = asyncio.get_running_loop()
        own = _Asked(call, caller, loop.time() + SHARD_PATIENCE_SECONDS)
        self._unanswered[own] = None
        try:
            if self._mending is None and self._line.is_open:
                try:
                    return await self._carried(own)
                except RestanteError as error:
                    if not self._is_lost(own, error):
                        raise
                self._mend()
            own.answer = loop.create_future()
            if self._mending is None:
                self._mend()
            return await own.answer
        finally:
            self._unanswered.pop(own, None)

    async def _carried(self, own: _Asked) -> Any:  # noqa: ANN401 - what the call answers
        """Send a call once, after those before it."""
        self._under_way += 1
        try:
            return await self._line.call(own.call, own.caller)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def _is_lost(self, own: _Asked, error: RestanteError) -> bool:
        """Whether there was no answer."""
        lost = self._lines.goes_on(error)
        own.doubtful = own.doubtful or (lost and isinstance(error, OutcomeUnknown))
        return lost

    async def _ask(self, own: _Asked) -> RestanteError | None:
        """Ask for one that waits; gives why there is no answer, if there is none."""
        try:
            own.settle(await self._carried(own))
        except RestanteError as error:
            if self._is_lost(own, error):
                return error
            own.settle(None, error)
        except Exception as error:  # noqa: BLE001  # the one who asked hears of it
            own.settle(None, error)
        return None

    def _mend(self) -> None:
        self._broken = True
        if self._mending is None:
            self._mending = asyncio.ensure_future(self._mended())

    async def _mended(self) -> None:
        while self._broken:
            self._broken = False
            while self._under_way:
                self._idle.clear()
                await self._idle.wait()
            await self._first_answered()
            await self._all_sent()
        self._mending = None

    async def _first_answered(self) -> None:
        """Ask for the first that waits, again and again; one whose time is over is given up."""
        loop, failures = asyncio.get_running_loop(), 0
        while (first := next(self._waiting(), None)) is not None:
            error = await self._ask(first)
            if error is None:
                return
            pause = pause_seconds(failures + 1)
            if loop.time() + pause > first.deadline:
                first.settle(None, self._lines.given_up(self._shard, error, doubtful=first.doubtful))
            else:
                failures += 1
                await asyncio.sleep(pause)

    async def _all_sent(self) -> None:
        """Ask for all others, in order, those included that come meanwhile: nothing new is asked before they have left."""
        sent: set[_Asked] = set()
        while some := [own for own in self._waiting() if own not in sent]:
            sent.update(some)
            for own in some:
                task = asyncio.ensure_future(self._sent(own))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            await asyncio.sleep(0)  # Tasks begin in the order in which they were made.

    async def _sent(self, own: _Asked) -> None:
        if await self._ask(own) is not None:
            self._mend()

    def _waiting(self) -> Iterator[_Asked]:
        return (own for own in tuple(self._unanswered) if own.waits)
