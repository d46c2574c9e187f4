"""The partition of a recipient is `fnv1a_64(recipient) % partition_count`, for ever. `Spread` says how evenly names spread.

FNV-1a with 64 bits is published, so that a program in any language can compute it. Modulo a power of two takes the low bits
of the hash. Sequential names (`user-1`, `user-2`, …) differ in their last bytes, which spreads the low bits better than
chance. Modulo any other number all bits matter, and similar names cluster: with 100,000 sequential names the spread is far
worse than chance from 250 partitions on. So a new data folder must have a power of two.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.errors import InvalidSettings
from restante.model.columns.hashing import Hashes, padded_bytes

FNV_OFFSET_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
_ROWS_AT_ONCE = 16_384


def fnv1a_64(content: bytes) -> int:
    """The FNV-1a hash of some bytes."""
    value = FNV_OFFSET_BASIS
    for byte in content:
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def partition_of(recipient: str, partition_count: int) -> int:
    return fnv1a_64(recipient.encode()) % partition_count


def partitions_of(recipients: pa.StringArray, partition_count: int) -> NDArray[np.int64]:
    """The partition of each recipient of a column."""
    return (fnv1a_64_column(recipients) % np.uint64(partition_count)).astype(np.int64)


def fnv1a_64_column(texts: pa.StringArray) -> Hashes:
    """The FNV-1a hash of each text, computed one byte position of all texts at a time."""
    values = np.empty(len(texts), np.uint64)
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        matrix, lengths = padded_bytes(texts.slice(start, _ROWS_AT_ONCE), 1)
        part = np.full(len(lengths), FNV_OFFSET_BASIS, np.uint64)
        for position in range(matrix.shape[1]):
            stepped = (part ^ matrix[:, position]) * np.uint64(FNV_PRIME)
            part = np.where(lengths > position, stepped, part)
        values[start : start + len(lengths)] = part
    return values


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The spread of names over partitions, compared with the same number in each."""

    names: int
    partition_count: int
    expected: float
    least: int
    most: int
    mean_deviation_percent: float
    worst_deviation_percent: float
    worst_partition: int
    chance_mean_deviation_percent: float
    """The mean deviation that randomly distributed names would have."""
    chi_squared: float
    z: float
    """How many standard deviations chi-squared is above that of chance; below 0 is more even than chance."""


def spread_of(counts: NDArray[np.int64]) -> Spread:
    """The spread of these numbers of names by partition. There must be at least one name."""
    names, partitions = int(counts.sum()), len(counts)
    expected = names / partitions
    deviations = np.abs(counts - expected) / expected * 100
    chi_squared = float(((counts - expected) ** 2).sum() / expected)
    freedom = partitions - 1
    return Spread(
        names=names,
        partition_count=partitions,
        expected=expected,
        least=int(counts.min()),
        most=int(counts.max()),
        mean_deviation_percent=float(deviations.mean()),
        worst_deviation_percent=float(deviations.max()),
        worst_partition=int(deviations.argmax()),
        chance_mean_deviation_percent=100 * math.sqrt(2 / math.pi * (1 - 1 / partitions) / expected),
        chi_squared=chi_squared,
        z=(chi_squared - freedom) / math.sqrt(2 * freedom) if freedom else 0.0,
    )


def check_new_count(partition_count: int) -> None:
    """Refuse a number of partitions that a new data folder must not have. Existing folders keep theirs."""
    most = limits.NEW_PARTITIONS_MAX
    if 1 <= partition_count <= most and is_power_of_two(partition_count):
        return
    below = min(2 ** (max(partition_count, 1).bit_length() - 1), most)
    near = f"{below:,}" if below == most else f"{below:,} or {2 * below:,}"
    raise InvalidSettings(
        f"partition_count must be a power of two from 1 to {most:,} for a new data folder, not {partition_count:,}: "
        f"other counts spread recipients unevenly. Use {near}.",
        parameter="partition_count",
    )


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
