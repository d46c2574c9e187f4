"""Following a mailbox of a hub in this process: the bell rings, and history says what is new.

Nothing is dropped here, and there is nothing to reconnect. Echoes are for those who are connected to a server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, Protocol, TypeVar

from restante.calls.call import Answer, Call
from restante.calls.mailboxes import PartitionOf, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import RestanteError
from restante.hub.engine.commit_request import closed
from restante.hub.engine.core import Core
from restante.limits import KIB, PAGE_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.few_or_many import Few
from restante.model.publishing.message import Message, is_shown
from restante.wire.live import Collected, Connected, Fate
from restante.wire.live_lines import AsyncLiveDoor, LiveTaker, Word
from restante.wire.problems import problem_of

P = ParamSpec("P")
T = TypeVar("T")


class _Hub(Protocol):
    """The calls of the hub that a line needs."""

    @property
    def core(self) -> Core: ...
    @property
    def closing(self) -> bool: ...
    def call(self, call: Call[Answer]) -> Answer: ...
    def listening(self, recipient: str, ring: Callable[[], None]) -> AbstractContextManager[None]: ...
    def live_collect(self, recipient: str, sequence_number: int) -> int: ...


class _Link(Protocol):
    """The calls of the asynchronous link that a line needs."""

    @property
    def hub(self) -> _Hub: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def call(self, call: Call[Answer]) -> Answer: ...


class InProcessLive:
    """The call of the asynchronous link."""

    def live(self: _Link, recipient: str, *, client: str | None = None) -> AsyncLiveDoor:
        return AsyncHubDoor(self, recipient, client)


class _Place:
    """The place of a live line in the history of its mailbox."""

    def __init__(self, hub: _Hub, recipient: str, taker: LiveTaker) -> None:
        self.hub = hub
        self.recipient = recipient
        self.taker = taker
        self.after = 0
        self.counter = 0

    def begin(self, after: int | None, client: str | None) -> None:
        visible = self.hub.core.partitions[self.hub.call(PartitionOf(self.recipient))].counters.visible
        self.after = visible if after is None else min(after, visible)
        self.taker.heard(Connected(self.after, client or ""))

    def page(self) -> HistoryPage:
        return self.hub.call(ReadHistory(self.recipient, after=self.after, limit=PAGE_MAX))

    def shown(self, page: HistoryPage) -> Iterable[Message]:
        """The messages to be pushed, each when it is asked for."""
        for message in page.messages:
            assert message.sequence_number is not None, "a stored message has a number"
            self.after = message.sequence_number
            if is_shown(message):
                self.counter += 1
                yield message

    def collected(self, number: int) -> Word:
        try:
            return Collected(number, self.hub.live_collect(self.recipient, number))
        except RestanteError as error:
            return _problem(error, sequence_number=number)


class _Patience:
    """A hub in this process is there, or is not: nothing is tried again."""

    def pause(self, attempt: int) -> float:
        del attempt
        return 0.1

    def gives_up(self, attempt: int, seconds: float) -> bool:
        del attempt, seconds
        return True


class HubDoor(_Patience):
    def __init__(self, hub: _Hub, recipient: str, client: str | None) -> None:
        self._hub = hub
        self._recipient = recipient
        self._client = client

    def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> HubLine:
        del owner
        return HubLine(_Place(self._hub, self._recipient, taker), after, self._client)


class HubLine:
    def __init__(self, place: _Place, after: int | None, client: str | None) -> None:
        self._place = place
        self._after = after
        self._client = client
        self._rung = threading.Event()
        self._left = False

    def run(self) -> str:
        place = self._place
        with place.hub.listening(place.recipient, self._rung.set):
            place.begin(self._after, self._client)
            while not self._left:
                self._rung.clear()
                if place.hub.closing:
                    raise closed()
                self._catch_up()
                self._rung.wait()
        return "it was left"

    def send(self, request: int, message: Message) -> None:
        try:
            self._place.hub.call(Publish(Few((message,))))
        except RestanteError as error:
            self._place.taker.heard(_problem(error, request=request))
        else:
            self._place.taker.heard(Fate(message.id or "", "processed"))

    def collect(self, sequence_number: int) -> None:
        self._place.taker.heard(self._place.collected(sequence_number))

    def leave(self) -> None:
        self._left = True
        self._rung.set()

    def close(self) -> None:
        self.leave()

    def _catch_up(self) -> None:
        place = self._place
        following: int | None = 0
        while following is not None and not self._left:
            page = place.page()
            for message in place.shown(page):
                place.taker.pushed(place.counter, message, _size(message))
            following = page.next


class AsyncHubDoor(_Patience):
    def __init__(self, link: _Link, recipient: str, client: str | None) -> None:
        self._link = link
        self._recipient = recipient
        self._client = client

    async def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> AsyncHubLine:
        del owner
        return AsyncHubLine(self._link, _Place(self._link.hub, self._recipient, taker), after, self._client)


class AsyncHubLine:
    """`HubLine` for the tasks of an event loop. A task that waits takes no thread."""

    def __init__(self, link: _Link, place: _Place, after: int | None, client: str | None) -> None:
        self._link = link
        self._place = place
        self._after = after
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> str:
        place = self._place
        with place.hub.listening(place.recipient, self._ring):
            place.begin(self._after, self._client)
            while True:
                self._rung.clear()
                if place.hub.closing:
                    raise closed()
                await self._catch_up()
                await self._rung.wait()

    async def send(self, request: int, message: Message) -> None:
        self._start(self._send(request, message))

    async def collect(self, sequence_number: int) -> None:
        self._start(self._collect(sequence_number))

    def go_on(self) -> None:
        self._room.set()

    def leave(self) -> None:
        raise AssertionError("a hub in this process sends nobody away")

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _send(self, request: int, message: Message) -> None:
        try:
            await self._link.call(Publish(Few((message,))))
        except RestanteError as error:
            self._place.taker.heard(_problem(error, request=request))
        else:
            self._place.taker.heard(Fate(message.id or "", "processed"))

    async def _collect(self, sequence_number: int) -> None:
        self._place.taker.heard(await self._link.thread(self._place.collected, sequence_number))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ring(self) -> None:
        if not self._rung.is_set():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def _catch_up(self) -> None:
        place = self._place
        following: int | None = 0
        while following is not None:
            page = await self._link.thread(place.page)
            for message in place.shown(page):
                self._room.clear()
                if not place.taker.pushed(place.counter, message, _size(message)):
                    await self._room.wait()
            following = page.next


def _problem(error: RestanteError, **answered: int) -> dict[str, object]:
    """The problem of what was refused, and which of the things that were said it answers."""
    return {**problem_of(error, correlation_id=""), **answered}


def _size(message: Message) -> int:
    """About how many bytes a message takes in memory."""
    return (message.weight or 1) * KIB
