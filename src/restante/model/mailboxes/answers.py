"""What the hub answers, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from restante.model.publishing.message import Message

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    """A time of the hub as people see it."""
    return _EPOCH + timedelta(microseconds=microseconds)


class PartitionReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    partition: int
    first_sequence_number: int
    last_sequence_number: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a send: accepted + duplicates + skipped = sent."""

    accepted: int
    duplicates: int
    partitions: tuple[PartitionReceipt, ...]
    replayed: bool = False
    """It was stored before, and this is what was answered then."""
    delayed: int = 0
    """How many of those accepted are kept aside until they are due."""
    skipped: int = 0
    """How many lie at or below the position of their source that is stored."""


class ProducerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the hub knows of a producer group in a partition."""

    partition: int
    producer_group: int
    owner_level: int
    last_published_sequence_number: int | None
    last_activity_at: datetime
    replays: int
    fenced_attempts: int
    owner: str | None = None
    """Tells groups apart that have the same number; the same for all groups of one owner. None: nobody owns it."""


class ProducerPage(msgspec.Struct, frozen=True, kw_only=True):
    producers: tuple[ProducerState, ...]
    next: str | None


class Reason(Enum):
    """Why a peek answers what it answers."""

    READY = "ready"
    NOTHING_WAITING = "nothing_waiting"
    NOT_YET_VISIBLE = "not_yet_visible"
    BUNDLE_OPEN_IN_GROUP = "bundle_open_in_group"
    ORIGIN_DID_NOT_DELIVER = "origin_did_not_deliver"
    RECIPIENT_UNKNOWN = "recipient_unknown"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    origin: str
    kind: str
    messages: int
    oldest: datetime


class OpenBundle(msgspec.Struct, frozen=True, kw_only=True):
    bundle_id: str
    origin: str
    origin_group: str
    messages: int
    opened_at: datetime


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    reason: Reason
    text: str
    waiting: tuple[Waiting, ...]
    open_bundles: tuple[OpenBundle, ...]
    not_yet_visible: int


class RecipientSummary(msgspec.Struct, frozen=True, kw_only=True):
    recipient: str
    waiting: int
    oldest: datetime
    partition: int


class RecipientPage(msgspec.Struct, frozen=True, kw_only=True):
    recipients: tuple[RecipientSummary, ...]
    next: str | None
    as_of: datetime


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by ascending sequence number; `next` is the next `after` (with `before` alone: the next `before`)."""

    messages: tuple[Message, ...]
    next: int | None


class Dequeued(msgspec.Struct, frozen=True, kw_only=True):
    bundle_id: str
    messages: int


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    visible_sequence: int
    waiting: int
    unfiled: int


class BundleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle as a hub answers it: the messages as Arrow columns, and for a claim check what the origin delivered."""

    bundle_id: str
    recipient: str
    origin: str
    kind: str
    document_types: tuple[str, ...]
    message_count: int
    table: pa.Table
    content: bytes | None = None
    media_type: str | None = None
