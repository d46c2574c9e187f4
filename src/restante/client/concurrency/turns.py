"""Turns for threads: one at a time, in the order in which they came. A lock of the system lets in whom it likes."""

from __future__ import annotations

import threading
from collections import deque


class WaitingLine:
    """A waiter that is interrupted leaves the line, or passes its turn on if that had just come."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holder: threading.Lock | None = None
        self._owner: int | None = None
        """The thread whose turn it is. If it comes again, an interrupt has kept it from passing its turn on."""
        self._waiting: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._waiting)

    def __enter__(self) -> None:
        ticket = threading.Lock()
        try:
            with self._mutex:
                if self._holder is None or self._owner == threading.get_ident():
                    self._holder, self._owner = ticket, threading.get_ident()
                    return
                ticket.acquire()
                self._waiting.append(ticket)
            ticket.acquire()
            self._owner = threading.get_ident()
        except BaseException:
            self._leave(ticket)
            raise

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._pass_on()

    def _leave(self, ticket: threading.Lock) -> None:
        with self._mutex:
            if self._holder is ticket:
                self._pass_on()
            elif ticket in self._waiting:
                self._waiting.remove(ticket)

    def _pass_on(self) -> None:
        self._owner = None
        self._holder = self._waiting.popleft() if self._waiting else None
        if self._holder is not None:
            self._holder.release()
