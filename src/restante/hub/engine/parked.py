"""Requests beside the queue of the committer: those that wait until something has come to its end, or wait in vain."""

from __future__ import annotations

import threading
from typing import Any, Generic, Protocol, TypeVar

from restante.errors import Unavailable


class Parkable(Protocol):
    """A request that may have to wait. While it does, nobody is answered."""

    parked: bool
    error: BaseException | None
    line: Any


R = TypeVar("R", bound=Parkable)


class ParkedRequests(Generic[R]):
    """The requests that are parked, and since when, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: list[tuple[float, R]] = []

    @property
    def lines(self) -> set[object]:
        """The lines of which something is parked: what comes later in them has to wait behind it."""
        return {request.line for _, request in tuple(self.requests) if request.line is not None}

    def parted(self, batch: list[R], now: float) -> list[R]:
        """Keep those of a commit that are to be parked, and were not refused; gives the others."""
        kept = [request for request in batch if request.parked and request.error is None]
        if not kept:
            return batch
        answered = [request for request in batch if not request.parked or request.error is not None]
        for request in kept:
            request.parked = False
        with self._lock:
            self.requests += [(now, request) for request in kept]
        return answered

    def taken(self, until: float | None = None) -> list[R]:
        """Take the requests that were parked until some time, or all of them; they are the caller's now."""
        with self._lock:
            found = [request for since, request in self.requests if until is None or since <= until]
            self.requests = [own for own in self.requests if until is not None and own[0] > until]
        return found


def held_too_long() -> Unavailable:
    """The error for a caller whose request was parked until the time was up."""
    return Unavailable("What was sent is held by a commit of others that takes long. Try again.")


def closed() -> Unavailable:
    """The error of a call to a hub that was closed."""
    error = Unavailable("The hub is closed. Open it again.")
    error.retriable = False
    return error
