"""Ctrl-C at the right moment: while something is waited for it ends the wait, and what is under way is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class Interrupts:
    """Whether somebody has asked for the end. Who asks twice does not get to wait."""

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
