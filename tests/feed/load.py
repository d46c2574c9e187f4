"""What the writers of the tests of readers send: the same from the same numbers."""

from __future__ import annotations

import random
import uuid

from restante.model.publishing.message import Message
from restante.settings import Settings

PARTITIONS = 2
SETTINGS = Settings(partition_count=PARTITIONS, housekeeping_seconds=0)
RECIPIENTS = tuple(f"recipient {number}" for number in range(4))
SIZES = (1, 1, 4, 70)


def parcel(writer: str, number: int) -> list[Message]:
    generator = random.Random(f"{writer} {number}")
    return [
        Message(
            recipient=generator.choice(RECIPIENTS),
            kind=generator.choice(["k", "l"]),
            id=str(uuid.UUID(int=generator.getrandbits(128))),
            data=f"{writer} {number} {index}".encode(),
        )
        for index in range(generator.choice(SIZES))
    ]
