"""Change records: what became of messages, each with its own sequence number in the partition's log.

A record speaks of one cabinet. It is kept under its number, for the feed and for retention, and found by its cabinet
through an index of settlements, for history.
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
    """`ranges` say which messages of the cabinet, less those `left_out` (settled before)."""

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
    """Released to the end: the message in `ranges` lives on under the number of this change."""
    batch: bytes = b""
    """The batch that was completed, in the partition of its id; such a record speaks of no cabinet."""
    key: str = ""
    apart: bool = False
    """Collected before an earlier one of its cabinet was: what lies before it may still wait."""
    aside: tuple[NumberRange, ...] = ()
    """The messages of `ranges` that were set aside until then: retention may have removed the record that said so."""


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(ChangeRecord)


def encode_change(record: ChangeRecord) -> bytes:
    return _encoder.encode(record)


def decode_change(value: bytes) -> ChangeRecord:
    return _decoder.decode(value)
