"""Batches: opened, added to, sealed, acknowledged, looked at, waited for, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field

from restante.calls.call import Call, Count, Home, Seconds
from restante.limits import BATCH_ITEMS_MAX, BATCH_KEY_CHARACTERS_MAX, RECIPIENT_CHARACTERS_MAX
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    ItemGroups,
    ItemRange,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
    Webhook,
)
from restante.model.batches.items import Indices
from restante.model.uuid_text import UuidText


class OpenBatch(Call[BatchOpened], frozen=True, kw_only=True):
    """Open a batch. A repetition with the same id gets the same answer."""

    batch_id: UuidText | None = field(default=None, name="id")
    """The id that it is to have, so that the call may be repeated; the hub makes one if it is left out."""
    request_id: UuidText | None = None
    """The value that the hub makes the id from, if none is proposed: the same call again opens nothing more."""
    key: Annotated[str, Meta(min_length=1, max_length=BATCH_KEY_CHARACTERS_MAX)] | None = None
    """The caller's own name for it."""
    unique: bool = False
    """Refuse if another open batch has this key."""
    counting: Counting = Counting.EXACT
    webhook: Webhook | None = None
    """The webhook to call when the batch is complete."""
    notify: Annotated[str, Meta(min_length=1, max_length=RECIPIENT_CHARACTERS_MAX)] | None = None
    """The recipient who gets a message when it is complete."""


class AddItems(Call[ItemGroups], frozen=True):
    """Add items to a batch; the same `request_id` again adds nothing."""

    batch_id: str
    count: Annotated[int, Meta(ge=1, le=BATCH_ITEMS_MAX)]
    request_id: UuidText | None = None


class SealBatch(Call[Sealed], frozen=True):
    """No items are added to the batch any more."""

    batch_id: str


class AcknowledgeItems(Call[Acknowledged], frozen=True):
    """Say that items are done: named by their ids, by ranges, by their indices in a group, or all of these."""

    items: Sequence[str] = ()
    ranges: Sequence[ItemRange] = ()
    indices: Sequence[Indices] = ()


class AcknowledgeEach(Call[tuple[Acknowledged, ...]], frozen=True):
    """Several calls at once, each judged after those before it. A malformed one refuses them all."""

    calls: Sequence[AcknowledgeItems]


class ReadBatch(Call[BatchStatus], frozen=True):
    """Read the state and the counts of a batch."""

    batch_id: str


class ListBatches(Call[BatchPage], frozen=True, kw_only=True):
    """The batches, the newest first."""

    state: BatchState | None = None
    key: str | None = None
    limit: Count | None = None
    after: UuidText | None = None


class ListPendingItems(Call[PendingPage], frozen=True):
    """The items of a batch that are not acknowledged."""

    batch_id: str
    limit: Count | None = None
    after: str | None = None


class ReadProgress(Call[ProgressPage], frozen=True):
    """Read how far each recipient has come with the messages of a batch."""

    home = Home.ALL

    batch_id: str
    waiting: bool = False
    """Whether only recipients count that have not collected everything."""
    limit: Count | None = None
    after: str | None = None
    slowest: bool = False
    """Whether only recipients count that have not collected everything, those first whose oldest message has waited longest."""


class WaitForBatch(Call[BatchStatus | None], frozen=True):
    """The status of a batch as soon as it is complete; None if it is not within so many seconds."""

    batch_id: str
    seconds: Seconds = 0


class DeleteBatch(Call[None], frozen=True):
    """Delete a batch."""

    batch_id: str


class ReapBatches(Call[Reaped], frozen=True):
    """Delete the batches that are past their time."""

    dry_run: bool = False
