"""Sending gathered loads, for programs that wait: threads carry the loads.

Of the idle threads, one watches: it sleeps until a load is due. When it starts sending, another one takes its place: a
resting thread or, up to `at_once`, a new one. So each load wakes only one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import Condition
from typing import Generic, TypeVar

from restante.client.sending.send_queue import Gathering

Load = TypeVar("Load")


class Sender(Generic[Load]):
    """Sends the loads of a gathering, up to `at_once` at a time. `send` sends a load and settles its outcome."""

    def __init__(
        self, gathering: Gathering[Load], send: Callable[[Load], None], *, name: str, at_once: int = 1
    ) -> None:
        self._gathering = gathering
        self._send = send
        self._name = name
        self._at_once = at_once
        self.lock = threading.Lock()
        self._due = Condition(self.lock)
        """The watching thread waits on this."""
        self._relief = Condition(self.lock)
        """The resting threads wait on this."""
        self._watched = False
        self._resting = 0
        self._threads: list[threading.Thread] = []
        self.alarmed = False
        """Whether a thread will wake by itself when the next load is due."""
        self.changed = Condition(self.lock)
        """Guards the gathering. Callers wait on this for room, for outcomes, and for the end."""

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in one of the sender's threads, and so would wait for itself."""
        return threading.current_thread() in self._threads

    def stir(self) -> None:
        """Wake the watching thread, or start one if there may be more. The caller holds the lock."""
        if self._watched:
            self._due.notify()
        elif self._resting:
            self._relief.notify()
        elif len(self._threads) < self._at_once and self._gathering.wait(time.monotonic()) is not None:
            thread = threading.Thread(target=self._carry, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self) -> None:
        """Wait until everything is settled."""
        with self.changed:
            self.stir()
            self.changed.wait_for(lambda: self._gathering.finished)
            self._due.notify_all()
            self._relief.notify_all()
        for thread in self._threads:
            thread.join()

    def _carry(self) -> None:
        """The thread: send one load after another until the gathering is finished."""
        while (load := self._next()) is not None:
            self._send(load)

    def _next(self) -> Load | None:
        """Wait for the next load; None when the gathering is finished."""
        with self.changed:
            while (seconds := self._gathering.wait(time.monotonic())) != 0:
                if self._gathering.finished:
                    return None
                if self._watched:
                    self._rest()
                else:
                    self._watch(seconds)
            load = self._gathering.take()
            if not self._watched and self._gathering.wait(time.monotonic()) is not None:
                self.stir()
            return load

    def _rest(self) -> None:
        self._resting += 1
        self._relief.wait()
        self._resting -= 1

    def _watch(self, seconds: float | None) -> None:
        self._watched, self.alarmed = True, seconds is not None
        self._due.wait(seconds)
        self._watched = self.alarmed = False
