"""Mailboxes: collecting, looking, and where they lie."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from restante.calls.call import Call, Count, Number, Seconds
from restante.model.mailboxes.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    Reason,
    RecipientPage,
)
from restante.model.publishing.message import Message, State
from restante.model.uuid_text import UuidText

Order = Literal["waiting", "oldest"]


class Peek(Call[BundleAnswer | Reason], frozen=True):
    """The open bundle again, or the next one; why there is nothing, when there is nothing."""

    recipient: str
    origins: tuple[str, ...] = field(default=(), name="origin")
    origin_groups: tuple[str, ...] = field(default=(), name="origin_group")
    bundle_id: UuidText | None = None
    """The id that a new bundle is to have."""
    format: str | None = None
    """Handed to the origin of a claim-check bundle."""
    max_messages: Count | None = None
    max_weight: Count | None = None
    """The most that a bundle may weigh, in KiB."""
    wait: Seconds = 0
    """Seconds to wait until there is something."""


class Dequeue(Call[Dequeued], frozen=True):
    """Confirm a bundle: its messages are collected."""

    recipient: str
    bundle_id: str


class Explain(Call[Explanation], frozen=True):
    """Explain why a peek answers what it answers."""

    recipient: str
    origins: tuple[str, ...] = field(default=(), name="origin")
    origin_groups: tuple[str, ...] = field(default=(), name="origin_group")


class ReadHistory(Call[HistoryPage], frozen=True):
    """A page of a recipient's messages by sequence number, collected ones included."""

    recipient: str
    after: Number | None = None
    before: Number | None = None
    state: State | None = None
    limit: Count | None = None
    live_gap: int | None = None
    """How many messages are missing that were not pushed: a server counts the gaps of those who are connected to it."""
    without_data: bool = False
    """Leave the data of the messages out: for lists of them."""


class FindMessage(Call[Message], frozen=True):
    """One message of a recipient."""

    recipient: str
    message_id: str


class ListRecipients(Call[RecipientPage], frozen=True):
    """The recipients with waiting messages: those with most first, or the oldest."""

    order: Order = "waiting"
    limit: Count | None = None
    after: str | None = None
    search: str | None = None
    """A text that is in the names of the recipients, in upper or lower case."""


class ListPartitions(Call[tuple[PartitionStatus, ...]], frozen=True):
    """List the partitions, and how far each has come."""


class PartitionOf(Call[int], frozen=True):
    """The partition in which a recipient lives."""

    recipient: str
