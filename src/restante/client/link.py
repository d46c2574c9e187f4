"""The link: what the surface needs of a hub, in process or far away. Both surfaces are written once, over this."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, Protocol

from restante.model.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    ProducerPage,
    ProducerState,
    Receipt,
    RecipientPage,
)
from restante.model.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    ItemGroups,
    ItemIndices,
    ItemRange,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
    Webhook,
)
from restante.model.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    Staged,
    Winner,
)
from restante.model.feed_answers import EVERYTHING, FeedAnswer, FeedWish, SnapshotAnswer
from restante.model.items import Call
from restante.model.message import Message, State
from restante.model.producer import ProducerNumbers
from restante.wire.live_lines import AsyncLiveDoor, LiveDoor

Order = Literal["waiting", "oldest"]


class Link(Protocol):
    """A connection to a hub whose calls wait for their answers."""

    def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt: ...
    def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState: ...
    def producer_state(self, partition: int, producer_group: int) -> ProducerState: ...
    def producer_states(
        self, partition: int, *, limit: int | None = None, after: str | None = None
    ) -> ProducerPage: ...
    def peek(
        self,
        recipient: str,
        *,
        origins: Collection[str] = (),
        origin_groups: Collection[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,  # the contract's name
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> BundleAnswer | None: ...
    def dequeue(self, recipient: str, bundle_id: str) -> Dequeued: ...
    def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation: ...
    def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,
    ) -> HistoryPage: ...
    def find(self, recipient: str, message_id: str) -> Message: ...
    def withdraw(self, recipient: str, message_id: str) -> None: ...
    def set_aside(self, recipient: str, message_id: str) -> None: ...
    def release(self, recipient: str, message_id: str) -> None: ...
    def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int: ...
    def erase(self, recipient: str, *, dry_run: bool = False) -> int: ...
    def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage: ...
    def partitions(self) -> tuple[PartitionStatus, ...]: ...
    def partition_of(self, recipient: str) -> int: ...
    def open_batch(
        self,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened: ...
    def add_items(self, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups: ...
    def seal_batch(self, batch_id: str) -> Sealed: ...
    def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged: ...
    def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]: ...
    def batch_status(self, batch_id: str) -> BatchStatus: ...
    def batches(
        self,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage: ...
    def pending_items(self, batch_id: str, *, limit: int | None = None, after: str | None = None) -> PendingPage: ...
    def batch_progress(
        self, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage: ...
    def wait_batch(self, batch_id: str, seconds: float) -> BatchStatus | None: ...
    def delete_batch(self, batch_id: str) -> None: ...
    def reap_batches(self, *, dry_run: bool = False) -> Reaped: ...
    def open_consignment(self, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened: ...
    def stage(self, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int) -> Staged: ...
    def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt: ...
    def discard_consignment(self, consignment_id: str) -> None: ...
    def consignment(self, consignment_id: str) -> ConsignmentDetails: ...
    def consignments(
        self,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage: ...
    def feed(
        self,
        partition: int,
        *,
        after: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
        wait: float = 0,
        reader: str | None = None,
    ) -> FeedAnswer: ...
    def snapshot(
        self,
        partition: int,
        *,
        after: str | None = None,
        position: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer: ...
    def live(self, recipient: str, *, client: str | None = None) -> LiveDoor: ...
    def file(self) -> int: ...
    def expire(self) -> int: ...
    def retain(self) -> int: ...
    def close(self) -> None: ...


class AsyncLink(Protocol):
    """The same for asynchronous programs."""

    async def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt: ...
    async def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState: ...
    async def producer_state(self, partition: int, producer_group: int) -> ProducerState: ...
    async def producer_states(
        self, partition: int, *, limit: int | None = None, after: str | None = None
    ) -> ProducerPage: ...
    async def peek(
        self,
        recipient: str,
        *,
        origins: Collection[str] = (),
        origin_groups: Collection[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,  # the contract's name
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> BundleAnswer | None: ...
    async def dequeue(self, recipient: str, bundle_id: str) -> Dequeued: ...
    async def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation: ...
    async def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,
    ) -> HistoryPage: ...
    async def find(self, recipient: str, message_id: str) -> Message: ...
    async def withdraw(self, recipient: str, message_id: str) -> None: ...
    async def set_aside(self, recipient: str, message_id: str) -> None: ...
    async def release(self, recipient: str, message_id: str) -> None: ...
    async def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int: ...
    async def erase(self, recipient: str, *, dry_run: bool = False) -> int: ...
    async def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage: ...
    async def partitions(self) -> tuple[PartitionStatus, ...]: ...
    async def partition_of(self, recipient: str) -> int: ...
    async def open_batch(
        self,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened: ...
    async def add_items(self, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups: ...
    async def seal_batch(self, batch_id: str) -> Sealed: ...
    async def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged: ...
    async def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]: ...
    async def batch_status(self, batch_id: str) -> BatchStatus: ...
    async def batches(
        self,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage: ...
    async def pending_items(
        self, batch_id: str, *, limit: int | None = None, after: str | None = None
    ) -> PendingPage: ...
    async def batch_progress(
        self, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage: ...
    async def wait_batch(self, batch_id: str, seconds: float) -> BatchStatus | None: ...
    async def delete_batch(self, batch_id: str) -> None: ...
    async def reap_batches(self, *, dry_run: bool = False) -> Reaped: ...
    async def open_consignment(self, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened: ...
    async def stage(self, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int) -> Staged: ...
    async def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt: ...
    async def discard_consignment(self, consignment_id: str) -> None: ...
    async def consignment(self, consignment_id: str) -> ConsignmentDetails: ...
    async def consignments(
        self,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage: ...
    async def feed(
        self,
        partition: int,
        *,
        after: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
        wait: float = 0,
        reader: str | None = None,
    ) -> FeedAnswer: ...
    async def snapshot(
        self,
        partition: int,
        *,
        after: str | None = None,
        position: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer: ...
    def live(self, recipient: str, *, client: str | None = None) -> AsyncLiveDoor: ...
    async def file(self) -> int: ...
    async def expire(self) -> int: ...
    async def retain(self) -> int: ...
    async def close(self) -> None: ...
