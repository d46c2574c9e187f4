"""`OrderedLines`: the ways to all shards for one sender, whose calls to a shard are carried out in the order in which they came.

While a shard answers, calls follow each other without a pause. After it was lost, or before there is a connection, what it has
not answered goes again, in order, before anything new: the first alone, and the others behind it once it is answered.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from restante.calls.call import Answer, Call
from restante.cluster.shard_lines import PAUSE_MAX_SECONDS, PAUSE_SECONDS, ShardLines
from restante.errors import OutcomeUnknown, RestanteError
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.model.access.access import EVERYTHING, Grant


class OrderedLines(ShardLines):
    """As the lines that it is made of, but for the order. Used in one event loop."""

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
    """Whether it may have been carried out."""
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, answer: object, error: BaseException | None = None) -> None:
        if not self.answer.done():
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
        """In their order."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._mending: asyncio.Task[None] | None = None

    async def call(self, call: Call[Any], caller: Grant) -> Any:  # noqa: ANN401 - what the call answers
        own = _Asked(call, caller, asyncio.get_running_loop().time() + SHARD_PATIENCE_SECONDS)
        self._unanswered[own] = None
        if self._mending is None and self._line.is_open:
            self._send(own)
        else:
            self._mend()
        try:
            return await own.answer
        finally:
            self._unanswered.pop(own, None)

    def _send(self, own: _Asked) -> None:
        """Ask without waiting. Tasks begin in the order in which they are made."""
        task = asyncio.ensure_future(self._try(own))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _try(self, own: _Asked) -> None:
        if await self._ask(own) is not None:
            self._mend()

    async def _ask(self, own: _Asked) -> RestanteError | None:
        """Ask once; gives why there is no answer, if there is none."""
        try:
            own.settle(await self._line.call(own.call, own.caller))
        except RestanteError as error:
            if self._lines.goes_on(error):
                own.doubtful = own.doubtful or isinstance(error, OutcomeUnknown)
                return error
            own.settle(None, error)
        except Exception as error:  # noqa: BLE001  # the one who asked hears of it
            own.settle(None, error)
        return None

    def _mend(self) -> None:
        if self._mending is None:
            self._mending = asyncio.ensure_future(self._mended())

    async def _mended(self) -> None:
        loop, pause = asyncio.get_running_loop(), PAUSE_SECONDS
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))
        while (first := self._first()) is not None:
            error = await self._ask(first)
            if error is None:
                break
            if loop.time() + pause > first.deadline:
                first.settle(None, self._lines.given_up(self._shard, error, doubtful=first.doubtful))
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_SECONDS)
        self._mending = None
        for own in tuple(self._unanswered):
            if not own.answer.done():
                self._send(own)

    def _first(self) -> _Asked | None:
        return next((own for own in self._unanswered if not own.answer.done()), None)
