"""UUIDs without columns: as texts, whose type says how they are written, and ids made for a few messages.

A program that sends a single message need not wait for Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

_PATTERN = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

UuidText = Annotated[str, Meta(extra_json_schema={"format": "uuid", "pattern": _PATTERN})]


Random = Callable[[int], bytes]
"""A function that gives so many random bytes."""

RANDOM_BYTES_PER_ID = 8
"""How much randomness one made id takes."""

_BIG_WORDS = struct.Struct(">2Q")


def few_uuids(count: int, *, now_ms: int, random: bytes) -> list[bytes]:
    """The same ids that `uuids.made_uuids` makes, which takes longer for a few."""
    noises = struct.unpack(f"={count}Q", random)
    start = noises[0] >> 42 << 9 if count else 0
    return [
        _BIG_WORDS.pack(
            now_ms << 16 | 0x7000 | counter >> 20,
            1 << 63 | (counter & 0xFFFFF) << 42 | noise & (1 << 42) - 1,
        )
        for counter, noise in enumerate(noises, start)
    ]


def made_ids(count: int, random: Random, now_ms: int) -> list[str]:
    """Ids for a few messages, in ascending order."""
    made = few_uuids(count, now_ms=now_ms, random=random(count * RANDOM_BYTES_PER_ID))
    digits = [own.hex() for own in made]
    return [f"{own[:8]}-{own[8:12]}-{own[12:16]}-{own[16:20]}-{own[20:]}" for own in digits]
