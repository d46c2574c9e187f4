"""A few calls under way at a time, for programs that wait: each in a thread."""

from __future__ import annotations

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
