"""`Inbox` of a live connection: messages that came and were not shown yet, each once, in order, without a gap.

Each message has a counter of its connection. Where a counter is missing, or where there was no room, a mark is queued: the
messages between the one before the mark and the one after it are then fetched from history. So every message up to `received`
is shown, queued or marked, and the next connection begins there, however this one ended. It begins earlier only if the hub
does not reach that far itself: it was restored from a backup, or the number was wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from restante.limits import LIVE_UNREAD_BYTES_MAX, LIVE_UNREAD_MESSAGES_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message, is_shown


class Fetch(NamedTuple):
    """A page of history that is needed next."""

    after: int
    before: int


class _Back(NamedTuple):
    """An entry after which sequence numbers begin again, after this one."""

    number: int


class Inbox:
    """Messages that wait to be shown. They are bounded: unless `reading_on`, the connection stops reading where there is no room."""

    def __init__(self, after: int | None = None) -> None:
        self.position = after
        """The number of the last message that was shown, or where it all begins."""
        self.received = after
        self.gaps_recovered = 0
        self.missing = 0
        """How many messages are to be fetched that were not pushed; 0 once a page of them was."""
        self.reading_on = False
        """A caller waits for an answer that comes after the messages: messages that have no room are fetched later."""
        self._queue: deque[Message | int | _Back] = deque()
        """A number is a mark: all below it that was not shown is missing."""
        self._missed: deque[int] = deque()
        """For each mark, how many counters were missing there."""
        self._missed_lately = 0
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._counter = 0
        self._passed_over: int | None = None
        """The last message that had no room."""
        self._page: deque[Message] = deque()
        self._fetch: Fetch | None = None
        self._filling = False

    def connected(self, number: int) -> bool:
        """Begin a connection after this number, whose counters begin with 1. Gives whether that is earlier than was asked for."""
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
            return  # It came before: connections overlap where one follows the other.
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
        """Whether there is so much room that it is worthwhile to read on."""
        return len(self._sizes) <= LIVE_UNREAD_MESSAGES_MAX // 2 and self._bytes <= LIVE_UNREAD_BYTES_MAX // 2

    @property
    def at_hand(self) -> bool:
        """Whether a message can be taken at once."""
        return not self._filling and bool(self._queue) and type(self._queue[0]) is Message

    def take(self) -> Message | Fetch | None:
        """The next message, or what must be fetched first; None if there is nothing."""
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
        """Show the messages that came, and fetch missing ones up to this number only: all after it are going to be pushed."""
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
            return self.take()  # It was to be fetched from a hub that no longer reached so far.
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
