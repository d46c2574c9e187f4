"""Acknowledgements as they are written ahead: ascending positions by their distances, and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.model.columns.bits import BitPositions

_WIDTHS = ("u1", "<u2", "<u4", "<u8")


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    first: int
    """-1: there are no positions."""
    width: int
    distances: bytes
    ranges: tuple[tuple[int, int], ...] = ()


class AcknowledgedEntry(NamedTuple):
    """The items of a batch that one commit acknowledged."""

    positions: BitPositions
    ranges: Sequence[tuple[int, int]]


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(_Entry)


def united(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges (start, and one beyond the end) as few that do not touch each other, ascending."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def encode_entry(positions: BitPositions, ranges: Sequence[tuple[int, int]]) -> bytes:
    """Distances in the fewest bytes that hold the largest of them."""
    if not len(positions):
        return _encoder.encode(_Entry(-1, 0, b"", tuple(ranges)))
    distances = np.diff(positions)
    most = int(distances.max(initial=0))
    width = next(index for index in range(len(_WIDTHS)) if most < 256 ** (2**index))
    return _encoder.encode(_Entry(int(positions[0]), width, distances.astype(_WIDTHS[width]).tobytes(), tuple(ranges)))


def decode_entry(value: bytes) -> AcknowledgedEntry:
    try:
        entry = _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"An acknowledgement cannot be read: {error}. Run `restante doctor`.") from error
    if entry.first < 0:
        return AcknowledgedEntry(np.zeros(0, np.int64), entry.ranges)
    distances = np.frombuffer(entry.distances, _WIDTHS[entry.width]).astype(np.int64)
    return AcknowledgedEntry(np.cumsum(np.concatenate([[entry.first], distances])), entry.ranges)
