"""Items acknowledged one by one, gathered into calls, without input and output: what waits, what goes next, what came of it.

One call is under way at a time; items that are added meanwhile go into the next. A call that failed is put back in its place,
and nothing more is sent until the error was raised to a caller. So no item that was added is ever dropped silently.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import islice

from restante import limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batch_items import Items
from restante.client.sending.send_queue import SendQueue
from restante.errors import InvalidOperation, InvalidRequest, RestanteError
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemRange
from restante.model.batches.items import named

_NUMBER = "(?:0|[1-9][0-9]{0,11})"
_PLAIN = re.compile(rf"[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}:{_NUMBER}:{_NUMBER}")
"""The form of nearly all ids; the rules look at all others."""


class Outbox(SendQueue[str | ItemRange]):
    """The items of one acknowledger. Where threads share it, each call holds their lock."""

    def __init__(self) -> None:
        super().__init__()
        self._under_way: list[str | ItemRange] = []
        self._deadline = 0.0
        """When the first of those that wait has waited long enough."""
        self.closed = False
        self.error: RestanteError | None = None
        """The failure of the last call, until it is raised to a caller."""
        self.acknowledged = 0
        self._complete: dict[str, CompleteBatch] = {}
        self._unknown: deque[str | ItemRange] = deque(maxlen=limits.ACKNOWLEDGE_ITEMS_TARGET)

    @property
    def full(self) -> bool:
        return len(self.waiting) >= limits.ACKNOWLEDGE_ITEMS_TARGET

    @property
    def complete(self) -> tuple[CompleteBatch, ...]:
        return tuple(self._complete.values())

    @property
    def unknown(self) -> tuple[str | ItemRange, ...]:
        return tuple(self._unknown)

    def check(self) -> None:
        """Tell what went wrong, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        if self.closed:
            raise InvalidOperation("The acknowledger has been closed. Make another one.")

    @property
    def ready(self) -> bool:
        """Whether there is room, and nothing to tell."""
        return not (self.full or self.closed) and self.error is None

    def put(self, item: str | ItemRange | Items, now: float) -> bool:
        """Take what is to be acknowledged. Gives whether the sender is to look."""
        waiting = self.waiting
        before = len(waiting)
        if isinstance(item, str) and _PLAIN.fullmatch(item) is not None:
            waiting.append(item)
        else:
            waiting.extend(_checked(item))
        self.taken += len(waiting) - before
        if not before:
            self._deadline = now + limits.ACKNOWLEDGER_WAIT_SECONDS
        return not before or self.full

    def close(self) -> None:
        """Take nothing more, and send nothing more: what waits stays pending."""
        self.closed = True
        self.waiting.clear()

    @property
    def finished(self) -> bool:
        return self.closed and not self._under_way

    def wait(self, now: float) -> float | None:
        """A call is due when it is full or urgent, or its first item has waited long enough."""
        if not self.waiting or self._under_way or self.error is not None:
            return None
        if self.full or self.settled < self.urgent:
            return 0
        return max(self._deadline - now, 0)

    def take(self) -> AcknowledgeItems:
        """The next call. It is under way until it is settled or has failed."""
        assert not self._under_way, "one call at a time"
        count = min(len(self.waiting), limits.ACKNOWLEDGE_ITEMS_TARGET)
        if count > limits.BATCHES_AT_ONCE_MAX and self._are_many(count):
            count = limits.BATCHES_AT_ONCE_MAX
        self._under_way = self.take_first(count)
        items = [each for each in self._under_way if isinstance(each, str)]
        return AcknowledgeItems(items, [each for each in self._under_way if isinstance(each, ItemRange)])

    def settle(self, answer: Acknowledged) -> None:
        self.settled += len(self._under_way)
        self._under_way = []
        self.acknowledged += answer.acknowledged
        self._unknown.extend(answer.unknown)
        for batch in answer.complete:
            # The one heard of last is kept longest.
            self._complete.pop(batch.id, None)
            self._complete[batch.id] = batch
        while len(self._complete) > limits.BATCHES_REMEMBERED_MAX:
            del self._complete[next(iter(self._complete))]

    def fail(self, error: RestanteError) -> None:
        """Put the items of a failed call back in their place, where they wait again."""
        self.put_back(self._under_way)
        self._under_way = []
        self.error = error

    def _are_many(self, count: int) -> bool:
        """Whether so many name more batches, or hold more ranges, than a call may."""
        batches: set[str] = set()
        ranges = 0
        for each in islice(self.waiting, count):
            is_range = isinstance(each, ItemRange)
            ranges += is_range
            batches.add((each.group if isinstance(each, ItemRange) else each)[:36])
        return len(batches) > limits.BATCHES_AT_ONCE_MAX or ranges > limits.ACKNOWLEDGE_RANGES_TARGET


def _checked(item: str | ItemRange | Items) -> tuple[str | ItemRange, ...]:
    """The items, if the hub would take them: one that it refuses would keep the others of its call from it."""
    if isinstance(item, str):
        named((item,), ())
        return (item,)
    ranges = item.ranges() if isinstance(item, Items) else (item,)
    if not all(isinstance(each, ItemRange) for each in ranges):
        raise InvalidRequest(f"Add the id of an item, an ItemRange, or what add gave, not {type(item).__name__}.")
    if ranges:
        named((), ranges)
    return ranges
