"""A stored level of the index of identities: ascending fingerprints with the numbers of their messages.

A level is a small row that names its *parts*. Each part is a blob with one range of the fingerprints.

    ┌ front ──────────────────────────────────────┐┌ entries ─────────────────────────────────────────┐
    │ header │ starts │ shorts │ checks of blocks ││ 512 fingerprints │ their 512 offsets │ the next … │
    └─────────────────────────────────────────────┘└──────────────────────────────────────────────────┘
      a checksum of its own                          blocks, a checksum each (xxh3, 64 bits)

The upper bits of a fingerprint are its *bucket*; their number is chosen so that a bucket has 8 to 16 fingerprints. The next
16 bits are its *short*. The fronts stay in memory as a filter: `starts` says where each bucket begins, and `shorts` has 2
bytes for each entry. If a fingerprint's short is not in its bucket, the level certainly does not have the fingerprint. If
it is, which happens for one unknown fingerprint in 5,000, the index of the short is the rank of the entry, whose block is
then read.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from restante.decoders import packed_decoder
from restante.errors import DataDamaged, FormatUnsupported
from restante.limits import BLOB_BYTES_MAX
from restante.model.columns.hashing import Hashes
from restante.model.storage.changes import Buffer

Ranks = NDArray[np.int64]
"""Ranks of entries: their indices in a level's ascending fingerprints."""

FORMAT_VERSION = 1
BLOCK_ENTRIES = 512
PART_ENTRIES_MAX = 400_000
_BUCKET_ENTRIES = 16
_ENTRY_BYTES = 12
_PRINT_BYTES = 8
_SHORT_BITS = 16
_MAGIC = b"RSTI"
_START = struct.Struct("<4sHHQ")
_NUMBERS = struct.Struct("<4I")
_HEADER_BYTES = _START.size + _NUMBERS.size
"""Magic, version, reserved, checksum of the rest of the front; then entries, bucket bits, first bucket, buckets."""
_BITS_MAX = 28
_BLOCK_BYTES = BLOCK_ENTRIES * _ENTRY_BYTES

assert PART_ENTRIES_MAX * (_ENTRY_BYTES + 4) < BLOB_BYTES_MAX, "a part is a blob"


class PartRow(msgspec.Struct, frozen=True, array_like=True):
    blob: int
    length: int
    front: int
    entries: int


