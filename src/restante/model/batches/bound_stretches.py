"""Which messages belong to which batch, as stretches of sequence numbers.

The messages that a publish stores have contiguous numbers in each partition, so one small row a partition binds them to a
batch, whatever their number. A stretch says: all *messages* with numbers in it belong to the batch; numbers
of change records in between do no harm. Stretches of items are disjoint. Stretches of duplicates name stored messages
of which a duplicate was published under the batch while they still waited: those of one batch are disjoint, those of
several may overlap.

In memory the stretches are sorted columns, a few arrays of growing length, so that adding one does not copy them all.
All values here are frozen: a reader sees one whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.model.columns.arrays import Numbers
from restante.model.storage.keys import number_key

Share = tuple[bytes, int, int]
"""A batch's share of some messages: the id of the batch, how many of them are its items, and of how many it has duplicates."""

_KEY = np.dtype([("first", ">u8"), ("role", "u1"), ("batch", "V16")])
_BATCH = np.dtype("V16")


class BindingRole(IntEnum):
    """Numbers are part of the stored format."""

    ITEM = 0
    DUPLICATE = 1


class BoundStretch(NamedTuple):
    """The messages with numbers first to last, inclusive."""

    first: int
    last: int
    batch: bytes


def binding_key(first: int, role: BindingRole, batch: bytes) -> bytes:
    return number_key(first) + bytes([role]) + batch


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Stretches in ascending order of their first numbers."""

    first: Numbers
    last: Numbers
    reach: Numbers
    """The highest last number so far. If it is lower than a number, all stretches up to this place end before that number."""
    batch: NDArray[np.void]
    low: int
    high: int

    @staticmethod
    def of(first: Numbers, last: Numbers, batch: NDArray[np.void]) -> Level:
        """The stretches of a partition, made of at least one, in any order."""
        if len(first) > 1 and not bool((first[1:] >= first[:-1]).all()):
            order = np.argsort(first, kind="stable")
            first, last, batch = first[order], last[order], batch[order]
        reach = np.maximum.accumulate(last)
        return Level(first, last, reach, batch, int(first[0]), int(reach[-1]))

    @staticmethod
    def listing(stretches: Sequence[BoundStretch]) -> Level:
        first = np.array([stretch.first for stretch in stretches], np.int64)
        last = np.array([stretch.last for stretch in stretches], np.int64)
        return Level.of(first, last, np.frombuffer(b"".join([stretch.batch for stretch in stretches]), _BATCH))

    def near(self, low: int, high: int) -> slice:
        """Where the stretches lie that may have something between these numbers."""
        if self.high < low or self.low > high:
            return slice(0, 0)
        return slice(int(self.reach.searchsorted(low)), int(self.first.searchsorted(high, side="right")))

    def only(self, mask: NDArray[np.bool_]) -> Level | None:
        return Level.of(self.first[mask], self.last[mask], self.batch[mask]) if mask.any() else None

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class BatchSpans:
    """The stretches of one batch: disjoint, ascending."""

    first: Numbers
    last: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def touching(self, first: Numbers, last: Numbers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which ranges of numbers have a number in common with a stretch, and which lie wholly in one."""
        if not len(self):
            return np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
        place = self.last.searchsorted(first)
        near = np.minimum(place, len(self) - 1)
        touched = (place < len(self)) & (self.first[near] <= last)
        return touched, touched & (self.first[near] <= first) & (last <= self.last[near])

    def inside(self, numbers: Numbers) -> NDArray[np.bool_]:
        return self.touching(numbers, numbers)[0]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Some stretches of one partition."""

    levels: tuple[Level, ...] = ()

    def with_more(self, more: Sequence[BoundStretch]) -> Stretches:
        return Stretches(_joined((*self.levels, Level.listing(more)))) if more else self

    def with_next(self, stretch: BoundStretch) -> Stretches:
        """The stretches with one more, which lies beyond all others. It stays by itself for now, as it may still be extended."""
        return Stretches((*_joined(self.levels), Level.listing([stretch])))

    @property
    def latest(self) -> BoundStretch | None:
        """The one that came last, if it can still be extended."""
        if not self.levels or len(self.levels[-1]) > 1:
            return None
        level = self.levels[-1]
        return BoundStretch(level.low, level.high, level.batch[0].tobytes())

    def extended(self, last: int) -> Stretches:
        """The stretches with the latest one reaching further."""
        level = self.levels[-1]
        longer = Level.of(level.first, np.array([last], np.int64), level.batch)
        return Stretches((*self.levels[:-1], longer))

    def counts(self, numbers: Numbers) -> dict[bytes, int]:
        """How many of these ascending numbers lie in the stretches of each batch."""
        found: dict[bytes, int] = {}
        if not len(numbers):
            return found
        low, high = int(numbers[0]), int(numbers[-1])
        for level in self.levels:
            near = level.near(low, high)
            count = numbers.searchsorted(level.last[near], side="right") - numbers.searchsorted(level.first[near])
            some = np.flatnonzero(count)
            for batch, own in zip(level.batch[near][some].tolist(), count[some].tolist(), strict=True):
                found[batch] = found.get(batch, 0) + own
        return found

    def inside(self, numbers: Numbers, batch: bytes) -> NDArray[np.bool_]:
        """Which of these ascending numbers lie in the stretches of a batch."""
        if not len(numbers):
            return np.zeros(0, np.bool_)
        steps = np.zeros(len(numbers) + 1, np.int64)
        low, high = int(numbers[0]), int(numbers[-1])
        for level in self.levels:
            near = level.near(low, high)
            own = level.batch[near] == _void(batch)
            np.add.at(steps, numbers.searchsorted(level.first[near][own]), 1)
            np.add.at(steps, numbers.searchsorted(level.last[near][own], side="right"), -1)
        return np.cumsum(steps[:-1]) > 0

    def of(self, batch: bytes) -> BatchSpans:
        """The stretches of a batch."""
        own = [(level, level.batch == _void(batch)) for level in self.levels]
        first = np.concatenate([np.zeros(0, np.int64), *(level.first[mask] for level, mask in own)])
        last = np.concatenate([np.zeros(0, np.int64), *(level.last[mask] for level, mask in own)])
        order = np.argsort(first, kind="stable")
        return BatchSpans(first[order], last[order])

    def without(self, batch: bytes) -> Stretches:
        kept = [level.only(level.batch != _void(batch)) for level in self.levels]
        return Stretches(tuple(level for level in kept if level is not None))

    def __len__(self) -> int:
        return sum(len(level) for level in self.levels)


def _void(batch: bytes) -> NDArray[np.void]:
    return np.frombuffer(batch, _BATCH)


def _joined(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The last arrays joined, until each is at least twice as long as the next."""
    while len(levels) > 1 and len(levels[-2]) < 2 * len(levels[-1]):
        older, younger = levels[-2:]
        joined = Level.of(
            np.concatenate([older.first, younger.first]),
            np.concatenate([older.last, younger.last]),
            np.concatenate([older.batch, younger.batch]),
        )
        levels = (*levels[:-2], joined)
    return levels


