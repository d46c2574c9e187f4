"""How a command ends: its exit code, and Ctrl-C at the right moment.

While a command waits, Ctrl-C ends the wait at once. While it works, it finishes the piece of work first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

WRONG = 1
"""The exit code when something is wrong; standard error says what."""
NOTHING_THERE = 3
"""The exit code when nothing is wrong, and nothing was there."""
NOT_QUITE_WELL = 4
"""The exit code when the hub works, and something needs attention."""

EPILOG = (
    "Exit codes: 0 all is well, 1 something is wrong (standard error says what), 2 the command was not understood, "
    "3 nothing was there (collect, explain, history), 4 something needs attention (health), 130 Ctrl-C ended it."
)


T = TypeVar("T")


class Interrupts:
    """Whether Ctrl-C has asked for the end. A second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def until_asked(self, items: Iterator[T]) -> Iterator[T]:
        """The items, until Ctrl-C: it is heard while the next one is waited for, and else when this one is done with."""
        while not self.asked:
            try:
                self._waiting = True
                item = next(items)
            except StopIteration:
                return
            except KeyboardInterrupt:
                self.asked = True
                return
            finally:
                self._waiting = False
            yield item

    def _hear(self, _signal: int, _frame: FrameType | None) -> None:
        if self._waiting or self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Hear of interrupts for as long as this context lasts. Signals come to the main thread alone; elsewhere there is nothing to hear."""
    heard = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    before = signal.signal(signal.SIGINT, heard._hear)  # noqa: SLF001 - of this module
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)
