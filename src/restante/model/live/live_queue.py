"""The queue of one live connection: bounded, counting, and announcing the messages that it had to drop.

A message is counted when it is enqueued or dropped, so that a missing number shows the gap. A full queue drops the newest
messages. It keeps the last of them aside, which goes out as soon as there is room: so a gap shows also if nothing more is
published.
"""

from __future__ import annotations

from collections import deque

Counted = tuple[int, int, bytes]
"""A message's counter, its sequence number and its JSON."""


class LiveQueue:
    """The messages that one client is to be sent."""

    __slots__ = ("_bytes", "_late", "_waiting", "bytes_max", "counter", "dropped", "gaps", "last", "messages_max")

    def __init__(self, messages_max: int, bytes_max: int, *, last: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self._waiting: deque[Counted] = deque()
        self._bytes = 0
        self._late: Counted | None = None
        """The last message dropped, which is still to be sent."""
        self.counter = 0
        self.last = last
        """The sequence number of what was counted last: everything up to it has been dealt with."""
        self.dropped = 0
        self.gaps = 0
        """How often messages began to be dropped."""

    def __len__(self) -> int:
        return len(self._waiting)

    def fits(self, message: bytes) -> bool:
        """Whether there is room. One that is larger than the bound fits where nothing else waits: else it could never go."""
        return self._late is None and self._fits(message)

    def count(self, number: int) -> int:
        """The counter of a message that goes out without waiting here, as one that is replayed does."""
        self.last = number
        self.counter += 1
        return self.counter

    def count_all(self, count: int, last: int) -> None:
        """Count messages that go out without waiting in the queue; `last` is the number of the last one."""
        self.counter += count
        self.last = last

    def push(self, number: int, message: bytes) -> bool:
        """Enqueue a message, if there is room; one that was dealt with before is left out."""
        if number <= self.last:
            return True
        counted = self.count(number), number, message
        if self.fits(message):
            self._append(counted)
            return True
        if self._late is None:
            self.gaps += 1
        else:
            self.dropped += 1
        self._late = counted
        return False

    def take(self, bytes_max: int) -> list[Counted]:
        """The next messages, up to so many bytes, but at least one if there is any."""
        taken: list[Counted] = []
        size = 0
        while self._waiting and (not taken or size < bytes_max):
            counted = self._waiting.popleft()
            size += len(counted[2])
            self._bytes -= len(counted[2])
            taken.append(counted)
            if self._late is not None and self._fits(self._late[2]):
                self._append(self._late)
                self._late = None
        return taken

    def _fits(self, message: bytes) -> bool:
        return not self._waiting or (
            len(self._waiting) < self.messages_max and self._bytes + len(message) <= self.bytes_max
        )

    def _append(self, counted: Counted) -> None:
        self._waiting.append(counted)
        self._bytes += len(counted[2])
