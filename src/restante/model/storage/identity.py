"""Identities answer two questions: was this (recipient, id) stored before, and was it the same message?

Every stored message has a fingerprint: 64 bits of its (recipient, id). A partition keeps the fingerprints of all its
messages with their sequence numbers, in a few *levels* in number order. Old levels are stored (`identity_level`); those of
the newest messages are sorted arrays in memory, with 12 bytes an entry. A message whose fingerprint is in no level is new.
Otherwise the stored message is read and compared in full: everything equal → a duplicate; same identity, other content →
a conflict; other identity → the fingerprints collide, and the message is new.

What must stay true: every stored message has an entry. Superfluous entries are harmless: one whose message is gone costs a
lookup. Filing changes no sequence number, so levels stay valid. For messages that no stored level covers, opening a
partition computes the fingerprints from their ids.

In memory each array is, after merging, at least four times (`_GROWTH`) as long as the next, so there are few to search.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from restante.model.columns.hashing import Hashes
from restante.model.storage.identity_level import StoredLevel, may_have

_GROWTH = 4
_STORED_GROWTH = 1.5
"""A stored level is merged while it has at most this many times the entries merged so far, so lengths roughly double."""
_SPAN_MAX = 2**32 - 1
_SHORT = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A level in memory: ascending fingerprints. Entry i is of message number base + offset[i]."""

    base: int
    fingerprint: Hashes
    offset: NDArray[np.uint32]
    last: int
    """The highest message number of its entries."""

    def __len__(self) -> int:
        return len(self.fingerprint)


@dataclass(frozen=True, slots=True)
class KnownStretch:
    """Neighbouring levels in memory, and the numbers that they cover: all those between the adjacent stored levels."""

    levels: tuple[Known, ...]
    first: int
    last: int
    newest: bool
    """Whether no stored level follows."""

    @property
    def entries(self) -> int:
        return sum([len(level) for level in self.levels])


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """All fingerprints of a partition, as levels in number order. Immutable, so that readers need no lock."""

    levels: tuple[Known | StoredLevel, ...] = ()

    def __len__(self) -> int:
        return sum([len(level) for level in self.levels])

    def with_more(self, fingerprints: Hashes, numbers: NDArray[np.int64]) -> Fingerprints:
        """These fingerprints with those of new messages added. Short arrays are merged at once."""
        last, levels = known(fingerprints, numbers), self.levels
        while levels and (short := _short(levels[-1])) and len(short) + len(last) <= _SHORT and _near(short, last):
            last, levels = merge(short, last), levels[:-1]
        return Fingerprints((*levels, last))

    def with_level(self, level: Known) -> Fingerprints:
        """These fingerprints with a sorted level of new messages added."""
        return Fingerprints((*self.levels, level))

    def with_stored(self, level: StoredLevel) -> Fingerprints:
        """These fingerprints with a stored level in place of all entries that it covers."""
        left = [other for own in self.levels if (other := _outside(own, level)) is not None]
        return Fingerprints(tuple(sorted((*left, level), key=lambda own: own.base)))

    def without_stored(self, damaged: StoredLevel, instead: Known | None) -> Fingerprints:
        """These fingerprints with `instead` in place of a stored level that cannot be read."""
        levels = [instead if own is damaged else own for own in self.levels]
        return Fingerprints(tuple(own for own in levels if own is not None))

    @property
    def stored(self) -> tuple[StoredLevel, ...]:
        return tuple(level for level in self.levels if isinstance(level, StoredLevel))

    @property
    def covered(self) -> int:
        """The last number that a stored level covers; 0 without stored levels."""
        return max((level.last for level in self.stored), default=0)

    def in_memory(self) -> Iterator[KnownStretch]:
        """The stretches of levels in memory, each short enough for 32-bit offsets."""
        own: list[Known] = []
        before = 0
        for level in self.levels:
            if own and (isinstance(level, StoredLevel) or not _near(own[0], level)):
                last = level.first - 1 if isinstance(level, StoredLevel) else own[-1].last
                yield KnownStretch(tuple(own), before + 1, last, newest=False)
                own, before = [], last
            if isinstance(level, StoredLevel):
                before = level.last
            else:
                own.append(level)
        if own:
            yield KnownStretch(tuple(own), before + 1, own[-1].last, newest=True)

    def has_any(self, fingerprints: Sequence[int]) -> bool:
        """Whether there may be an entry for one of these few fingerprints. False is certain."""
        asked = np.array(fingerprints, np.uint64)
        for level in self.levels:
            if isinstance(level, StoredLevel):
                if any(may_have(level, fingerprint) for fingerprint in fingerprints):
                    return True
                continue
            stored = level.fingerprint
            places = stored.searchsorted(asked).tolist()
            for place, fingerprint in zip(places, fingerprints, strict=True):
                if place < len(stored) and stored.item(place) == fingerprint:
                    return True
        return False

    def mergeable(self) -> tuple[Known, Known] | None:
        """The youngest pair of neighbouring arrays of similar length, if there is one."""
        pairs = list(itertools.pairwise(self.levels))
        return next((pair for older, younger in reversed(pairs) if (pair := _alike_known(older, younger))), None)

    def mergeable_stored(self) -> tuple[StoredLevel, ...]:
        """Neighbouring stored levels that should be merged: one, and all before it that are too short in comparison; or none."""
        for is_stored, group in itertools.groupby(reversed(self.levels), lambda level: isinstance(level, StoredLevel)):
            levels = [level for level in group if isinstance(level, StoredLevel)] if is_stored else []
            for start, chosen in enumerate(levels):
                joined = _joined(chosen, levels[start + 1 :])
                if len(joined) > 1:
                    return tuple(reversed(joined))
        return ()

    def with_merged(self, pair: tuple[Known, Known], merged: Known) -> Fingerprints:
        """These fingerprints with one array in place of a pair; unchanged if the pair is no longer there."""
        pairs = list(itertools.pairwise(self.levels))
        if pair not in pairs:
            return self
        place = pairs.index(pair)
        return Fingerprints((*self.levels[:place], merged, *self.levels[place + 2 :]))


