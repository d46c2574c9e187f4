"""`Inbox` holds received messages of a live connection that were not shown yet: each once, in order, without a gap.

Each message has a counter of its connection. Where counters are missing, or there was no room for messages, a mark is
queued: the messages between its neighbours are later fetched from history. What must stay true: every message up to
`received` was shown, is queued, or is covered by a mark. So the next connection can begin after `received`, however this one
ended. It begins earlier only if the hub has fewer messages, because it was restored from a backup or the number was wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from restante.limits import LIVE_UNREAD_BYTES_MAX, LIVE_UNREAD_MESSAGES_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message, is_shown


class Fetch(NamedTuple):
    """The page of history that is needed next."""

    after: int
    before: int


class _Back(NamedTuple):
    """An entry after which the sequence numbers go on from this lower number."""

    number: int


class Inbox:
    """Messages that wait to be shown. Without room for more, the connection stops reading, unless `reading_on` is set."""

    def __init__(self, after: int | None = None) -> None:
        self.position = after
        """The number of the last message shown, or the number after which following begins."""
        self.received = after
        self.gaps_recovered = 0
        self.missing = 0
        """How many messages that were not pushed must be fetched; 0 once a page of them was fetched."""
        self.reading_on = False
        """Whether to read on without room, because a caller waits for an answer. Messages without room are fetched later."""
        self._queue: deque[Message | int | _Back] = deque()
        """A number is a mark: messages below it that were not shown must be fetched."""
        self._missed: deque[int] = deque()
        """How many counters were missing at each mark."""
        self._missed_lately = 0
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._counter = 0
        self._passed_over: int | None = None
        """The number of the last message that had no room."""
        self._page: deque[Message] = deque()
        self._fetch: Fetch | None = None
        self._filling = False

    def connected(self, number: int) -> bool:
        """Begin a connection after this number, with counters from 1; return whether it begins earlier than asked."""
        self._counter = 0
        if self.received is None:
            self.received = self.position = number
        if number >= self.received:
            return False
        self.received = number
        self._go_back(number)
        return True

    def put(self, counter: int, message: Message, size: int) -> None:
        number = message.sequence_number
        assert number is not None, "a stored message has a number"
        missing = counter - self._counter - 1
        self._counter = counter
        if self.received is not None and number <= self.received:
            return  # Received before: consecutive connections may overlap.
        self.received = number
        self._missed_lately += max(0, missing)
        if self.reading_on and not self.has_room:
            self._passed_over = number
            return
        if missing or self._passed_over is not None:
            self._passed_over = None
            self._queue.append(number)
            self._missed.append(self._missed_lately)
            self._missed_lately = 0
        self._queue.append(message)
        self._sizes.append(size)
        self._bytes += size

    @property
    def has_room(self) -> bool:
        return len(self._sizes) < LIVE_UNREAD_MESSAGES_MAX and self._bytes < LIVE_UNREAD_BYTES_MAX

    @property
    def is_low(self) -> bool:
        """Whether there is enough room to make reading on worthwhile."""
        return len(self._sizes) <= LIVE_UNREAD_MESSAGES_MAX // 2 and self._bytes <= LIVE_UNREAD_BYTES_MAX // 2

    @property
    def at_hand(self) -> bool:
        """Whether `take` would return a message."""
        return not self._filling and bool(self._queue) and type(self._queue[0]) is Message

    def take(self) -> Message | Fetch | None:
        """The next message, or the page that must be fetched first; None if there is nothing."""
        if self._filling:
            return self._fill()
        if self._queue:
            entry = self._queue.popleft()
            if isinstance(entry, _Back):
                self.position = entry.number
                return self.take()
            if isinstance(entry, int):
                return self._begin(entry, self._missed.popleft())
            self._bytes -= self._sizes.popleft()
            self.position = entry.sequence_number
            return entry
        if self._passed_over is not None:
            before, self._passed_over = self._passed_over + 1, None
            missed, self._missed_lately = self._missed_lately, 0
            return self._begin(before, missed)
        return None

    def filled(self, page: HistoryPage) -> None:
        """Take in the page of history that `take` asked for."""
        asked = self._fetch
        assert asked is not None, "it was asked for"
        self.missing = 0
        self._page.extend(_shown(page.messages))
        self._fetch = None if page.next is None else Fetch(page.next, asked.before)
        if self._fetch is None:
            self.gaps_recovered += 1

    def _go_back(self, number: int) -> None:
        """Go on from a lower number: keep the received messages, but fetch missing ones only up to `number`.

        All messages after it will be pushed by the new connection.
        """
        if self._passed_over is not None:
            self._queue.append(self._passed_over + 1)
            self._missed.append(self._missed_lately)
        self._passed_over, self._missed_lately = None, 0
        entries = (min(entry, number + 1) if isinstance(entry, int) else entry for entry in self._queue)
        self._queue = deque([*entries, _Back(number)])
        if self._fetch is not None:
            self._fetch = Fetch(min(self._fetch.after, number), min(self._fetch.before, number + 1))
        if len(self._queue) == 1 and not self._filling:
            self._queue.clear()
            self.position = min(self.position or 0, number)

    def _begin(self, before: int, missed: int) -> Message | Fetch | None:
        if (self.position or 0) >= before - 1:
            return self.take()  # The mark is below the position since the hub went back.
        self._filling = True
        self.missing = missed
        self._fetch = Fetch(self.position or 0, before)
        return self._fetch

    def _fill(self) -> Message | Fetch | None:
        if self._page:
            message = self._page.popleft()
            self.position = message.sequence_number
            return message
        if self._fetch is not None:
            return self._fetch
        self._filling = False
        return self.take()


def _shown(messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if is_shown(message)]
