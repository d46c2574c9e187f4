"""Both kinds of following, used alike from the threads of a test."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from restante.client.live import live_async, live_sync
from restante.client.live.live_arguments import following_of
from restante.client.live.live_socket_async import AsyncSocketDoor
from restante.client.live.live_socket_sync import SyncSocketDoor
from restante.client.live.live_states import LiveStage, LiveState
from restante.client.transport.options import Retrying, terms_of
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message, State
from tests.client.frame_server import SECONDS

T = TypeVar("T")
QUICK = Retrying(times=5, seconds=20, first_pause=0.001, longest_pause=0.01)


class Sent(Protocol):
    id: str


class Script:
    """The history of a mailbox, as a test tells it, and what callbacks have heard."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.hidden: set[int] = set()
        self.page = 1_000
        self.asked: list[tuple[int, int]] = []
        self.gaps: list[int | None] = []
        """How many messages were said to be missing at each call."""
        self.fails: list[Exception] = []
        """Raised first, one at each call."""
        self.states: queue.Queue[LiveState] = queue.Queue()
        self.echoes: queue.Queue[Message] = queue.Queue()

    def history(self, *, after: int, before: int, limit: int, live_gap: int | None) -> HistoryPage:
        del limit
        self.asked.append((after, before))
        self.gaps.append(live_gap)
        if self.fails:
            raise self.fails.pop(0)
        inside = [number for number in self.numbers if after < number < before]
        some = inside[: self.page]
        messages = tuple(
            Message(
                recipient="ada",
                data=number,
                sequence_number=number,
                state=State.WITHDRAWN if number in self.hidden else State.WAITING,
            )
            for number in some
        )
        return HistoryPage(messages=messages, next=some[-1] if len(inside) > len(some) else None)

    def until(self, stage: LiveStage) -> LiveState:
        """Wait until it is so."""
        while True:
            state = self.states.get(timeout=SECONDS)
            if state.stage is stage:
                return state
            assert state.stage is not LiveStage.CLOSED, state.reason


class Twin(Protocol):
    """One that follows."""

    script: Script

    @property
    def position(self) -> int | None: ...
    @property
    def gaps_recovered(self) -> int: ...
    @property
    def reconnects(self) -> int: ...
    def next(self) -> Message | None: ...
    def send(self, message: Message) -> Sent: ...
    def processed(self, sent: Any) -> None: ...
    def collected(self, number: int) -> int: ...
    def later(self, act: Callable[[], T]) -> Future[T]: ...
    def close(self) -> None: ...
    def end(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def numbers(twin: Twin, count: int) -> list[object]:
    """The next so many."""
    return [None if message is None else message.data for message in (twin.next() for _ in range(count))]


class _Twin:
    def __init__(self) -> None:
        self.script = Script()
        self._threads: list[threading.Thread] = []

    def later(self, act: Callable[[], T]) -> Future[T]:
        """Do it in a thread of its own."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(act())
            except BaseException as error:  # noqa: BLE001  # the test looks at it
                outcome.set_exception(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()
        return outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


class Waiting(_Twin):
    """`restante.client.live.live_sync`."""

    def __init__(
        self, url: str, *, after: int | None = None, token: str | None = None, client: str | None = None
    ) -> None:
        super().__init__()
        terms = terms_of(url, token=token, retries=QUICK, timeout=10)
        wish = following_of(after, self.script.states.put, self.script.echoes.put)
        self.live = live_sync.Live(SyncSocketDoor(terms, "ada", client), self.script.history, wish)
        self.live.__enter__()

    @property
    def position(self) -> int | None:
        return self.live.position

    @property
    def gaps_recovered(self) -> int:
        return self.live.gaps_recovered

    @property
    def reconnects(self) -> int:
        return self.live.reconnects

    def next(self) -> Message | None:
        return next(self.live, None)

    def send(self, message: Message) -> Sent:
        return self.live.send(message)

    def processed(self, sent: Any) -> None:
        sent.processed()

    def collected(self, number: int) -> int:
        return self.live.collected(number)

    def close(self) -> None:
        self.live.close()

    def end(self) -> None:
        self.live.close()
        super().end()
        thread = self.live._follower._thread
        assert thread is None or not thread.is_alive()


class Asynchronous(_Twin):
    """`restante.client.live.live_async`, in a loop of its own."""

    def __init__(
        self, url: str, *, after: int | None = None, token: str | None = None, client: str | None = None
    ) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        terms = terms_of(url, token=token, retries=QUICK, timeout=10)
        wish = following_of(after, self.script.states.put, self.script.echoes.put)
        self.live = live_async.Live(AsyncSocketDoor(terms, "ada", client), self._history, wish)
        self._do(self.live.__aenter__())

    async def _history(self, *, after: int, before: int, limit: int, live_gap: int | None) -> HistoryPage:
        return self.script.history(after=after, before=before, limit=limit, live_gap=live_gap)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    @property
    def position(self) -> int | None:
        return self.live.position

    @property
    def gaps_recovered(self) -> int:
        return self.live.gaps_recovered

    @property
    def reconnects(self) -> int:
        return self.live.reconnects

    def next(self) -> Message | None:
        async def taken() -> Message | None:
            return await anext(self.live, None)

        return self._do(taken())

    def send(self, message: Message) -> Sent:
        return self._do(self.live.send(message))

    def processed(self, sent: Any) -> None:
        self._do(sent.processed())

    def collected(self, number: int) -> int:
        return self._do(self.live.collected(number))

    def close(self) -> None:
        self._do(self.live.close())

    def end(self) -> None:
        self.close()
        super().end()
        assert self._do(_others()) == []
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _others() -> list[str]:
    """The tasks that are still there, given a turn to end."""
    await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
