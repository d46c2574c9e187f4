"""Following a mailbox, for asynchronous programs.

A task holds the connection: it connects, waits until the connection ends, and connects again. The connection itself puts
messages into the inbox. The iterating task takes them out, and fetches missing messages from history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from restante.client.concurrency.waits_async import AsyncCondition
from restante.client.live.live_arguments import Following
from restante.client.live.live_inbox import Fetch, Inbox
from restante.client.live.live_outgoing import Outgoing, OutgoingItem
from restante.client.live.live_states import (
    CLOSED,
    Course,
    LiveStage,
    LiveState,
    begins_earlier,
    ended,
    read_elsewhere,
    unreadable,
)
from restante.errors import RestanteError
from restante.limits import PAGE_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message
from restante.wire.live import Connected, Disconnect, Echo
from restante.wire.live_lines import AsyncLiveDoor, AsyncLiveLine, Word


class MailboxHistory(Protocol):
    """Reads a page of the mailbox's history."""

    def __call__(self, *, after: int, before: int, limit: int, live_gap: int | None) -> Awaitable[HistoryPage]: ...


class LiveFollower:
    """Follows a mailbox: owns the task that holds the connection, and serves the callers that take and send."""

    def __init__(self, door: AsyncLiveDoor, history: MailboxHistory, wish: Following) -> None:
        self.inbox = Inbox(wish.after)
        self.course = Course(door)
        self._door = door
        self._history = history
        self._wish = wish
        self._outgoing: Outgoing[asyncio.Future[Any]] = Outgoing()
        self._state: LiveState | None = None
        self._task: asyncio.Task[None] | None = None
        self._line: AsyncLiveLine | None = None
        self._lines = 0
        self._standing_still = False
        """Whether the connection has stopped reading because the inbox has no room."""
        self._taker: asyncio.Future[None] | None = None
        """Wakes the iterating task while it waits for a message."""
        self._progress = AsyncCondition()
        """Notified when an item was answered."""
        self._answers_awaited = 0
        self._fetches_failed = 0
        self._error: BaseException | None = None
        self._ended = self._closed = False

    # For callers that take and send.

    def begin(self) -> None:
        if self._task is None and not self._ended:
            self._task = asyncio.create_task(self._run(), name="restante-live")

    def ready(self) -> Message | None:
        """The next message if it is at hand, else None."""
        if self._standing_still or self._closed or not self.inbox.at_hand:
            return None
        message = self.inbox.take()
        assert isinstance(message, Message), "it is at hand"
        return message

    async def next(self) -> Message | None:
        """The next message; None once the follower is closed."""
        self.begin()
        while not self._closed:
            found = self.inbox.take()
            if isinstance(found, Fetch):
                await self._fetch(found)
            elif found is not None:
                self._make_room()
                return found
            elif self._error is not None:
                raise self._error
            else:
                await self._news()
        return None

    async def post(
        self,
        may: Callable[[Outgoing[asyncio.Future[Any]]], bool],
        put: Callable[[Outgoing[asyncio.Future[Any]], asyncio.Future[Any]], OutgoingItem[asyncio.Future[Any]]],
    ) -> OutgoingItem[asyncio.Future[Any]]:
        """Send an item as soon as there is room. Without a connection, the next connection sends it."""
        self.begin()
        with self._reading_on():
            await self._progress.wait_for(lambda: self._ended or may(self._outgoing))
        if self._ended:
            raise self._error or ended()
        letter = put(self._outgoing, asyncio.get_running_loop().create_future())
        await self._speak()
        return letter

    async def answer(self, letter: OutgoingItem[asyncio.Future[Any]], seconds: float | None = None) -> Any:  # noqa: ANN401 - the type depends on the item
        with self._reading_on():
            async with asyncio.timeout(seconds):
                return await asyncio.shield(letter.promise)

    def forget(self, letter: OutgoingItem[asyncio.Future[Any]]) -> None:
        self._outgoing.forget(letter)
        self._progress.notify_all()

    async def close(self) -> None:
        self._closed = True
        self._end(None)
        if self._task is not None and not self._task.done():
            # If the caller is cancelled here, the task still ends.
            await asyncio.wait([self._task])

    # For the connection.

    def pushed(self, counter: int, message: Message, size: int) -> bool:
        inbox = self.inbox
        if self._ended:
            return True
        inbox.put(counter, message, size)
        if self._taker is not None:
            self._wake()
        if inbox.has_room or inbox.reading_on:
            return True
        self._standing_still = True
        return False

    def heard(self, word: Word) -> None:
        try:
            self._hear(word)
        except Exception as error:  # noqa: BLE001  # the iterating task gets any error, even that of a callback
            self._end(error)

    def unreadable(self, why: str) -> None:
        self._end(unreadable(why))

    def _hear(self, word: Word) -> None:
        if isinstance(word, Connected):
            back = self.inbox.connected(word.sequence_number)
            self._tell(self.course.connected(self._now(), begins_earlier(word.sequence_number) if back else None))
        elif isinstance(word, Echo):
            if self._wish.on_echo is not None and not self._outgoing.is_own(word.message):
                self._wish.on_echo(word.message)
        elif isinstance(word, Disconnect):
            self.course.told_to_go(word)
            if self._line is not None:
                self._line.leave()
        else:
            self._outgoing.hear(word)
            self._progress.notify_all()

    # The task.

    async def _run(self) -> None:
        try:
            while True:
                self._tell(self.course.connecting(self._now()))
                again = await self._stay_connected()
                self._tell(again)
                await asyncio.sleep(again.delay or 0)
        except Exception as error:  # noqa: BLE001  # the iterating task gets any error
            self._end(error)

    async def _stay_connected(self) -> LiveState:
        """Follow one connection until it is lost; the result says when to connect again."""
        try:
            line = await self._door.connect(self, after=self.inbox.received, owner=self.course.owner)
        except RestanteError as error:
            return self.course.refused(error, self._now())
        self._line, self._lines, self._standing_still = line, self._lines + 1, False
        # Take messages while `_speak_first` sends: a hub stops reading from a client that does not read.
        speaking = asyncio.create_task(self._speak_first(), name="restante-live-speaking")
        try:
            return self.course.lost(await line.run(), self._now())
        finally:
            self._line = None
            speaking.cancel()
            await line.close()
            await asyncio.wait([speaking])

    async def _speak_first(self) -> None:
        """Send the unanswered items again, over a new connection."""
        try:
            await self._speak()
        except Exception as error:  # noqa: BLE001  # the iterating task gets any error
            self._end(error)

    async def _speak(self) -> None:
        """Send all items that have not been sent over this connection."""
        line = self._line
        while line is not None and line is self._line and (letter := self._outgoing.unsaid(self._lines)) is not None:
            if isinstance(letter.said, Message):
                await line.send(letter.request, letter.said)
            else:
                await line.collect(letter.said)

    def _end(self, error: BaseException | None) -> None:
        """End following. The error is raised once all messages that came before it have been shown."""
        if self._ended:
            return
        self._ended, self._error = True, error
        reason = CLOSED if error is None else str(error)
        self._outgoing.end(reason)
        self._progress.notify_all()
        self._wake()
        if self._task is not None:
            self._task.cancel()  # This may run in that very task, which then ends at its next wait.
        with suppress(Exception):  # A failing callback must not prevent the end.
            self._tell(LiveState(LiveStage.CLOSED, None if error is None else reason))

    # Waiting.

    async def _news(self) -> None:
        if self._taker is not None:
            raise read_elsewhere()
        self._taker = asyncio.get_running_loop().create_future()
        try:
            await self._taker
        finally:
            self._taker = None

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    @contextmanager
    def _reading_on(self) -> Iterator[None]:
        """While a caller waits for an answer, keep reading even without room, because messages may come before the answer."""
        self._answers_awaited += 1
        self.inbox.reading_on = True
        self._go_on()
        try:
            yield
        finally:
            self._answers_awaited -= 1
            self.inbox.reading_on = self._answers_awaited > 0

    def _make_room(self) -> None:
        if self._standing_still and self.inbox.is_low:
            self._go_on()

    def _go_on(self) -> None:
        if self._standing_still:
            self._standing_still = False
            if self._line is not None:
                self._line.go_on()

    async def _fetch(self, asked: Fetch) -> None:
        """Fetch a page of missing messages. If the hub is away, wait for it as the connection does."""
        self._tell(LiveState(LiveStage.CATCHING_UP))
        try:
            page = await self._history(
                after=asked.after, before=asked.before, limit=PAGE_MAX, live_gap=self.inbox.missing or None
            )
        except RestanteError as error:
            if not error.retriable:
                self._end(error)
                raise
            self._fetches_failed += 1
            await asyncio.sleep(self._door.pause(self._fetches_failed))
            return
        self._fetches_failed = 0
        self.inbox.filled(page)
        if page.next is None and self._line is not None:
            self._tell(LiveState(LiveStage.CONNECTED))

    def _tell(self, state: LiveState) -> None:
        """Call `on_state` with a new state; after the end, only with the end."""
        if state != self._state and (not self._ended or state.stage is LiveStage.CLOSED):
            self._state = state
            if self._wish.on_state is not None:
                self._wish.on_state(state)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