@dataclass(frozen=True, slots=True)
class Bindings:
    """The stretches that bind the messages of a partition to batches."""

    items: Stretches = field(default_factory=Stretches)
    duplicates: Stretches = field(default_factory=Stretches)

    def __bool__(self) -> bool:
        return bool(self.items.levels or self.duplicates.levels)

    def shares(self, numbers: Numbers) -> tuple[Share, ...]:
        """The shares that batches have in the messages with these ascending numbers."""
        items, duplicates = self.items.counts(numbers), self.duplicates.counts(numbers)
        return tuple(
            (batch, items.get(batch, 0), duplicates.get(batch, 0)) for batch in dict.fromkeys([*items, *duplicates])
        )

    def keys(self, batch: bytes) -> list[bytes]:
        """The keys of all stored rows of a batch."""
        own = ((BindingRole.ITEM, self.items.of(batch)), (BindingRole.DUPLICATE, self.duplicates.of(batch)))
        return [binding_key(first, role, batch) for role, spans in own for first in spans.first.tolist()]

    def without(self, batch: bytes) -> Bindings:
        return Bindings(self.items.without(batch), self.duplicates.without(batch))


NOTHING_BOUND = Bindings()


def load_bindings(entries: Sequence[tuple[bytes, bytes]]) -> Bindings:
    """Load the bindings from the rows of a partition, in the order of their keys."""
    if not entries:
        return NOTHING_BOUND
    if any(len(key) != _KEY.itemsize or len(value) != 8 for key, value in entries):
        raise DataDamaged("A row that binds messages to a batch cannot be read. Run `restante doctor`.")
    keys = np.frombuffer(b"".join([key for key, _ in entries]), _KEY)
    first = keys["first"].astype(np.int64)
    last = np.frombuffer(b"".join([value for _, value in entries]), ">u8").astype(np.int64)
    items, duplicates = (_loaded(first, last, keys["batch"], keys["role"] == role) for role in BindingRole)
    if items and len(items[0]) > 1:
        # The last stretch is kept by itself, because it may still be extended.
        items = tuple(_part(items[0], part) for part in (slice(None, -1), slice(-1, None)))
    return Bindings(Stretches(items), Stretches(duplicates))


def _loaded(first: Numbers, last: Numbers, batch: NDArray[np.void], mask: NDArray[np.bool_]) -> tuple[Level, ...]:
    return (Level.of(first[mask], last[mask], np.ascontiguousarray(batch[mask])),) if mask.any() else ()


def _part(level: Level, part: slice) -> Level:
    return Level.of(level.first[part], level.last[part], level.batch[part])
