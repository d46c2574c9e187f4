"""What the child of the crash tests stages: the same from the same names, so that a parent knows it too."""

from __future__ import annotations

import random
import uuid
import zlib
from typing import NamedTuple

from restante.model.consignments.consignment_answers import Winner
from restante.model.publishing.message import Message
from restante.settings import Settings

PARTITIONS = 4
SETTINGS = Settings(partition_count=PARTITIONS, housekeeping_seconds=0)
RECIPIENTS = tuple(f"recipient {number}" for number in range(6))
WRITERS = ("north", "east", "south", "west")
SIZES = (0, 1, 1, 7, 30, 300)
LARGE_BYTES = 30_000
"""A hundred of them do not fit into the database: they go into a file of their own."""


class Place(NamedTuple):
    """A parcel of a consignment, whatever the attempt: a writer that tries again writes the same."""

    key: str
    writer: str
    parcel: int


def parcels_of(key: str, writer: str) -> int:
    return random.Random(f"{key} {writer}").randint(1, 3)


def winning_attempt(key: str, writer: str) -> int:
    """The attempts before it are given up halfway."""
    return random.Random(f"{key} {writer} attempts").choice([0, 0, 1])


def order_of(key: str) -> list[str]:
    return random.Random(f"{key} order").sample(WRITERS, len(WRITERS))


def parcel(place: Place) -> list[Message]:
    """Its own messages, and now and then one that all writers of the consignment have."""
    generator = random.Random(repr(place))
    size = generator.choice(SIZES)
    large = size == 30 and generator.random() < 0.3
    own = [_message(place, f"{place} {index}", LARGE_BYTES if large else 10) for index in range(size)]
    return [*own, _message(place, f"{place.key} shared", 10)] if generator.random() < 0.3 else own


def _message(place: Place, name: str, length: int) -> Message:
    generator = random.Random(name)
    return Message(
        recipient=generator.choice(RECIPIENTS),
        kind=generator.choice(["k", "l"]),
        id=str(uuid.UUID(int=generator.getrandbits(128))),
        data=f"{zlib.crc32(name.encode())} of {place.key} ".encode() + b"x" * length,
    )


def staged_by(key: str, writer: str) -> list[list[Message]]:
    return [parcel(Place(key, writer, number)) for number in range(parcels_of(key, writer))]


def winners_of(key: str) -> list[Winner]:
    return [
        Winner(writer=writer, attempt=winning_attempt(key, writer), messages=sum(map(len, staged_by(key, writer))))
        for writer in order_of(key)
    ]


def messages_of(key: str) -> list[Message]:
    """All that a commit makes visible, in the order of its numbers; duplicates included."""
    return [message for writer in order_of(key) for messages in staged_by(key, writer) for message in messages]
