"""The frame of a segment (header with all lengths, names, checksums), and `EncodedSegment`, ready to be written.

Nothing here needs Arrow, so code that joins small segments works without it.
"""

from __future__ import annotations

import struct

import msgspec
import xxhash

from restante.errors import DataDamaged, FormatUnsupported
from restante.limits import BLOCK_BYTES
from restante.model.storage.changes import Buffer

FORMAT_VERSION = 1
_MAGIC = b"RSTN"
_NUMBERS = struct.Struct("<8I")
_START = struct.Struct("<4sHHQ")
_HEADER = struct.Struct("<4sHHQ8I")
"""Magic, version, reserved, checksum of the rest of the frame, then rows, drawers, names, texts, properties, ledger and
data lengths, and the length of the frame."""
HEADER_BYTES = _HEADER.size
"""Where the names begin."""
assert _START.size + _NUMBERS.size == HEADER_BYTES


class EncodedSegment(msgspec.Struct, frozen=True):
    """A segment ready to be written: its front, and the rest of its bytes in order."""

    group: int
    rows: int
    front: bytes
    rest: tuple[Buffer, ...]
    length: int
    recipients: frozenset[int] | None = None
    """The hashes of all its recipients, if they are few."""

    @property
    def parts(self) -> tuple[Buffer, ...]:
        return (self.front, *self.rest)


def block_sums(content: Buffer) -> list[int]:
    view = memoryview(content).cast("B")
    digest = xxhash.xxh3_64_intdigest
    return [digest(view[at : at + BLOCK_BYTES]) for at in range(0, len(view), BLOCK_BYTES)]


def check_bytes(content: Buffer) -> bytes:
    """The checksums of the blocks in their stored form."""
    if 0 < len(content) <= BLOCK_BYTES and type(content) is bytes:
        return xxhash.xxh3_64_intdigest(content).to_bytes(8, "little")
    sums = block_sums(content)
    return struct.pack(f"<{len(sums)}Q", *sums)


def encode_frame(rows: int, lengths: tuple[int, int, int, int, int], names: bytes, checks: bytes) -> bytes:
    """Encode a frame. `lengths` are those of drawers, texts, properties, ledger and data."""
    drawers, texts, properties, ledger, data = lengths
    length = HEADER_BYTES + len(names) + len(checks)
    length += -length % 16
    numbers = _NUMBERS.pack(rows, drawers, len(names), texts, properties, ledger, data, length)
    tail = (numbers + names + checks).ljust(length - _START.size, b"\0")
    return _START.pack(_MAGIC, FORMAT_VERSION, 0, xxhash.xxh3_64_intdigest(tail)) + tail


def front_length(records_at: int, ledger: int) -> int:
    """How much of the ledger the front holds: the directory, up to the end of its last block, so that it can be verified."""
    return min(-(-records_at // BLOCK_BYTES) * BLOCK_BYTES, ledger)


def decode_header(front: bytes) -> tuple[int, ...]:
    """Verify the frame, and decode: rows, drawers, and the lengths of names, texts, properties, ledger, data and frame."""
    if len(front) < _HEADER.size or front[:4] != _MAGIC:
        raise DataDamaged("A blob is no segment: it does not begin as one.")
    _, version, reserved, check, *numbers = _HEADER.unpack_from(front)
    if version != FORMAT_VERSION:
        raise FormatUnsupported(f"A segment has format version {version}; this program knows {FORMAT_VERSION}.")
    frame = numbers[-1]
    if reserved or frame > len(front) or xxhash.xxh3_64_intdigest(front[_START.size : frame]) != check:
        raise DataDamaged("A segment's frame fails its checksum: none of its drawers can be read.")
    return tuple(numbers)
