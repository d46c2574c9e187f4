"""The frames of one connection that are under way, and who gets which answer, without input and output.

A frame has a number that no other frame of the publish socket ever has, and its answer comes back by it, in any order. A
caller that stops waiting leaves the number behind: the hub still works on it, so the frame takes room until it is answered,
and nobody gets the answer.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from restante.client.transport.address import HubAddress
from restante.errors import Unavailable

Promise = TypeVar("Promise")


class UnderWay(Generic[Promise]):
    """The frames that are not answered yet, at most `window` of them, and what was promised to their callers."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._promises: dict[int, Promise | None] = {}
        self.answers = 0
        """How many came. A connection over which none comes any more is not to be trusted."""
        self.ended = False

    @property
    def full(self) -> bool:
        return len(self._promises) >= self._window

    @property
    def empty(self) -> bool:
        return not self._promises

    @property
    def anybody_waits(self) -> bool:
        """Whether anybody waits for an answer."""
        return any(promise is not None for promise in self._promises.values())

    def put(self, number: int, promise: Promise) -> None:
        assert not self.full, "a caller waits for room first"
        assert not self.ended, "nothing is sent over a lost connection"
        self._promises[number] = promise

    def answered(self, number: int) -> Promise | None:
        """The promise of the caller that waits for this answer, if one does."""
        self.answers += 1
        return self._promises.pop(number, None)

    def forget(self, number: int) -> None:
        """Forget a frame for whose answer nobody waits any more."""
        if number in self._promises:
            self._promises[number] = None

    def withdraw(self, number: int) -> None:
        """This frame was not sent after all."""
        self._promises.pop(number, None)

    def end(self) -> list[Promise]:
        """The connection is lost. Gives the promises of all callers that wait; none of them gets an answer."""
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
