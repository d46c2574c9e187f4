"""Acknowledgements, cut into calls: pure, lazy, and never more in hand than a few calls hold.

A short list of ids goes out as it is. In a long list, or an iterator, neighbouring ids of one group become a range where
enough of them follow each other. A sample shows whether ids are in no order; such ids go out as they are, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

from restante import limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batch_items import Items
from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemRange

Acknowledgeable: TypeAlias = str | ItemRange | Iterable[str | ItemRange | Items]
"""An item id, a range, what `add` gave or a stretch of it, or any number of these."""

NOTHING = Acknowledged(acknowledged=0, complete=(), unknown=())

_ITEMS = limits.ACKNOWLEDGE_ITEMS_TARGET
_RANGES = limits.ACKNOWLEDGE_RANGES_TARGET
_RUN = _ITEMS // _RANGES
"""The number of neighbours that are a range: then a call of ranges names as many items as one of ids, at least."""
_SAMPLES = 64
_BATCH_CHARACTERS = 36
_DIGITS_MAX = len(str(limits.BATCH_ITEMS_MAX))


def plain_call(given: Acknowledgeable) -> AcknowledgeItems | None:
    """The one call that this plainly is, found without a look at each id; None if it is to be gathered."""
    kind = type(given)
    if kind is list or kind is tuple:
        assert isinstance(given, list | tuple)
        fits = 0 < len(given) <= _ITEMS and _are_texts(given) and _has_few_batches(given, ())
        return AcknowledgeItems(given) if fits else None
    if isinstance(given, str):
        return AcknowledgeItems((given,))
    if isinstance(given, ItemRange):
        return AcknowledgeItems((), (given,))
    return None


def calls_of(given: Acknowledgeable) -> Iterator[AcknowledgeItems]:
    """The calls that acknowledge all of it, made as it is walked over."""
    if not isinstance(given, Iterable):
        raise _no_item(given)
    remaining: Iterator[object] = iter((given,) if isinstance(given, Items) else given)
    gathered = _Gathered()
    looked_at = 0
    while chunk := list(islice(remaining, _ITEMS)):
        if _is_scattered(chunk):
            yield from _bounded(chunk, [])
            continue
        gathered.put(chunk)
        looked_at += len(chunk)
        if looked_at >= limits.ACKNOWLEDGE_GATHERED_TARGET:
            gathered.end_run()
            looked_at = 0
            yield from gathered.take(1)
        else:
            yield from gathered.take(_ITEMS)
    gathered.end_run()
    yield from gathered.take(1)


class Sum:
    """The answers to several calls, as one."""

    def __init__(self) -> None:
        self._acknowledged = 0
        self._complete: dict[str, CompleteBatch] = {}
        self._unknown: list[str | ItemRange] = []

    def add(self, answer: Acknowledged) -> None:
        self._acknowledged += answer.acknowledged
        self._complete.update({batch.id: batch for batch in answer.complete})
        self._unknown += answer.unknown

    def answer(self) -> Acknowledged:
        return Acknowledged(
            acknowledged=self._acknowledged, complete=tuple(self._complete.values()), unknown=tuple(self._unknown)
        )


def summed(answers: Sequence[Acknowledged]) -> Acknowledged:
    if len(answers) == 1:
        return answers[0]
    total = Sum()
    for answer in answers:
        total.add(answer)
    return total.answer()


class Each:
    """Several calls, each with an answer of its own, cut into requests. One too large for a call has the sum of several."""

    def __init__(self, given: Iterable[Acknowledgeable]) -> None:
        if isinstance(given, str | ItemRange | Items) or not isinstance(given, Iterable):
            raise InvalidRequest(f"Give a list of calls, each with its items, not {type(given).__name__}.")
        self._given = given
        self._places: list[int] = []
        """Which call each part of the request under way belongs to."""
        self._answers: list[list[Acknowledged]] = []

    def requests(self) -> Iterator[list[AcknowledgeItems]]:
        """The calls that go out together. Each is to be answered before the next is asked for."""
        request: list[AcknowledgeItems] = []
        weight = 0
        for place, call in self._parts():
            more = len(call.items) + len(call.ranges)
            if request and (weight + more > _ITEMS or len(request) >= limits.ACKNOWLEDGED_CALLS_MAX):
                yield request
                request, weight = [], 0
                self._places = []
            request.append(call)
            self._places.append(place)
            weight += more
        if request:
            yield request

    def answered(self, answers: Sequence[Acknowledged]) -> None:
        for place, answer in zip(self._places, answers, strict=True):
            self._answers[place].append(answer)

    def answers(self) -> tuple[Acknowledged, ...]:
        return tuple(summed(own) for own in self._answers)

    def _parts(self) -> Iterator[tuple[int, AcknowledgeItems]]:
        for place, each in enumerate(self._given):
            self._answers.append([])
            call = plain_call(each)
            for part in calls_of(each) if call is None else (call,):
                yield place, part


class _Gathered:
    """Ids and ranges that wait for their call, and the run of neighbours that may still grow."""

    def __init__(self) -> None:
        self._items: list[str] = []
        self._ranges: list[ItemRange] = []
        self._run: list[str] = []
        """The first ids of the run, as long as they are too few for a range."""
        self._group = ""
        self._start = self._upto = 0
        self._next: str | None = None
        """The id that would make the run longer."""

    def put(self, chunk: Sequence[object]) -> None:
        for each in chunk:
            if isinstance(each, str):
                self._put_item(each)
            elif isinstance(each, ItemRange):
                self._ranges.append(each)
            elif isinstance(each, Items):
                self._ranges += each.ranges()
            else:
                raise _no_item(each)

    def end_run(self) -> None:
        if self._upto - self._start >= _RUN:
            self._ranges.append(ItemRange(group=self._group, start=self._start, upto=self._upto))
        else:
            self._items += self._run
        self._run, self._next = [], None
        self._start = self._upto = 0

    def take(self, least: int) -> Iterator[AcknowledgeItems]:
        """Calls, as long as there are so many ids, or as many ranges as a call has."""
        while len(self._items) >= least or len(self._ranges) >= min(least, _RANGES):
            items, self._items = self._items[:_ITEMS], self._items[_ITEMS:]
            ranges, self._ranges = self._ranges[:_RANGES], self._ranges[_RANGES:]
            yield from _bounded(items, ranges)

    def _put_item(self, item: str) -> None:
        if item != self._next:
            self.end_run()
            self._group, self._start = _place_of(item)
            self._upto = self._start
        self._upto += 1
        if self._upto - self._start < _RUN:
            self._run.append(item)
        self._next = f"{self._group}:{self._upto}" if self._group else None


def _place_of(item: str) -> tuple[str, int]:
    """The group and the index of an id; no group if it is not written as it ought to be: then the hub says so."""
    group, _, index = item.rpartition(":")
    if len(index) <= _DIGITS_MAX and index.isascii() and index.isdigit() and (index[0] != "0" or len(index) == 1):
        return group, int(index)
    return "", 0


def _are_texts(given: Sequence[Any]) -> TypeGuard[Sequence[str]]:
    """Whether all are texts. Nothing finds it out as quickly as putting them together: 7 µs for a thousand ids."""
    try:
        "".join(given)
    except TypeError:
        return False
    return True


def _is_scattered(chunk: list[Any]) -> TypeGuard[list[str]]:
    """Whether these are ids of which, by a sample, none follows the one before it."""
    if len(chunk) < _SAMPLES or not _are_texts(chunk):
        return False
    places = range(0, len(chunk) - 1, max(len(chunk) // _SAMPLES, 1))
    return not any(_follows(chunk[place], chunk[place + 1]) for place in places)


def _follows(item: str, following: str) -> bool:
    group, index = _place_of(item)
    return following == f"{group}:{index + 1}"


def _bounded(items: Sequence[str], ranges: Sequence[ItemRange]) -> Iterator[AcknowledgeItems]:
    """One call, or several if it would name more batches than a call may."""
    if _has_few_batches(items, ranges):
        yield AcknowledgeItems(items, ranges)
        return
    middle = len(items) // 2
    yield from _bounded(items[:middle], ())
    yield from _bounded(items[middle:], ())
    if ranges:
        yield AcknowledgeItems((), ranges)


def _has_few_batches(items: Sequence[str], ranges: Sequence[ItemRange]) -> bool:
    most = limits.BATCHES_AT_ONCE_MAX
    if len(items) + len(ranges) <= most:
        return True
    named = {item[:_BATCH_CHARACTERS] for item in items}
    named.update(each.group[:_BATCH_CHARACTERS] for each in ranges)
    return len(named) <= most


def _no_item(given: object) -> InvalidRequest:
    kind = type(given).__name__
    return InvalidRequest(f"Acknowledge ids of items, ItemRange values, or what add gave, not {kind}.")
