"""The rounds in which a consignment over several shards is committed, as they are stored.

Home begins a round and names what counts. Each shard prepares: it judges, makes the final runs, and holds their messages.
If all can deliver, home decides, and each shard applies, once. A round that comes to nothing is ended, and the next one
has a higher number. A shard that is prepared lets go when home says so, never by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from restante.decoders import packed_decoder
from restante.model.consignments.consignment import StagedParcel, parcel_key

Numbered = tuple[int, int, int]
"""Partition, first and last number."""
PartCounts = tuple[int, int, int]
"""Partition, messages, duplicates."""


class RoundPhase(Enum):
    """The phases of a round. The texts are part of the stored format."""

    PREPARING = "preparing"
    DECIDED = "decided"
    RECORDED = "recorded"
    ENDED = "ended"


class RoundRow(msgspec.Struct, frozen=True, array_like=True):
    """The last round of a consignment, as home has it."""

    number: int
    phase: RoundPhase
    partitions: tuple[int, ...] = ()
    """The partitions that have something to deliver."""
    decided_at: int = 0
    parts: tuple[PartCounts, ...] = ()
    """The parts that the partitions promised."""
    applied: tuple[Numbered, ...] = ()
    """The partitions whose answers are recorded, with first and last number. First above last: nothing but duplicates."""

    @property
    def missing(self) -> list[int]:
        """The partitions that have not applied what was decided, as far as home knows."""
        if self.phase is not RoundPhase.DECIDED:
            return []
        done = {partition for partition, _, _ in self.applied}
        return [partition for partition in self.partitions if partition not in done]


class PreparedRow(msgspec.Struct, frozen=True, array_like=True):
    """The mail that a partition holds for a round, or has applied of it and home may still ask for."""

    round: int
    batch: bytes
    runs: tuple[int, ...]
    """The names of the final runs, in order."""
    staged: tuple[int, ...]
    """The names of the runs that they were made of."""
    messages: int
    duplicates: int
    first: int = 0
    last: int = -1
    applied: bool = False


class StagedPartRow(msgspec.Struct, frozen=True, array_like=True):
    """The part of a parcel that a partition has."""

    messages: int
    length: int
    identity: int


_encoder = msgspec.msgpack.Encoder()
_rounds = packed_decoder(RoundRow)
_prepared = packed_decoder(PreparedRow)
_staged = packed_decoder(StagedPartRow)


def encode_round(row: RoundRow | PreparedRow | StagedPartRow) -> bytes:
    return _encoder.encode(row)


def decode_round(value: bytes) -> RoundRow:
    return _rounds.decode(value)


def decode_prepared(value: bytes) -> PreparedRow:
    return _prepared.decode(value)


def decode_staged_part(value: bytes) -> StagedPartRow:
    return _staged.decode(value)


def staged_part_key(consignment_id: bytes, parcel: StagedParcel, digest: bytes) -> bytes:
    """A parcel that is staged again with other messages is another part: home names the run that counts."""
    return parcel_key(consignment_id, parcel) + digest


def next_round(before: RoundRow | None, partitions: Sequence[int]) -> RoundRow:
    return RoundRow(1 if before is None else before.number + 1, RoundPhase.PREPARING, tuple(partitions))


def phase_for(row: RoundRow | None, number: int, partitions: Sequence[int]) -> RoundPhase:
    """The phase that home answers when a shard asks what became of a round."""
    if row is None or row.number > number or row.phase is RoundPhase.ENDED:
        return RoundPhase.ENDED
    if row.phase is RoundPhase.DECIDED and not set(row.missing) & set(partitions):
        return RoundPhase.RECORDED
    return row.phase


def is_held_for(row: PreparedRow, batch_id: bytes) -> bool:
    """Whether messages of a batch are promised, and not bound to it yet: they are pending."""
    return row.batch == batch_id and not row.applied
