"""The position of a group in one partition, and the generation that fences those who had the partition before.

A generation is higher than every one before it, and at least the hub's time in whole seconds when it was given. So it
also ascends when an older backup was restored: generations that were given after that backup are lower.
"""

from __future__ import annotations

import msgspec

from restante.decoders import packed_decoder
from restante.errors import GenerationStale, PositionAhead
from restante.model.groups.fair_shares import NOBODY

_SECOND = 1_000_000


class PositionRow(msgspec.Struct, frozen=True, array_like=True):
    """The row of a group's position in a partition. It lies in the partition, and is fenced there."""

    generation: int = 0
    position: int = 0
    """The number up to which all changes are done with."""
    checkpoint_at: int = 0
    """When the position was written last; 0: never."""
    holder: bytes = NOBODY
    """The member that has the partition."""
    made_at: int = 0
    """When the group was made: one that was deleted and made again has another. 0: not noted then."""


def begun(before: PositionRow | None, position: int, made_at: int) -> PositionRow:
    """The position of a group that is made, maybe of one that was deleted before: generations go on."""
    return PositionRow(0 if before is None else before.generation, position, made_at=made_at)


def is_of(row: PositionRow, made_at: int) -> bool:
    """Whether a row is of the group that was made then, and not of one that had its name before."""
    if row.made_at:
        return row.made_at == made_at
    return bool(row.position or row.checkpoint_at or row.holder)


def given(row: PositionRow, member_id: bytes, now: int) -> PositionRow:
    """The partition is a member's from now on, under a new generation."""
    return msgspec.structs.replace(row, generation=_next_generation(row, now), holder=member_id)


def freed(row: PositionRow) -> PositionRow:
    """The partition is nobody's. Its last holder can write nothing more."""
    return msgspec.structs.replace(row, holder=NOBODY)


def ended(row: PositionRow) -> PositionRow:
    """The row of a deleted group: that its generations are used up is what stays."""
    return PositionRow(row.generation)


def reset(row: PositionRow, position: int, now: int) -> PositionRow:
    """The row after an operator has set the position. The member that has the partition keeps it, under a new generation."""
    return msgspec.structs.replace(row, generation=_next_generation(row, now), position=position, checkpoint_at=now)


def checkpointed(row: PositionRow, position: int, generation: int, *, end: int, now: int) -> PositionRow:
    """The row when all up to a position is done with; a lower position changes nothing. `end` is the last number of the log."""
    check_generation(row, generation)
    if position > end:
        raise PositionAhead(
            f"The feed ends at {end}, before {position}. A position is the last number that was done with.", end=end
        )
    if position <= row.position:
        return row
    return msgspec.structs.replace(row, position=position, checkpoint_at=now)


def check_generation(row: PositionRow, generation: int) -> None:
    """Raise `GenerationStale` unless a member has the partition under this generation."""
    if row.holder == NOBODY or generation != row.generation:
        raise GenerationStale(
            f"Generation {generation} has the partition no more; {row.generation} is in force. Nothing was changed. Ask "
            "with a heartbeat what is yours, and go on with that.",
            generation=row.generation,
        )


def _next_generation(row: PositionRow, now: int) -> int:
    return max(row.generation + 1, now // _SECOND)


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(PositionRow)


def encode_position(row: PositionRow) -> bytes:
    return _encoder.encode(row)


def decode_position(value: bytes) -> PositionRow:
    return _decoder.decode(value)
