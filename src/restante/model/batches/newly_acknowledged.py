"""Which items an acknowledgement takes that nobody has taken before, call by call in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from restante.model.batches.acknowledged import united
from restante.model.columns.bits import BitPositions, Bits

_EXPANDED_MAX = 65_536
"""Ranges that have no more items together are taken item by item, with the other items of their call."""


@dataclass(slots=True)
class AskedItems:
    """The items that one call names of a batch: positions, and ranges too long to be taken one by one."""

    positions: list[BitPositions] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    named: int = 0
    """How many were named, those named twice counted twice: an estimated batch counts so."""

    def unite_ranges(self) -> None:
        """Take the ranges as few, and item by item if they are short together."""
        self.named += sum(stop - start for start, stop in self.ranges)
        self.ranges = united(self.ranges)
        if self.ranges and sum(stop - start for start, stop in self.ranges) <= _EXPANDED_MAX:
            self.positions += [np.arange(start, stop) for start, stop in self.ranges]
            self.ranges = []


class Newly(NamedTuple):
    """The new items of some calls: how many of each, and all of them; if there are long ranges, the bits as they will be."""

    counts: list[int]
    positions: BitPositions
    ranges: list[tuple[int, int]]
    trial: Bits | None


def newly(bits: Bits, calls: Sequence[AskedItems]) -> Newly:
    """The items that are new in these calls; the bits are left as they are."""
    ranges = united([one for call in calls for one in call.ranges])
    if not ranges:
        return Newly(*_together(bits, calls), ranges, None)
    trial = bits.trial()
    return Newly(*_one_by_one(trial, calls), ranges, trial)


def _together(bits: Bits, known: Sequence[AskedItems]) -> tuple[list[int], BitPositions]:
    """Single positions: how many are new of each share, and all that are new, ascending."""
    parts = [part for own in known for part in own.positions]
    if not any(map(len, parts)):
        return [0] * len(known), np.zeros(0, np.int64)
    if len(parts) == 1:
        new = _fresh(bits, parts[0])
        return [len(new) if own.positions else 0 for own in known], new
    # One sort of packed keys, position and share: of a position named twice, the call that named it first comes first.
    room = np.int64(max(1, (len(known) - 1).bit_length()))
    packed = np.concatenate(parts) << room
    packed |= np.repeat(np.arange(len(known)), [sum(map(len, own.positions)) for own in known])
    packed.sort()
    ascending = packed >> room
    first = np.append(True, ascending[1:] != ascending[:-1])
    ascending, owner = ascending[first], packed[first] & ((np.int64(1) << room) - 1)
    fresh = ~bits.test(ascending)
    return np.bincount(owner[fresh], minlength=len(known)).tolist(), ascending[fresh]


def _fresh(bits: Bits, positions: BitPositions) -> BitPositions:
    """The positions whose bits are not set, ascending, each once."""
    ascending = np.sort(positions)
    repeated = ascending[1:] == ascending[:-1]
    if repeated.any():
        ascending = ascending[np.append(True, ~repeated)]
    return ascending[~bits.test(ascending)]


def _one_by_one(trial: Bits, known: Sequence[AskedItems]) -> tuple[list[int], BitPositions]:
    """Acknowledge shares with long ranges among them: each on what those before it have set."""
    new: list[int] = []
    fresh: list[BitPositions] = []
    for own in known:
        single = _fresh(trial, np.concatenate([np.zeros(0, np.int64), *own.positions]))
        trial.set(single)
        fresh.append(single)
        new.append(len(single) + sum(trial.set_range(start, stop) for start, stop in own.ranges))
    return new, np.unique(np.concatenate(fresh))
