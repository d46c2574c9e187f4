"""Questions and answers about batches, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from restante.model.uuid_text import UuidText


class Counting(Enum):
    """The ways to count the items of a batch. The texts are part of the stored format."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class BatchState(Enum):
    OPEN = "open"
    SEALED = "sealed"
    COMPLETE = "complete"


class Webhook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A webhook to call at the completion. Without a secret (`whsec_…`, base64 of 24 to 64 bytes) the hub makes one."""

    url: str
    secret: str | None = None


class BatchOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: UuidText
    key: str | None
    state: BatchState
    webhook_secret: str | None = None
    """The secret that the hub made, if it was asked for a webhook and given none. No other answer has it."""


class ItemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Items of a batch: `<batch>:<id>:0` to `<batch>:<id>:<upto - 1>`."""

    id: str
    upto: int


class ItemGroups(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[ItemGroup, ...]


class ItemRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items `start` to `upto` (exclusive) of a group, which is named `<batch>:<group>`."""

    group: str
    start: int = msgspec.field(name="from")
    upto: int


class ItemIndices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Items of one group, which is named `<batch>:<group>`, by their indices: a short way to write many ids."""

    group: str
    indices: list[int]


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    complete: bool


class CompleteBatch(msgspec.Struct, frozen=True, kw_only=True):
    id: UuidText
    key: str | None


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an acknowledgement: how many items were pending until then.

    With it which of the batches named are complete, now or since before, and what was not known, as it was sent.
    """

    acknowledged: int
    complete: tuple[CompleteBatch, ...]
    unknown: tuple[str | ItemRange, ...]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts to deliver the notice of a completion. `to`: webhook, or notify."""

    to: str
    attempts: int
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    problem: str | None


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A batch. `items` = those added by hand and the messages bound to it; `pending` = those not done yet."""

    id: UuidText
    key: str | None
    counting: Counting
    state: BatchState
    items: int
    pending: int
    acknowledged: int
    collected: int
    expired: int
    withdrawn: int
    duplicates: int
    duplicates_waiting: int
    opened_at: datetime
    sealed_at: datetime | None
    completed_at: datetime | None
    deliveries: tuple[Delivery, ...]


class BatchPage(msgspec.Struct, frozen=True, kw_only=True):
    batches: tuple[BatchStatus, ...]
    next: str | None


class PendingPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items by hand that are not acknowledged; `next` is the next `after`."""

    items: tuple[str, ...]
    next: str | None


class RecipientProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a batch in one mailbox. `waiting` includes what lies in an open bundle."""

    recipient: str
    collected: int
    waiting: int
    set_aside: int
    expired: int
    withdrawn: int
    oldest_waiting: datetime | None
    duplicates_waiting: int


class ProgressPage(msgspec.Struct, frozen=True, kw_only=True):
    recipients: tuple[RecipientProgress, ...]
    next: str | None


class ReapedBatch(msgspec.Struct, frozen=True, kw_only=True):
    id: UuidText
    key: str | None
    state: BatchState
    idle_since: datetime


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    batches: tuple[ReapedBatch, ...]


def is_complete(status: BatchStatus) -> bool:
    return status.state is BatchState.COMPLETE


def is_counted_elsewhere(status: BatchStatus) -> bool:
    """Whether another hub may count items of it, too: then it may complete without a commit of this hub."""
    return status.counting is Counting.ESTIMATED
