"""A batch whose messages lie in several shards: a part in each partition, and what home knows of the parts.

A partition is enlisted at home before it has a message of the batch. When the batch is sealed or deleted, home closes the
parts. A closed part takes no more and only shrinks; when nothing of it is pending, its counts are final, and reported.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from restante.decoders import packed_decoder
from restante.errors import BatchSealed
from restante.model.access.access import NO_OWNER, Grant, may_use
from restante.model.batches.batch import Counts, check_known, plus


class PartState(IntEnum):
    """The numbers are part of the stored format; they only rise."""

    OPEN = 0
    CLOSED = 1
    DELETED = 2


class BatchPart(msgspec.Struct, frozen=True, array_like=True):
    """A batch as a partition knows it that has messages of it, or may get some of it."""

    owner: bytes = NO_OWNER
    state: PartState = PartState.OPEN
    closed_at: int = 0


class EnlistedPart(msgspec.Struct, frozen=True, array_like=True):
    """A partition as home knows it: how far it was closed, and its final counts once they are reported."""

    state: PartState = PartState.OPEN
    final: Counts | None = None


_encoder = msgspec.msgpack.Encoder()
_parts = packed_decoder(BatchPart)
_enlisted = packed_decoder(EnlistedPart)
_UNKNOWN = Counts(added=1)
"""Stands for a part that has not reported: something of it may be pending."""


def encode_part(part: BatchPart | EnlistedPart) -> bytes:
    return _encoder.encode(part)


def decode_part(value: bytes) -> BatchPart:
    return _parts.decode(value)


def decode_enlisted(value: bytes) -> EnlistedPart:
    return _enlisted.decode(value)


def enlisted_key(batch_id: bytes, partition: int) -> bytes:
    """The partitions of a batch lie together."""
    return batch_id + partition.to_bytes(2, "big")


def key_partition(key: bytes) -> int:
    return int.from_bytes(key[-2:], "big")


def bound_only(counts: Counts) -> Counts:
    """The counts of messages, without those of items added by hand, which are counted at home."""
    return msgspec.structs.replace(counts, items=0, acknowledged=0)


def by_hand_only(counts: Counts) -> Counts:
    return Counts(items=counts.items, acknowledged=counts.acknowledged, active_at=counts.active_at)


def total_at_home(by_hand: Counts, parts: Iterable[EnlistedPart]) -> Counts:
    """All counts of a batch, as home knows them; something is pending as long as a part has not reported."""
    total = by_hand_only(by_hand)
    for part in parts:
        total = plus(total, _UNKNOWN if part.final is None else part.final)
    return total


def with_unreported(total: Counts) -> Counts | None:
    """The counts of a sealed batch that is not complete: if all seems done, one outcome, not reported yet, is pending.

    None if there is no outcome: then nothing is known that could be pending.
    """
    if total.bound_pending > 0:
        return total
    for outcome in ("collected", "expired", "withdrawn"):
        if left := getattr(total, outcome):
            return msgspec.structs.replace(total, **{outcome: left - 1})
    return None


def is_final(part: BatchPart, counts: Counts) -> bool:
    """Whether a part's counts stay what they are, and home is to hear of them."""
    return part.state is PartState.CLOSED and counts.bound_pending == 0


def check_takes(part: BatchPart, batch_id: bytes, caller: Grant) -> None:
    """`BatchUnknown` or `BatchSealed`, if a part takes no more from the caller."""
    if part.state is PartState.DELETED or not may_use(caller, part.owner):
        check_known(None, batch_id)
    if part.state is PartState.CLOSED:
        text = str(uuid.UUID(bytes=batch_id))
        raise BatchSealed(f"Batch {text} is sealed: nothing can be added. Open another one.", batch=text)
