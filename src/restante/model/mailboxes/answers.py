"""Answers of the hub, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from restante.model.publishing.message import Message

if TYPE_CHECKING:
    import pyarrow as pa

    from restante.model.mailboxes.few_rows import StoredLetter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    """A time of the hub as people see it."""
    return _EPOCH + timedelta(microseconds=microseconds)


class PartitionReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    partition: int
    first_sequence_number: int
    last_sequence_number: int


class LogPosition(msgspec.Struct, frozen=True, gc=False):
    """The place of messages of a send in the log of the backplane."""

    partition: int
    position: int
    messages: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcome of a send: accepted + duplicates + skipped = sent."""

    accepted: int
    duplicates: int
    partitions: tuple[PartitionReceipt, ...]
    replayed: bool = False
    """Whether the parcel was stored before, and this is what was answered then."""
    delayed: int = 0
    """How many of those accepted are kept aside until they are due."""
    skipped: int = 0
    """How many lie at or below the position of their source that is stored."""
    stored: bool = True
    """False: those accepted are in the backplane, and will be stored."""
    positions: tuple[LogPosition, ...] = ()
    """Where the messages are in the backplane, if they are not known to be stored."""


class ProducerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a producer group in a partition."""

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
    """The reason why a peek answers what it answers."""

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


class OpenBundle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    bundle_id: str
    origin: str
    origin_group: str
    messages: int
    opened_at: datetime
    taken_by: str | None = None
    """The name of the token whose peek opened it. None: the hub asked for none."""


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
    """A bundle as a hub answers it: the messages, a few as letters and others as columns; of a claim check what came for it."""

    bundle_id: str
    recipient: str
    origin: str
    kind: str
    document_types: tuple[str, ...]
    message_count: int
    columns: pa.Table | None = None
    few: tuple[StoredLetter, ...] = ()
    """The messages, if they are few, in place of `columns`."""
    content: bytes | None = None
    media_type: str | None = None

    @property
    def table(self) -> pa.Table:
        """The messages as Arrow columns; of a few, made each time."""
        from restante.model.mailboxes.few_rows import table_of  # noqa: PLC0415 - a receipt needs no columns

        return table_of(self.few) if self.columns is None else self.columns

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as values, made each time."""
        from restante.model.mailboxes.few_rows import messages_of  # noqa: PLC0415 - a receipt needs no columns
        from restante.model.mailboxes.message_tables import to_messages  # noqa: PLC0415

        return messages_of(self.few) if self.columns is None else to_messages(self.columns)
