"""Questions and answers about consignments, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from restante.model.batches.batch_answers import Webhook
from restante.model.mailboxes.answers import Receipt
from restante.model.uuid_text import UuidText


class ConsignmentState(Enum):
    """The texts are part of the stored format."""

    OPEN = "open"
    COMMITTED = "committed"
    DISCARDED = "discarded"


class BatchWish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The batch that a consignment opens, with the webhook and the recipient that get its completion."""

    webhook: Webhook | None = None
    notify: str | None = None


class ConsignmentOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: UuidText
    key: str
    state: ConsignmentState
    batch: UuidText | None = None
    """The id of the batch that its messages will be items of."""
    webhook_secret: str | None = None
    """The secret that the hub made, if it was asked for a webhook and given none. No other answer has it."""
    created: bool = True
    """Whether the consignment is new. On the wire the status of the answer says so."""


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """The number of messages that a staged parcel has, duplicates included."""

    staged: int


class Winner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attempt of a writer that counts, and how many messages it staged."""

    writer: str
    attempt: int
    messages: int


class StagedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that one attempt of a writer has staged."""

    writer: str
    attempt: int
    parcels: int
    messages: int
    bytes: int


class ConsignmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A consignment. A closed one has no staged messages any more."""

    id: UuidText
    key: str
    state: ConsignmentState
    batch: UuidText | None
    opened_at: datetime
    last_activity_at: datetime
    closed_at: datetime | None
    """When the consignment was committed or discarded."""
    staged_messages: int
    staged_bytes: int
    receipt: Receipt | None
    """The answer to the commit."""


class ConsignmentDetails(ConsignmentStatus, frozen=True, kw_only=True):
    """The status of a consignment with its attempts, by writer and attempt."""

    attempts: tuple[StagedAttempt, ...]


class ConsignmentPage(msgspec.Struct, frozen=True, kw_only=True):
    consignments: tuple[ConsignmentStatus, ...]
    next: str | None


class ConsignmentTotals(NamedTuple):
    """Counts of messages staged in all open consignments, and of those committed since the hub was opened."""

    open: int
    staged_bytes: int
    staged_messages: int
    committed: int
    accepted: int
    duplicates: int
