"""Groups over several shards: the copy of a definition that each partition has, and what home asks of the shards."""

from __future__ import annotations

import msgspec

from restante.decoders import packed_decoder
from restante.model.groups.fair_shares import NOBODY
from restante.model.groups.group import GroupRow
from restante.model.groups.group_position import PositionRow


class GroupCopy(msgspec.Struct, frozen=True, array_like=True):
    """A group as a partition knows it."""

    version: int
    row: GroupRow | None
    """None: it was deleted. That stays known, so that an older word of it is seen to be old."""


class PartitionMove(msgspec.Struct, frozen=True, array_like=True):
    """Gives a partition to a member, or to nobody, unless its generation has changed."""

    partition: int
    generation: int
    """Before. Each giving raises it, so a move that comes late or twice changes nothing."""
    member_id: bytes = NOBODY
    member: str = ""
    lost: str = ""
    """The name of the member that had it, if its lease has ended or another member took its place."""
    running: tuple[int, ...] = ()
    """The actions that the member said last that it works on there, by numbers."""
    said_seconds_ago: float = 0.0
    revision: int = 0
    """The number of that statement; 0: the member does not number."""


class PlacedPosition(msgspec.Struct, frozen=True, array_like=True):
    """The position of a group in a partition."""

    name: str
    partition: int
    row: PositionRow


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(GroupCopy)


def encode_copy(copy: GroupCopy) -> bytes:
    return _encoder.encode(copy)


def decode_copy(value: bytes) -> GroupCopy:
    return _decoder.decode(value)
