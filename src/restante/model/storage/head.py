"""The head of a cabinet alone decides which of its messages wait.

A message waits ⇔ its number is visible, above its cabinet's `head`, and not listed in `apart`. `apart` lists the messages
that were settled out of turn, as ranges of sequence numbers. A range concerns only this cabinet's messages, so it may span
numbers of other cabinets. At or below `head`, only entries that still matter are listed, such as messages set aside, and
those withdrawn after that, until their retention ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.decoders import packed_decoder
from restante.model.columns.arrays import Numbers


class Apart(IntEnum):
    """The reasons to settle a message apart. Numbers are part of the stored format."""

    EXPIRED = 1
    WITHDRAWN = 2
    SET_ASIDE = 3
    GONE = 4
    """Past its retention, and no longer shown."""
    MOVED = 5
    """Released to the end of the mailbox, under a new number."""
    COLLECTED = 6
    """Collected before an earlier message of its cabinet, which happens only to actions."""


class NumberRange(msgspec.Struct, frozen=True, array_like=True):
    """Sequence numbers first to last, inclusive."""

    first: int
    last: int


class ApartRange(msgspec.Struct, frozen=True, array_like=True):
    first: int
    last: int
    why: Apart


class OpenMark(msgspec.Struct, frozen=True, array_like=True):
    """The open bundle of a cabinet. Recording it here keeps a message out of a second bundle when origins are regrouped."""

    bundle_id: bytes
    first: int
    last: int
    count: int
    opened_at: int


class Head(msgspec.Struct, frozen=True, array_like=True):
    head: int = 0
    """Everything up to this number is settled."""
    forgotten: int = 0
    """Everything up to this number, unless listed apart, is past its retention."""
    open: OpenMark | None = None
    apart: tuple[ApartRange, ...] = ()


EMPTY_HEAD = Head()
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(Head)


def encode_head(head: Head) -> bytes:
    return _encoder.encode(head)


def decode_head(value: bytes) -> Head:
    return _decoder.decode(value)


def apart_of(head: Head, numbers: Numbers) -> NDArray[np.int8]:
    """For each of the cabinet's numbers the reason why it is listed apart, or 0."""
    why = np.zeros(len(numbers), np.int8)
    for entry in head.apart:
        low, high = np.searchsorted(numbers, [entry.first, entry.last + 1])
        why[low:high] = entry.why
    return why


def waiting_mask(head: Head, numbers: Numbers) -> NDArray[np.bool_]:
    """Which of the cabinet's ascending numbers wait (expired or not, in an open bundle or not)."""
    beyond = np.greater(numbers, head.head)
    return np.logical_and(beyond, apart_of(head, numbers) == 0) if head.apart else beyond


def stored_mask(head: Head, numbers: Numbers) -> NDArray[np.bool_]:
    """Which of the cabinet's ascending numbers are still kept for history."""
    why = apart_of(head, numbers)
    shown: NDArray[np.bool_] = (numbers > head.forgotten) & (why == 0)
    for kept in (Apart.SET_ASIDE, Apart.WITHDRAWN, Apart.EXPIRED, Apart.COLLECTED):
        shown |= why == kept
    return shown


def ranges_of(chosen: NDArray[np.bool_], numbers: Numbers) -> tuple[NumberRange, ...]:
    """The chosen numbers as ranges. Numbers that are neighbours within the cabinet share a range."""
    edges = np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8))
    firsts, lasts = numbers[np.flatnonzero(edges == 1)], numbers[np.flatnonzero(edges == -1) - 1]
    return tuple(NumberRange(first, last) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True))


def in_ranges(ranges: Iterable[NumberRange], numbers: Numbers) -> NDArray[np.bool_]:
    """Which of the ascending numbers lie in these ranges."""
    inside = np.zeros(len(numbers), np.bool_)
    for entry in ranges:
        low, high = np.searchsorted(numbers, [entry.first, entry.last + 1])
        inside[low:high] = True
    return inside


def with_apart(apart: Iterable[ApartRange], ranges: Iterable[NumberRange], why: Apart | None) -> tuple[ApartRange, ...]:
    """The list with these ranges settled for reason `why`, replacing older entries; None makes them not settled."""
    added = list(ranges)
    kept = [piece for entry in apart for piece in _without(entry, added)]
    if why is not None:
        kept += [ApartRange(entry.first, entry.last, why) for entry in added]
    return tuple(sorted(kept, key=lambda entry: entry.first))


def _without(entry: ApartRange, ranges: list[NumberRange]) -> list[ApartRange]:
    pieces = [entry]
    for cut in ranges:
        pieces = [
            ApartRange(first, last, piece.why)
            for piece in pieces
            for first, last in (
                (piece.first, min(piece.last, cut.first - 1)),
                (max(piece.first, cut.last + 1), piece.last),
            )
            if first <= last
        ]
    return pieces


def advanced(head: Head, number: int) -> Head:
    """The head moved forward to `number`. Entries of expired, withdrawn and collected messages that it passes are dropped.

    These need no entries at or below the head: until their retention ends, their change records say what became of them.
    After that the list alone says it, with entries that retention adds.
    """
    if number <= head.head:
        return head
    passed = [NumberRange(head.head + 1, number)]
    folded = (Apart.EXPIRED, Apart.WITHDRAWN, Apart.COLLECTED)
    apart = [p for entry in head.apart for p in (_without(entry, passed) if entry.why in folded else [entry])]
    return msgspec.structs.replace(head, head=number, apart=tuple(apart))
