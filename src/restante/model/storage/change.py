"""Change records say what became of messages. Each has its own sequence number in the partition's log.

A record concerns one cabinet. It is stored under its number, for the feed and for retention; an index by cabinet
(`Space.SETTLEMENT`) finds it for history.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from restante.decoders import packed_decoder
from restante.model.storage.head import NumberRange


class ChangeKind(Enum):
    """The kinds of changes. The texts are part of the stored format and of the feed."""

    COLLECTED = "collected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"
    RELEASED = "released"
    ERASED = "erased"
    BATCH_COMPLETED = "batch_completed"


class ChangeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A change of the cabinet's messages in `ranges`, except those in `left_out`, which were settled before."""

    kind: ChangeKind
    at: int
    recipient: str
    origin: str
    message_kind: str
    count: int
    ranges: tuple[NumberRange, ...]
    left_out: tuple[NumberRange, ...] = ()
    bundle_id: bytes = b""
    moved: bool = False
    """Whether the message in `ranges` was released to the end, where it has this change's number."""
    batch: bytes = b""
    """The completed batch, for a record in the partition of its id. Such a record concerns no cabinet."""
    key: str = ""
    apart: bool = False
    """Whether the message was collected out of turn, so that earlier ones of its cabinet may still wait."""
    aside: tuple[NumberRange, ...] = ()
    """The messages of `ranges` that were set aside until then. Retention may have removed the record that set them aside."""


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(ChangeRecord)


def encode_change(record: ChangeRecord) -> bytes:
    return _encoder.encode(record)


def decode_change(value: bytes) -> ChangeRecord:
    return _decoder.decode(value)
