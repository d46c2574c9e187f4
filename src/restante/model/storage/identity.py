"""Identities: has this (recipient, id) been stored before, and was it the same message?

Every stored message has a fingerprint, 64 bits of (recipient, id). A partition keeps, in memory, sorted arrays of
fingerprints with the sequence number of each: 12 bytes an id. A new message whose fingerprint is not there is new. One
that is there is looked up and compared in full: equal in everything → a duplicate; same identity, other content → a
conflict; another identity → a mere collision, stored.

The arrays are a filter: an entry whose message has gone costs a look-up and changes nothing. They are rebuilt from the
ids of the stored messages when a partition is opened, so nothing of them is written to the store, and filing, which
never changes a number, does not touch them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from restante.model.columns.hashing import Hashes

_GROWTH = 4
_SPAN_MAX = 2**32 - 1
_SHORT = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Fingerprints in ascending order; entry i is of message number base + offset[i]."""

    base: int
    fingerprint: Hashes
    offset: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """All fingerprints of a partition: a few sorted arrays; after merging, each at least four times the next."""

    levels: tuple[Known, ...] = ()

    def __len__(self) -> int:
        return sum(len(level.fingerprint) for level in self.levels)

    def with_more(self, fingerprints: Hashes, numbers: NDArray[np.int64]) -> Fingerprints:
        """These, and those of new messages; short arrays are joined at once."""
        last, levels = known(fingerprints, numbers), self.levels
        while levels and len(levels[-1].fingerprint) + len(last.fingerprint) <= _SHORT and _near(levels[-1], last):
            last, levels = merge(levels[-1], last), levels[:-1]
        return Fingerprints((*levels, last))

    def with_level(self, level: Known) -> Fingerprints:
        """These, and those of new messages that are sorted already."""
        return Fingerprints((*self.levels, level))

    def has_any(self, fingerprints: Sequence[int]) -> bool:
        """Whether there is an entry for any of these few."""
        asked = np.array(fingerprints, np.uint64)
        for level in self.levels:
            stored = level.fingerprint
            places = stored.searchsorted(asked).tolist()
            for place, fingerprint in zip(places, fingerprints, strict=True):
                if place < len(stored) and stored.item(place) == fingerprint:
                    return True
        return False

    def mergeable(self) -> tuple[Known, Known] | None:
        """Two neighbouring arrays of like length, the youngest first."""
        pairs = list(itertools.pairwise(self.levels))
        return next((pair for pair in reversed(pairs) if _alike(*pair)), None)

    def with_merged(self, pair: tuple[Known, Known], merged: Known) -> Fingerprints:
        """These, with one array in the place of two; unchanged, if the two are no longer there."""
        pairs = list(itertools.pairwise(self.levels))
        if pair not in pairs:
            return self
        place = pairs.index(pair)
        return Fingerprints((*self.levels[:place], merged, *self.levels[place + 2 :]))

    def find(self, fingerprints: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs (index of the fingerprint asked for, number of a message that has it); fastest if they ascend."""
        found = [_find(level, fingerprints) for level in self.levels]
        indices = [index for index, _ in found] or [np.zeros(0, np.int64)]
        numbers = [number for _, number in found] or [np.zeros(0, np.int64)]
        return np.concatenate(indices), np.concatenate(numbers)


def known(fingerprints: Hashes, numbers: NDArray[np.int64]) -> Known:
    """Fingerprints in any order, with the numbers of their messages."""
    order = np.argsort(fingerprints)
    base = int(numbers.min())
    return Known(base, fingerprints[order], (numbers[order] - base).astype(np.uint32))


def have_common(level: Known, fingerprints: Hashes, *, beyond: int) -> bool:
    """Whether a message with a number beyond has one of these fingerprints, which ascend.

    The shorter of the two is looked for in the longer.
    """
    if len(fingerprints) < len(level.fingerprint):
        return bool((_find(level, fingerprints)[1] > beyond).any())
    place = np.searchsorted(fingerprints, level.fingerprint)
    inside = np.flatnonzero(place < len(fingerprints))
    hit = inside[fingerprints[place[inside]] == level.fingerprint[inside]]
    return bool((level.offset[hit].astype(np.int64) + level.base > beyond).any())


def _alike(older: Known, younger: Known) -> bool:
    return _near(older, younger) and len(older.fingerprint) < _GROWTH * len(younger.fingerprint)


def _near(older: Known, younger: Known) -> bool:
    """Whether an offset of 32 bits spans both."""
    return younger.base + int(younger.offset.max(initial=0)) - older.base <= _SPAN_MAX


def merge(older: Known, younger: Known) -> Known:
    fingerprint = np.concatenate([older.fingerprint, younger.fingerprint])
    shift = np.uint32(younger.base - older.base)
    offset = np.concatenate([older.offset, younger.offset + shift])
    order = np.argsort(fingerprint, kind="stable")
    return Known(older.base, fingerprint[order], offset[order])


def _find(level: Known, fingerprints: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    low = np.searchsorted(level.fingerprint, fingerprints, side="left")
    hit = low < len(level.fingerprint)
    hit[hit] = level.fingerprint[low[hit]] == fingerprints[hit]
    index = np.flatnonzero(hit)
    if not len(index):
        return index, index
    high = np.searchsorted(level.fingerprint, fingerprints[index], side="right")
    counts = high - low[index]
    entry = expand(low[index], counts)
    return np.repeat(index, counts), level.offset[entry].astype(np.int64) + level.base


def expand(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … of each count, one after another."""
    ends = np.cumsum(counts)
    steps: NDArray[np.int64] = np.arange(int(ends[-1]) if len(ends) else 0)
    steps += np.repeat(starts - (ends - counts), counts)
    return steps