def _short(level: Known | StoredLevel) -> Known | None:
    return level if isinstance(level, Known) and len(level) < _SHORT else None


def _outside(level: Known | StoredLevel, stored: StoredLevel) -> Known | StoredLevel | None:
    """The part of a level that a stored level does not cover."""
    if level.last < stored.first or level.base > stored.last:
        return level
    if isinstance(level, StoredLevel):
        return None
    number = level.offset.astype(np.int64) + level.base
    left = (number < stored.first) | (number > stored.last)
    return known(level.fingerprint[left], number[left]) if left.any() else None


def known(fingerprints: Hashes, numbers: NDArray[np.int64]) -> Known:
    """A level of fingerprints in any order, with the numbers of their messages."""
    order = np.argsort(fingerprints)
    base = int(numbers.min())
    return Known(base, fingerprints[order], (numbers[order] - base).astype(np.uint32), int(numbers.max()))


def have_common(level: Known, fingerprints: Hashes, *, beyond: int) -> bool:
    """Whether a message with a number above `beyond` has one of these ascending fingerprints.

    The shorter of the two arrays is searched for in the longer.
    """
    if len(fingerprints) < len(level):
        return bool((find_in(level, fingerprints)[1] > beyond).any())
    place = np.searchsorted(fingerprints, level.fingerprint)
    inside = np.flatnonzero(place < len(fingerprints))
    hit = inside[fingerprints[place[inside]] == level.fingerprint[inside]]
    return bool((level.offset[hit].astype(np.int64) + level.base > beyond).any())


def _alike_known(older: Known | StoredLevel, younger: Known | StoredLevel) -> tuple[Known, Known] | None:
    if not isinstance(older, Known) or not isinstance(younger, Known):
        return None
    return (older, younger) if _near(older, younger) and len(older) < _GROWTH * len(younger) else None


def _joined(youngest: StoredLevel, before: Sequence[StoredLevel]) -> list[StoredLevel]:
    """A level and the levels just before it, youngest first, while each is short compared with all joined so far."""
    joined, entries = [youngest], len(youngest)
    for level in before:
        if len(level) > _STORED_GROWTH * entries or youngest.last - level.base > _SPAN_MAX:
            break
        joined.append(level)
        entries += len(level)
    return joined


def _near(older: Known, younger: Known) -> bool:
    """Whether 32-bit offsets can span both levels."""
    return younger.last - older.base <= _SPAN_MAX


def merge(older: Known, younger: Known) -> Known:
    fingerprint = np.concatenate([older.fingerprint, younger.fingerprint])
    shift = np.uint32(younger.base - older.base)
    offset = np.concatenate([older.offset, younger.offset + shift])
    order = np.argsort(fingerprint, kind="stable")
    return Known(older.base, fingerprint[order], offset[order], younger.last)


def find_in(level: Known, fingerprints: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of (index in `fingerprints`, number of a message with that fingerprint). Fastest if these ascend."""
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
    """The numbers start, start + 1, … of each (start, count), one after another."""
    ends = np.cumsum(counts)
    steps: NDArray[np.int64] = np.arange(int(ends[-1]) if len(ends) else 0)
    steps += np.repeat(starts - (ends - counts), counts)
    return steps
