"""`UnderWay`: the unanswered frames of one connection, and the callers that wait for them, without I/O.

Each frame has a number that is unique for its publish socket. Answers name it, and come in any order. If a caller stops
waiting, its frame still takes room until it is answered, because the hub still works on it; the answer is then dropped.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from restante.client.transport.address import HubAddress
from restante.errors import Unavailable

Promise = TypeVar("Promise")


class UnderWay(Generic[Promise]):
    """The unanswered frames, at most `window` of them, with the promises of their callers."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._promises: dict[int, Promise | None] = {}
        self.answers = 0
        """How many answers have come. A connection over which no more come is given up."""
        self.ended = False

    @property
    def full(self) -> bool:
        return len(self._promises) >= self._window

    @property
    def empty(self) -> bool:
        return not self._promises

    @property
    def anybody_waits(self) -> bool:
        """Whether a caller waits for an answer."""
        return any(promise is not None for promise in self._promises.values())

    def put(self, number: int, promise: Promise) -> None:
        assert not self.full, "a caller waits for room first"
        assert not self.ended, "nothing is sent over a lost connection"
        self._promises[number] = promise

    def answered(self, number: int) -> Promise | None:
        """Note an answer; return the promise of the caller that waits for it, if one does."""
        self.answers += 1
        return self._promises.pop(number, None)

    def forget(self, number: int) -> None:
        """Forget the caller of a frame, which has stopped waiting."""
        if number in self._promises:
            self._promises[number] = None

    def withdraw(self, number: int) -> None:
        """Remove a frame that was not sent after all."""
        self._promises.pop(number, None)

    def end(self) -> list[Promise]:
        """Note that the connection is lost; return the promises of all waiting callers, which will get no answer."""
        self.ended = True
        waiting = [promise for promise in self._promises.values() if promise is not None]
        self._promises.clear()
        return waiting


def crowded(address: HubAddress) -> Unavailable:
    return Unavailable(
        f"The link to the hub at {address.url} had no room in time: other sends are under way. Nothing of this one was "
        "sent. Try again later.",
        address=address.url,
    )
