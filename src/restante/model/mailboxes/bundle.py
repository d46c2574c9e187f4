"""The bundle that a peek takes: choosing the cabinet, filling the bundle.

A bundle takes the first message always, whatever its weight; if that message is not bundleable, the bundle has no other.
Further messages follow in order, while each is bundleable, travels the same way (inline or by claim check) and keeps the
weight within bounds. The first message that does not fit ends the bundle: none is skipped. Expired messages are passed, and
settled on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.decoders import packed_decoder
from restante.model.batches.bound_stretches import Share
from restante.model.columns.arrays import Numbers
from restante.model.storage.head import Head, NumberRange, waiting_mask
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.rows import BUNDLEABLE, INLINE


class BundleRow(msgspec.Struct, frozen=True, array_like=True):
    """A bundle as stored: its content depends on nothing else, not on the clock, on filing or on settings."""

    recipient: str
    origin: str
    kind: str
    first: int
    last: int
    count: int
    left_out: tuple[NumberRange, ...]
    opened_at: int
    inline: bool
    format: str = ""
    request_id: bytes = b""
    undelivered_at: int = 0
    """When the origin last failed to deliver the content; 0: it has not."""
    closed_at: int = 0
    change: int = 0
    batches: tuple[Share, ...] = ()
    """The shares of batches in its messages; they grow when duplicates of them are published while it is open."""
    taken_by: str = ""
    """The name of the token whose peek opened it; empty: the hub asked for none."""


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(BundleRow)


def encode_bundle(row: BundleRow) -> bytes:
    return _encoder.encode(row)


def decode_bundle(value: bytes) -> BundleRow:
    return _decoder.decode(value)


@dataclass(frozen=True, slots=True)
class BundleBounds:
    """The bounds of a bundle. `before`: strict order ends it before this sequence number."""

    messages: int = limits.BUNDLE_WEIGHT_KIB_MAX
    weight: int = limits.BUNDLE_WEIGHT_KIB_MAX
    before: int = 2**63 - 1


_YES, _NO = np.array([True]), np.array([False])


class FitColumns(NamedTuple):
    """The columns that decide whether a message fits."""

    numbers: Numbers
    weight: NDArray[np.int32]
    flags: NDArray[np.uint8]


@dataclass(slots=True)
class Filling:
    """A bundle being filled from the drawers of one cabinet, in order."""

    head: Head
    now: int
    bounds: BundleBounds
    taken: list[Numbers] = field(default_factory=list)
    expired: list[tuple[Numbers, NDArray[np.bool_]]] = field(default_factory=list)
    """For each drawer added its numbers, and which of them were passed because they have expired."""
    count: int = 0
    weight: int = 0
    inline: bool = True
    ended: bool = False

    def add(self, numbers: Numbers, records: RecordArray) -> None:
        """Take what fits of the next drawer."""
        if len(records) == 1:
            self._add_one(numbers, records)
            return
        waits = waiting_mask(self.head, numbers)
        fresh = records["expires_at"] > self.now
        candidates = waits & fresh
        own = FitColumns(numbers, records["weight"], records["flags"])
        if not candidates.all():
            own = FitColumns(numbers[candidates], own.weight[candidates], own.flags[candidates])
        fitting = self._fitting(own) if len(own.numbers) else 0
        passed = 2**63 - 1
        if fitting < len(own.numbers):
            self.ended, passed = True, int(own.numbers[fitting])
        self.taken.append(own.numbers[:fitting])
        self.expired.append((numbers, waits & ~fresh & (numbers < passed)))

    def _add_one(self, numbers: Numbers, records: RecordArray) -> None:
        """Take the one message of a drawer, if it fits; the same as `add` does, without columns."""
        number, row = int(numbers[0]), records[0]
        waits, fresh = bool(waiting_mask(self.head, numbers)[0]), int(row["expires_at"]) > self.now
        fits = waits and fresh and self._fits(number, int(row["weight"]), int(row["flags"]))
        self.ended = self.ended or (waits and fresh and not fits)
        self.taken.append(numbers if fits else numbers[:0])
        self.expired.append((numbers, _YES if waits and not fresh else _NO))

    def _fits(self, number: int, weight: int, flags: int) -> bool:
        """Whether a message still fits; the first one always does. If it does, it is counted."""
        bounds, begins = self.bounds, self.count == 0
        if begins:
            self.inline = bool(flags & INLINE)
            self.ended = self.ended or not flags & BUNDLEABLE
        elif (
            flags & (BUNDLEABLE | INLINE) != (BUNDLEABLE | INLINE if self.inline else BUNDLEABLE)
            or self.weight + weight > bounds.weight
            or number >= bounds.before
            or self.count >= bounds.messages
        ):
            return False
        self.count += 1
        self.weight += weight
        self.ended = self.ended or self.count >= bounds.messages
        return True

    def _fitting(self, own: FitColumns) -> int:
        """How many of these, one after another, still fit."""
        begins = self.count == 0
        if begins:
            self.inline = bool(own.flags[0] & INLINE)
        weights = np.cumsum(own.weight, dtype=np.int64) + self.weight
        wanted = BUNDLEABLE | INLINE if self.inline else BUNDLEABLE
        fits = (own.flags & (BUNDLEABLE | INLINE)) == wanted
        fits &= weights <= self.bounds.weight
        fits &= own.numbers < self.bounds.before
        fits[max(0, self.bounds.messages - self.count) :] = False
        if begins:
            fits[0] = True
            if not own.flags[0] & BUNDLEABLE:
                fits[1:], self.ended = False, True
        fitting = len(fits) if fits.all() else int(np.argmin(fits))
        self.count += fitting
        self.weight = int(weights[fitting - 1]) if fitting else self.weight
        self.ended = self.ended or self.count >= self.bounds.messages
        return fitting

    @property
    def first_taken(self) -> int:
        return int(next(part for part in self.taken if len(part))[0])

    @property
    def last_taken(self) -> int:
        return int(next(part for part in reversed(self.taken) if len(part))[-1])

    @property
    def expired_count(self) -> int:
        return sum(int(mask.sum()) for _, mask in self.expired)


def first_waiting(head: Head, numbers: Numbers, expires_at: NDArray[np.int64], now: int) -> int | None:
    """The first of a drawer's numbers that waits and has not expired."""
    waits = waiting_mask(head, numbers) & (expires_at > now)
    found = int(np.argmax(waits)) if len(waits) else 0
    return int(numbers[found]) if len(waits) and waits[found] else None
