"""Waits of a program with threads: a few calls under way at a time, each in a thread, and turns in the order of arrival."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def side_by_side(
    say: Callable[[Item], Answer],
    items: Iterator[Item],
    hear: Callable[[Answer], object],
    *,
    at_most: int,
    apart: bool = False,  # noqa: ARG001 - the caller's own thread makes the items, while others wait for answers
) -> None:
    """Say each item, and hear the answers in their order. A single one is said by the caller's own thread."""
    first, second = next(items, None), next(items, None)
    if first is None:
        return
    if second is None:
        hear(say(first))
        return
    under_way: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(at_most, thread_name_prefix="restante-side-by-side") as pool:
        for item in chain((first, second), items):
            under_way.append(pool.submit(say, item))
            if len(under_way) >= at_most:
                hear(under_way.popleft().result())
        for answer in under_way:
            hear(answer.result())


class WaitingLine:
    """A waiter that is interrupted leaves the line, or passes its turn on if that had just come."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holder: threading.Lock | None = None
        self._owner: int | None = None
        """The thread whose turn it is. If it comes again, an interrupt has kept it from passing its turn on."""
        self._waiting: deque[threading.Lock] = deque()

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
