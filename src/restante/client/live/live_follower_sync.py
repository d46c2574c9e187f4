"""Following a mailbox, for programs that wait: `restante.client.live.live_follower_async` with a thread for the task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from restante.client.live.live_arguments import Following
from restante.client.live.live_inbox import Fetch, Inbox
from restante.client.live.live_outgoing import Outgoing, OutgoingItem
from restante.client.live.live_states import CLOSED, Course, LiveStage, LiveState, begins_earlier, ended, unreadable
from restante.errors import RestanteError
from restante.limits import LIVE_CLOSE_SECONDS, PAGE_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message
from restante.wire.live import Connected, Disconnect, Echo
from restante.wire.live_lines import LiveDoor, LiveLine, Word


class MailboxHistory(Protocol):
    """Reads a page of the mailbox's history."""

    def __call__(self, *, after: int, before: int, limit: int, live_gap: int | None) -> HistoryPage: ...


class LiveFollower:
    """Follows a mailbox: owns the thread that holds the connection and fills the inbox, and serves callers that take and send."""

    def __init__(self, door: LiveDoor, history: MailboxHistory, wish: Following) -> None:
        self.inbox = Inbox(wish.after)
        self.course = Course(door)
        self._door = door
        self._history = history
        self._wish = wish
        self._telling = threading.RLock()
        """Held while `on_state` is called: with one state at a time. The callback may close the follower."""
        self._changed = threading.Condition(threading.RLock())
        """Guards the inbox, the outgoing items, and the attributes below."""
        self._outgoing: Outgoing[Future[Any]] = Outgoing()
        self._state: LiveState | None = None
        self._thread: threading.Thread | None = None
        self._line: LiveLine | None = None
        self._lines = 0
        self._speaking = threading.Lock()
        self._answers_awaited = 0
        self._fetches_failed = 0
        self._error: BaseException | None = None
        self._ended = self._closed = False

    # For callers that take and send.

    def begin(self) -> None:
        with self._changed:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._run, name="restante-live", daemon=True)
                self._thread.start()

    def next(self) -> Message | None:
        """The next message; None once the follower is closed."""
        self.begin()
        while True:
            with self._changed:
                found = self._taken()
            if not isinstance(found, Fetch):
                return found
            self._fetch(found)

    def post(
        self,
        may: Callable[[Outgoing[Future[Any]]], bool],
        put: Callable[[Outgoing[Future[Any]], Future[Any]], OutgoingItem[Future[Any]]],
    ) -> OutgoingItem[Future[Any]]:
        """Send an item as soon as there is room. Without a connection, the next connection sends it."""
        self.begin()
        with self._changed:
            with self._reading_on():
                self._changed.wait_for(lambda: self._ended or may(self._outgoing))
            if self._ended:
                raise self._error or ended()
            letter = put(self._outgoing, Future())
        self._speak()
        return letter

    def answer(self, letter: OutgoingItem[Future[Any]], seconds: float | None = None) -> Any:  # noqa: ANN401 - as what was said
        with self._reading_on():
            return letter.promise.result(seconds)

    def forget(self, letter: OutgoingItem[Future[Any]]) -> None:
        with self._changed:
            self._outgoing.forget(letter)
            self._changed.notify_all()

    def close(self) -> None:
        """End the connection, and wait for its thread, unless an unresponsive hub holds it up: then it ends later by itself."""
        with self._changed:
            self._closed = True
            thread = self._thread
        self._end(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(LIVE_CLOSE_SECONDS)

    # For the connection.

    def pushed(self, counter: int, message: Message, size: int) -> bool:
        with self._changed:
            if not self._ended:
                self.inbox.put(counter, message, size)
                self._changed.notify_all()
                if not self.inbox.has_room:
                    self._changed.wait_for(lambda: self._ended or self.inbox.reading_on or self.inbox.is_low)
        return True

    def heard(self, word: Word) -> None:
        try:
            self._hear(word)
        except Exception as error:  # noqa: BLE001  # also what a callback raises: the iterating thread gets it
            self._end(error)

    def unreadable(self, why: str) -> None:
        self._end(unreadable(why))

    def _hear(self, word: Word) -> None:
        if isinstance(word, Connected):
            with self._changed:
                back = self.inbox.connected(word.sequence_number)
            told = begins_earlier(word.sequence_number) if back else None
            self._tell(self.course.connected(time.monotonic(), told))
        elif isinstance(word, Echo):
            with self._changed:
                is_own = self._outgoing.is_own(word.message)
            if self._wish.on_echo is not None and not is_own:
                self._wish.on_echo(word.message)
        elif isinstance(word, Disconnect):
            self.course.told_to_go(word)
            if self._line is not None:
                self._line.leave()
        else:
            with self._changed:
                self._outgoing.hear(word)
                self._changed.notify_all()

    # The thread.

    def _run(self) -> None:
        try:
            while not self._ended:
                self._tell(self.course.connecting(time.monotonic()))
                again = self._stay_connected()
                if not self._ended:
                    self._tell(again)
                    self._pause(again.delay or 0)
        except Exception as error:  # noqa: BLE001  # the iterating thread gets any error
            self._end(error)

    def _stay_connected(self) -> LiveState:
        """Follow one connection until it is lost; the result says when to connect again."""
        try:
            line = self._door.connect(self, after=self.inbox.received, owner=self.course.owner)
        except RestanteError as error:
            return self.course.refused(error, time.monotonic())
        try:
            with self._changed:
                self._line, self._lines = line, self._lines + 1
                if self._ended:
                    line.leave()
            self._speak()
            return self.course.lost(line.run(), time.monotonic())
        finally:
            with self._changed:
                self._line = None
            line.close()

    def _speak(self) -> None:
        """Send all items that have not been sent over this connection, in order."""
        with self._speaking:
            while True:
                with self._changed:
                    line = self._line
                    letter = None if line is None else self._outgoing.unsaid(self._lines)
                if line is None or letter is None:
                    return
                if isinstance(letter.said, Message):
                    line.send(letter.request, letter.said)
                else:
                    line.collect(letter.said)

    def _end(self, error: BaseException | None) -> None:
        """End following. The error is raised once all messages that came before it have been shown."""
        with self._changed:
            if self._ended:
                return
            self._ended, self._error = True, error
            reason = CLOSED if error is None else str(error)
            self._outgoing.end(reason)
            self._changed.notify_all()
            line = self._line
        if line is not None:
            line.leave()
            line.close()
        with suppress(Exception):  # A failing callback must not prevent the end.
            self._tell(LiveState(LiveStage.CLOSED, None if error is None else reason))

    # Waiting.

    def _taken(self) -> Message | Fetch | None:
        """Wait for the next message, or for the page that must be fetched first; None once the follower is closed."""
        while not self._closed:
            found = self.inbox.take()
            if found is not None:
                if self.inbox.is_low:
                    self._changed.notify_all()
                return found
            if self._error is not None:
                raise self._error
            self._changed.wait()
        return None

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended, seconds)

    @contextmanager
    def _reading_on(self) -> Iterator[None]:
        """While a caller waits for an answer, keep reading even without room, because messages may come before the answer."""
        with self._changed:
            self._answers_awaited += 1
            self.inbox.reading_on = True
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._answers_awaited -= 1
                self.inbox.reading_on = self._answers_awaited > 0

    def _fetch(self, asked: Fetch) -> None:
        """Fetch a page of missing messages. If the hub is unavailable, pause before the next try."""
        self._tell(LiveState(LiveStage.CATCHING_UP))
        try:
            page = self._history(
                after=asked.after, before=asked.before, limit=PAGE_MAX, live_gap=self.inbox.missing or None
            )
        except RestanteError as error:
            if not error.retriable:
                self._end(error)
                raise
            self._fetches_failed += 1
            self._pause(self._door.pause(self._fetches_failed))
            return
        self._fetches_failed = 0
        with self._changed:
            self.inbox.filled(page)
        if page.next is None and self._line is not None:
            self._tell(LiveState(LiveStage.CONNECTED))

    def _tell(self, state: LiveState) -> None:
        """Call `on_state` if the state is new. After the end, only the end is reported."""
        with self._telling:
            if state == self._state or (self._ended and state.stage is not LiveStage.CLOSED):
                return
            self._state = state
            if self._wish.on_state is not None:
                self._wish.on_state(state)