class LevelRow(msgspec.Struct, frozen=True, array_like=True):
    """The stored row of a level, kept under `identity`, the number of its first blob."""

    identity: int
    first: int
    last: int
    """The level has the fingerprints of all stored messages numbered `first` to `last`."""
    base: int
    """Entry i is of message number base + offset[i]."""
    bits: int
    """How many upper bits of a fingerprint select its bucket."""
    parts: tuple[PartRow, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(LevelRow)


def encode_level(row: LevelRow) -> bytes:
    return _encoder.encode(row)


def decode_level(value: bytes) -> LevelRow:
    """Decode a row; `DataDamaged` if it is invalid."""
    try:
        row = _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise DataDamaged("The row of a level of identities makes no sense.") from error
    if not (row.base >= 0 and 0 <= row.first <= row.last and row.parts and 1 <= row.bits <= _BITS_MAX):
        raise DataDamaged(f"The row of level {row.identity} of the identities makes no sense.")
    return row


@dataclass(frozen=True, slots=True, eq=False)
class StoredLevel:
    """A stored level as kept in memory: the joined fronts of its parts."""

    row: LevelRow
    starts: NDArray[np.uint32]
    """The rank of the first entry of each bucket, followed by the number of entries."""
    shorts: NDArray[np.uint16]
    checks: tuple[NDArray[np.uint64], ...]
    """The checksums of the blocks of each part."""
    part_ranks: Ranks
    """The rank of the first entry of each part, followed by the number of entries."""

    def __len__(self) -> int:
        return len(self.shorts)

    @property
    def base(self) -> int:
        return self.row.base

    @property
    def first(self) -> int:
        return self.row.first

    @property
    def last(self) -> int:
        return self.row.last


class PartFront(NamedTuple):
    """The decoded front of a part."""

    bits: int
    first_bucket: int
    starts: NDArray[np.uint32]
    """Where the buckets begin, counted from the part's first entry, followed by the number of entries."""
    shorts: NDArray[np.uint16]
    checks: NDArray[np.uint64]


class EncodedPart(NamedTuple):
    """A part ready to be written."""

    front: bytes
    entries: bytes
    size: int

    @property
    def length(self) -> int:
        return len(self.front) + len(self.entries)


def bits_for(entries: int) -> int:
    """How many upper bits of a fingerprint select its bucket, in a level of this size."""
    return min(_BITS_MAX, max(1, (max(entries, 1) - 1) // _BUCKET_ENTRIES).bit_length())


def part_bits_for(entries: int) -> int:
    """How many upper bits of a fingerprint select its part, in a level of this size."""
    return min(bits_for(entries), ((max(entries, 1) - 1) // PART_ENTRIES_MAX).bit_length())


def encode_part(
    fingerprint: Hashes, offset: NDArray[np.uint32], *, bits: int, part_bits: int, part: int
) -> EncodedPart:
    """Encode a part from its ascending fingerprints: all those of the level whose upper `part_bits` bits equal `part`."""
    buckets = 1 << (bits - part_bits)
    own = _buckets(fingerprint, bits) - part * buckets
    starts = np.zeros(buckets + 1, np.uint32)
    np.cumsum(np.bincount(own, minlength=buckets), out=starts[1:])
    entries = _encode_blocks(fingerprint, offset)
    checks = np.array(_sums(entries), np.uint64)
    tail = b"".join(
        [
            _NUMBERS.pack(len(fingerprint), bits, part * buckets, buckets),
            starts.tobytes(),
            _shorts(fingerprint, bits).tobytes(),
            checks.tobytes(),
        ]
    )
    return EncodedPart(
        _START.pack(_MAGIC, FORMAT_VERSION, 0, xxhash.xxh3_64_intdigest(tail)) + tail, entries, len(fingerprint)
    )


def _encode_blocks(fingerprint: Hashes, offset: NDArray[np.uint32]) -> bytes:
    whole = len(fingerprint) // BLOCK_ENTRIES
    border = whole * BLOCK_ENTRIES
    blocks = np.empty((whole, _BLOCK_BYTES), np.uint8)
    middle = BLOCK_ENTRIES * _PRINT_BYTES
    blocks[:, :middle] = fingerprint[:border].view(np.uint8).reshape(whole, middle)
    blocks[:, middle:] = offset[:border].view(np.uint8).reshape(whole, _BLOCK_BYTES - middle)
    return blocks.tobytes() + fingerprint[border:].tobytes() + offset[border:].tobytes()


def _sums(entries: Buffer) -> list[int]:
    view = memoryview(entries)
    return [xxhash.xxh3_64_intdigest(view[at : at + _BLOCK_BYTES]) for at in range(0, len(view), _BLOCK_BYTES)]


def _buckets(fingerprint: Hashes, bits: int) -> Ranks:
    return (fingerprint >> np.uint64(64 - bits)).astype(np.int64)


def _shorts(fingerprint: Hashes, bits: int) -> NDArray[np.uint16]:
    return (fingerprint >> np.uint64(64 - bits - _SHORT_BITS)).astype(np.uint16)


def decode_front(front: bytes, place: PartRow) -> PartFront:
    """Decode a front; `DataDamaged` for any invalid bytes."""
    if len(front) < _HEADER_BYTES or front[:4] != _MAGIC:
        raise DataDamaged("A blob is no part of the identities: it does not begin as one.")
    _, version, reserved, check = _START.unpack_from(front)
    if version != FORMAT_VERSION:
        raise FormatUnsupported(f"Identities have format version {version}; this program knows {FORMAT_VERSION}.")
    if reserved or xxhash.xxh3_64_intdigest(memoryview(front)[_START.size :]) != check:
        raise DataDamaged("The front of a part of the identities fails its checksum.")
    entries, bits, first, buckets = _NUMBERS.unpack_from(front, _START.size)
    blocks = -(-entries // BLOCK_ENTRIES)
    at = _HEADER_BYTES
    lengths = 4 * (buckets + 1), 2 * entries, 8 * blocks
    if entries != place.entries or len(front) != at + sum(lengths) or place.length != len(front) + 12 * entries:
        raise DataDamaged("The lengths of a part of the identities contradict each other.")
    starts = np.frombuffer(front, np.uint32, buckets + 1, at)
    if starts[0] or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
        raise DataDamaged("The buckets of a part of the identities make no sense.")
    shorts = np.frombuffer(front, np.uint16, entries, at + lengths[0])
    checks = np.frombuffer(bytearray(front[at + lengths[0] + lengths[1] :]), np.uint64)
    return PartFront(bits, first, starts, shorts, checks)


def assemble(row: LevelRow, fronts: Sequence[PartFront]) -> StoredLevel:
    """Assemble a level from the fronts of its parts; `DataDamaged` if they do not belong together."""
    following = 0
    for front in fronts:
        if front.bits != row.bits or front.first_bucket != following:
            raise DataDamaged(f"The parts of level {row.identity} of the identities do not belong together.")
        following += len(front.starts) - 1
    if following != 1 << row.bits:
        raise DataDamaged(f"Level {row.identity} of the identities lacks a part.")
    ranks = np.cumsum([0, *(len(front.shorts) for front in fronts)])
    starts = [front.starts[:-1] + np.uint32(rank) for front, rank in zip(fronts, ranks.tolist(), strict=False)]
    return StoredLevel(
        row,
        np.concatenate([*starts, np.array(ranks[-1:], np.uint32)]),
        np.concatenate([front.shorts for front in fronts]),
        tuple(front.checks for front in fronts),
        ranks,
    )


def may_have(level: StoredLevel, fingerprint: int) -> bool:
    """Whether a fingerprint may be in a level. False is certain."""
    bits, starts = level.row.bits, level.starts
    bucket = fingerprint >> (64 - bits)
    short = fingerprint >> (64 - bits - _SHORT_BITS) & 0xFFFF
    return short in level.shorts[starts.item(bucket) : starts.item(bucket + 1)].tolist()


def candidates(level: StoredLevel, fingerprints: Hashes) -> tuple[Ranks, Ranks, Ranks]:
    """The fingerprints that may be in a level, by index, with the first and last (exclusive) rank of their candidates."""
    bucket = _buckets(fingerprints, level.row.bits)
    short = _shorts(fingerprints, level.row.bits).astype(np.int32)
    low, end = level.starts[bucket].astype(np.int64), level.starts[bucket + 1].astype(np.int64)
    low = _lower_bound(level.shorts, low, end, short)
    inside = np.flatnonzero(low < end)
    index = inside[level.shorts[low[inside]] == short[inside]]
    low, end = low[index], end[index]
    return index, low, _lower_bound(level.shorts, low, end, short[index] + 1)


def _lower_bound(shorts: NDArray[np.uint16], low: Ranks, end: Ranks, wanted: NDArray[np.int32]) -> Ranks:
    """A binary search in many stretches at once: the first rank in [low, end) whose short is not below `wanted`."""
    last = max(len(shorts) - 1, 0)
    for _ in range(int((end - low).max(initial=0)).bit_length()):
        middle = (low + end) >> 1
        below = (shorts[np.minimum(middle, last)] < wanted) & (low < end)
        low, end = np.where(below, middle + 1, low), np.where(below, end, middle)
    return low


def bucket_ranks(level: StoredLevel, low: int, high: int) -> tuple[int, int]:
    """First and last (exclusive) rank of the buckets that hold all fingerprints from `low` to `high`."""
    shift = 64 - level.row.bits
    return int(level.starts[low >> shift]), int(level.starts[(high >> shift) + 1])


class BlockStretch(NamedTuple):
    """A stretch of neighbouring blocks of one part of a level."""

    part: int
    first_block: int
    blob: int
    offset: int
    length: int
    rank: int
    """The rank of the first entry in the stretch."""
    size: int


def stretches(level: StoredLevel, ranks: Ranks, *, gap: int, blocks_max: int) -> list[BlockStretch]:
    """The blocks that hold these ascending ranks. Gaps of at most `gap` blocks between them are read too."""
    part = np.searchsorted(level.part_ranks, ranks, side="right") - 1
    block = (ranks - level.part_ranks[part]) // BLOCK_ENTRIES
    change = (np.diff(part) != 0) | (np.diff(block) > gap + 1) | (np.diff(block // blocks_max) != 0)
    begins = np.append(0, np.flatnonzero(change) + 1)
    ends = np.append(begins[1:], len(ranks)) - 1
    triples = zip(part[begins].tolist(), block[begins].tolist(), block[ends].tolist(), strict=True)
    return [_stretch(level, *triple) for triple in triples]


def _stretch(level: StoredLevel, part: int, first: int, last: int) -> BlockStretch:
    place = level.row.parts[part]
    begin, end = first * BLOCK_ENTRIES, min((last + 1) * BLOCK_ENTRIES, place.entries)
    offset, rank = place.front + first * _BLOCK_BYTES, int(level.part_ranks[part]) + begin
    return BlockStretch(part, first, place.blob, offset, (end - begin) * _ENTRY_BYTES, rank, end - begin)


def decode_blocks(level: StoredLevel, stretch: BlockStretch, content: Buffer) -> tuple[Hashes, NDArray[np.uint32]]:
    """Fingerprints and offsets of some blocks; `DataDamaged` if one fails its checksum."""
    sums = np.array(_sums(content), np.uint64)
    if not np.array_equal(sums, level.checks[stretch.part][stretch.first_block :][: len(sums)]):
        raise DataDamaged(f"A block of level {level.row.identity} of the identities fails its checksum.")
    octets = np.frombuffer(content, np.uint8)
    whole = stretch.size // BLOCK_ENTRIES
    blocks, rest = octets[: whole * _BLOCK_BYTES].reshape(whole, _BLOCK_BYTES), octets[whole * _BLOCK_BYTES :]
    border = BLOCK_ENTRIES * _PRINT_BYTES
    left = (stretch.size - whole * BLOCK_ENTRIES) * _PRINT_BYTES
    prints = np.concatenate([blocks[:, :border].reshape(-1), rest[:left]]).view(np.uint64)
    return prints, np.concatenate([blocks[:, border:].reshape(-1), rest[left:]]).view(np.uint32)


def rank_bounds(level: StoredLevel) -> list[tuple[int, int]]:
    """First and last (exclusive) rank of each part."""
    ranks = level.part_ranks.tolist()
    return list(itertools.pairwise(ranks))
