"""`SendQueue`, without I/O: items are gathered in order, sent together, and settled or put back.

A *gathering* is one queue or several with their rules: what goes together in a load, when a load is due, and what its
outcome means. `Sender` and `AsyncSender` call its `wait` and `take`, and send the loads.

What must stay true: items leave the queue at its front, and come back there, so whatever fails, they are sent in the order
in which they were put in. `taken` and `settled` count the same units, so a flush ends when `settled >= hurry()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Load_co = TypeVar("Load_co", covariant=True)


class SendQueue(Generic[Item]):
    """A queue of items in order. Threads that share it must hold their lock for every call."""

    __slots__ = ("settled", "taken", "urgent", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Item] = deque()
        self.taken = 0
        """How many units were ever put in."""
        self.settled = 0
        """How many of them have an outcome that was reported."""
        self.urgent = 0
        """Up to which count of `taken` units are sent without waiting for more."""

    def take_first(self, count: int) -> list[Item]:
        """Take the first `count` items, which are under way from now on."""
        popleft = self.waiting.popleft
        return [popleft() for _ in range(count)]

    def put_back(self, items: Sequence[Item]) -> None:
        """Put items that were under way back at the front."""
        self.waiting.extendleft(reversed(items))

    def hurry(self) -> int:
        """Send everything without waiting for more; return the value that `settled` must reach for that."""
        self.urgent = self.taken
        return self.taken


class Gathering(Protocol[Load_co]):
    """The source of the loads that a sender sends. Threads that share it must hold their lock for every call."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to send, and nothing will come."""
        ...

    def wait(self, now: float) -> float | None:
        """Seconds until a load is due: 0 if one is due now, None if none will be due without another call."""
        ...

    def take(self) -> Load_co:
        """Take the load that is due. It is under way until its outcome is settled."""
        ...
