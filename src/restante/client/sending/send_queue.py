"""The queue of what waits to be sent, without input and output: gathered in order, sent together, settled or put back.

A *gathering* is a queue, or several, with rules of its own: what goes together in a load, when a load is due, and what
its outcome means. `Sender` and `AsyncSender` carry loads out: they ask `wait` and `take`, and send what they got.

What must stay true: items leave the queue at its front, and come back there. So they are sent in the order in which they
were put in, whatever fails. `taken` and `settled` count what the callers put in, so that `settled >= hurry()` is the end of
a flush.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Load_co = TypeVar("Load_co", covariant=True)


class SendQueue(Generic[Item]):
    """Items of one order. Where threads share it, each call holds their lock."""

    __slots__ = ("settled", "taken", "urgent", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Item] = deque()
        self.taken = 0
        """How much was ever put in."""
        self.settled = 0
        """How much of it has its outcome, and so has been told."""
        self.urgent = 0
        """How much of what was taken is to be sent without waiting for more."""

    def take_first(self, count: int) -> list[Item]:
        """The first items, which are under way from now on."""
        popleft = self.waiting.popleft
        return [popleft() for _ in range(count)]

    def put_back(self, items: Sequence[Item]) -> None:
        """Items that were under way wait again, in their place."""
        self.waiting.extendleft(reversed(items))

    def hurry(self) -> int:
        """Send all without waiting for more. Gives how far things must be settled for it."""
        self.urgent = self.taken
        return self.taken


class Gathering(Protocol[Load_co]):
    """The source of the loads that a sender sends. Where threads share it, each call holds their lock."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to send, and nothing will come."""
        ...

    def wait(self, now: float) -> float | None:
        """Seconds until a load is due: 0 if one is due now, None if none will be by itself."""
        ...

    def take(self) -> Load_co:
        """The load that is due. It is under way until its outcome is settled."""
        ...
