"""What the child of the crash tests sends: the same from the same numbers, so that a parent knows it too."""

from __future__ import annotations

import random
import uuid
from typing import NamedTuple

from restante.model.publishing.message import Message
from restante.settings import Settings

PARTITIONS = 4
RECIPIENTS = tuple(f"recipient {number}" for number in range(6))
ORIGINS = ("charges", "series")
SETTINGS = Settings(partition_count=PARTITIONS, housekeeping_seconds=0)
SIZES = (1, 1, 3, 20, 100)
LARGE_BYTES = 30_000
"""A hundred of them do not fit into the database: they go into a file of their own."""


class ParcelName(NamedTuple):
    """The parcels of a publisher are numbered, in each life of the child anew."""

    life: int
    publisher: int
    turn: int


def message_id(name: ParcelName, index: int) -> str:
    life, publisher, turn = name
    return str(uuid.UUID(int=(life << 96) | (publisher << 80) | (turn << 32) | index))


def parcel(name: ParcelName) -> list[Message]:
    generator = random.Random(repr(name))
    size = generator.choice(SIZES)
    filler = "x" * (LARGE_BYTES if size == SIZES[-1] and generator.random() < 0.3 else 10)
    return [
        Message(
            recipient=generator.choice(RECIPIENTS),
            origin=generator.choice(ORIGINS),
            kind=generator.choice(["k", "l"]),
            id=message_id(name, index),
            data=[*name, index, filler],
            weight=1 + len(filler) // 1_000,
        )
        for index in range(size)
    ]
