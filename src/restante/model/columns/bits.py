"""A bit for each item of a batch, set when it is acknowledged.

Positions go up to 10¹⁰, so bits lie in segments that are read only when they are needed. A segment of which no bit is set, or
every bit, takes no memory, and one of a small batch little. In the store a segment is cut into chunks whose size suits a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from restante.limits import BATCH_CHUNK_BITS

CHUNK_BYTES = BATCH_CHUNK_BITS // 8
SEGMENT_CHUNKS = 250
SEGMENT_BYTES = SEGMENT_CHUNKS * CHUNK_BYTES
SEGMENT_BITS = SEGMENT_BYTES * 8

BitPositions = NDArray[np.int64]
BitSegment = NDArray[np.uint8] | bool
"""The bits of a segment; or, if all of them are alike, what they are."""

_ROOM_MIN = 512
_MASKS = (np.uint8(1) << np.arange(8, dtype=np.uint8)).astype(np.uint8)


class Bits:
    """Bits by position. `load` gives a segment that is not in memory yet."""

    __slots__ = ("_load", "changed", "segments")

    def __init__(self, load: Callable[[int], BitSegment]) -> None:
        self._load = load
        self.segments: dict[int, BitSegment] = {}
        self.changed: dict[int, NDArray[np.bool_]] = {}
        """The chunks of each segment that were changed since they were last stored."""

    def trial(self) -> Bits:
        """A copy to be changed and, if all goes well, taken over: it copies only the segments that it touches."""
        return Bits(self._copy)

    def take_over(self, trial: Bits) -> None:
        self.segments.update(trial.segments)
        for number, chunks in trial.changed.items():
            self._chunks(number)[chunks] = True

    def segment(self, number: int) -> BitSegment:
        found = self.segments.get(number)
        if found is None:
            found = self.segments[number] = self._load(number)
        return found

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.segments.values() if not isinstance(part, bool))

    def test(self, positions: BitPositions) -> NDArray[np.bool_]:
        """For each of these ascending positions whether its bit is set."""
        known = np.zeros(len(positions), np.bool_)
        for number, low, high in _stretches(positions):
            part = self.segment(number)
            if isinstance(part, bool):
                known[low:high] = part
                continue
            at = positions[low:high] - number * SEGMENT_BITS
            if int(at[-1]) >> 3 >= len(part):
                at = at[: int(np.searchsorted(at, len(part) * 8))]
            known[low : low + len(at)] = (part[at >> 3] & _MASKS[at & 7]) != 0
        return known

    def set(self, positions: BitPositions) -> None:
        """Set the bits of these ascending positions."""
        for number, low, high in _stretches(positions):
            at = positions[low:high] - number * SEGMENT_BITS
            part = self._writable(number, int(at[-1]))
            if part is None:
                continue
            np.bitwise_or.at(part, at >> 3, _MASKS[at & 7])
            self._chunks(number)[at // BATCH_CHUNK_BITS] = True

    def set_range(self, start: int, stop: int) -> int:
        """Set the bits from `start` to `stop`; gives how many were not set before."""
        new = 0
        for number in range(start // SEGMENT_BITS, -(-stop // SEGMENT_BITS)):
            begin = number * SEGMENT_BITS
            low, high = max(start - begin, 0), min(stop - begin, SEGMENT_BITS)
            new += self._set_whole(number) if high - low == SEGMENT_BITS else self._set_part(number, low, high)
        return new

    def unset(self, start: int, stop: int, limit: int) -> BitPositions:
        """The first positions from `start` to `stop` whose bits are not set, at most `limit`."""
        found: list[BitPositions] = []
        left = limit
        while left > 0 and start < stop:
            number, offset = divmod(start, SEGMENT_BITS)
            begin, length = number * SEGMENT_BITS, min(stop - start, SEGMENT_BITS - offset)
            part = self.segment(number)
            if part is not True:
                clear = _clear(part, offset, offset + length, left)
                found.append(clear + begin)
                left -= len(clear)
            start += length
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _copy(self, number: int) -> BitSegment:
        part = self.segment(number)
        return part if isinstance(part, bool) else part.copy()

    def _chunks(self, number: int) -> NDArray[np.bool_]:
        chunks = self.changed.get(number)
        if chunks is None:
            chunks = self.changed[number] = np.zeros(SEGMENT_CHUNKS, np.bool_)
        return chunks

    def _writable(self, number: int, last: int) -> NDArray[np.uint8] | None:
        """The segment as bytes to write to, up to its bit `last`; None if all of its bits are set."""
        part = self.segment(number)
        if part is True:
            return None
        if isinstance(part, bool):
            part = self.segments[number] = np.zeros(_room(last >> 3, 0), np.uint8)
        elif last >> 3 >= len(part):
            more = np.zeros(_room(last >> 3, len(part)) - len(part), np.uint8)
            part = self.segments[number] = np.concatenate([part, more])
        return part

    def _set_whole(self, number: int) -> int:
        part = self.segment(number)
        if part is True:
            return 0
        new = SEGMENT_BITS - (0 if isinstance(part, bool) else _ones(part))
        self.segments[number] = True
        self._chunks(number)[:] = True
        return new

    def _set_part(self, number: int, low: int, high: int) -> int:
        part = self._writable(number, high - 1)
        if part is None:
            return 0
        self._chunks(number)[low // BATCH_CHUNK_BITS : -(-high // BATCH_CHUNK_BITS)] = True
        first, last = low >> 3, (high - 1) >> 3
        window = part[first : last + 1]
        masks = np.full(len(window), 255, np.uint8)
        masks[0] &= np.uint8(0xFF & (0xFF << (low & 7)))
        masks[-1] &= np.uint8(0xFF >> (7 - ((high - 1) & 7)))
        new = high - low - _ones(window & masks)
        window |= masks
        return new


def _stretches(positions: BitPositions) -> Iterator[tuple[int, int, int]]:
    """Each segment that ascending positions fall into, with their first and last place (exclusive)."""
    if not len(positions):
        return
    first, last = int(positions[0]) // SEGMENT_BITS, int(positions[-1]) // SEGMENT_BITS
    if first == last:
        yield first, 0, len(positions)
        return
    numbers = np.arange(first, last + 1)
    borders = np.append(np.searchsorted(positions, numbers * SEGMENT_BITS), len(positions)).tolist()
    for number, low, high in zip(numbers.tolist(), borders[:-1], borders[1:], strict=True):
        if low < high:
            yield number, low, high


def _ones(part: NDArray[np.uint8]) -> int:
    return int(np.bitwise_count(part).sum(dtype=np.int64))


def _room(byte: int, before: int) -> int:
    """How long a segment is to be that reaches a byte: small batches take little, and growing is seldom."""
    return min(SEGMENT_BYTES, max(byte + 1, 2 * before, _ROOM_MIN))


def _clear(part: BitSegment, start: int, stop: int, limit: int) -> BitPositions:
    """The first bits of a segment from `start` to `stop` that are not set, at most `limit`."""
    if isinstance(part, bool):
        return np.arange(start, min(stop, start + limit), dtype=np.int64)
    first = start >> 3
    # Each byte that is not full has a bit that counts, except perhaps the first and the last.
    found = np.flatnonzero(part[first : -(-stop // 8)] != 255)[: limit + 2] + first
    bits = np.flatnonzero(np.unpackbits(part[found], bitorder="little") == 0)
    positions = found[bits >> 3].astype(np.int64) * 8 + (bits & 7)
    beyond = np.arange(max(start, len(part) * 8), min(stop, max(start, len(part) * 8) + limit), dtype=np.int64)
    positions = np.concatenate([positions, beyond])
    return positions[(positions >= start) & (positions < stop)][:limit]


def is_full(part: NDArray[np.uint8]) -> bool:
    return len(part) == SEGMENT_BYTES and bool((part == 255).all())


def chunk_of(part: NDArray[np.uint8], chunk: int) -> bytes:
    """A chunk as it is stored: without the zeros at its end."""
    return part[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES].tobytes().rstrip(b"\0")


def put_chunk(part: NDArray[np.uint8], chunk: int, value: bytes) -> None:
    start = chunk * CHUNK_BYTES
    part[start : start + len(value)] |= np.frombuffer(value, np.uint8)
