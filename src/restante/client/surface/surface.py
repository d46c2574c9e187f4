"""The surface that programs see: the same in process (`restante.open`) and over the network.

Times are aware datetimes in UTC, ids lower-case UUID text. The asynchronous twin (`restante.aio.open`) has the same
names, arguments and answers, with `await`, `async with` and `async for` where these have none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, Unpack

import pyarrow as pa
from msgspec import UNSET

from restante.calls.mailboxes import Order
from restante.client.batches.batch_items import Items
from restante.client.batches.batch_surface import Acknowledger, Batch, Batches
from restante.client.batches.batch_view import BatchName
from restante.client.consignments.consignment_surface import Consignment
from restante.client.feed.feed_pages import FeedPage, SnapshotPage
from restante.client.feed.feed_surface import Feed, Snapshot
from restante.client.groups.group_surface import Group, SharedPage
from restante.client.jobs.job_surface import Jobs
from restante.client.live.live_states import LiveStage, LiveState
from restante.client.live.live_surface import Live, LiveSent
from restante.client.publishing.sendable import MessageFields
from restante.client.sources.source_surface import Sources
from restante.limits import FEED_LINGER_SECONDS
from restante.model.actions.action_answers import AcceptedAction, ActionProblem, ActionStatus, PoisonedAction
from restante.model.actions.action_row import ActionState
from restante.model.actions.wanted_action import WantedAction
from restante.model.backplane.accept import AcceptName
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchState,
    BatchStatus,
    CompleteBatch,
    Counting,
    Delivery,
    ItemGroup,
    ItemRange,
    ReapedBatch,
    RecipientProgress,
    Webhook,
)
from restante.model.consignments.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentState,
    ConsignmentStatus,
    StagedAttempt,
    Winner,
)
from restante.model.groups.group import Gone, Start
from restante.model.groups.group_answers import GroupPartition, GroupStatus, MemberStatus
from restante.model.jobs.job_answers import JobReport, JobRun, JobRunState, JobStatus, RunTable
from restante.model.mailboxes.answers import (
    Dequeued,
    Explanation,
    HistoryPage,
    OpenBundle,
    PartitionReceipt,
    PartitionStatus,
    Reason,
    Receipt,
    RecipientPage,
    RecipientSummary,
    Waiting,
)
from restante.model.publishing.message import Message, State
from restante.model.shards.node_answers import NodeMap, NodeState, NodeStatus, ShardState, ShardStatus
from restante.model.sources.source_answers import PartitionPosition, SourceStatus

__all__ = [
    "AcceptedAction",
    "Acknowledged",
    "Acknowledger",
    "ActionProblem",
    "ActionState",
    "ActionStatus",
    "Batch",
    "BatchState",
    "BatchStatus",
    "BatchWish",
    "Batches",
    "Bundle",
    "CompleteBatch",
    "Consignment",
    "ConsignmentDetails",
    "ConsignmentState",
    "ConsignmentStatus",
    "Counting",
    "Delivery",
    "Dequeued",
    "Explanation",
    "Feed",
    "FeedPage",
    "Gone",
    "Group",
    "GroupPartition",
    "GroupStatus",
    "HistoryPage",
    "Hub",
    "ItemGroup",
    "ItemRange",
    "Items",
    "JobReport",
    "JobRun",
    "JobRunState",
    "JobStatus",
    "Jobs",
    "Live",
    "LiveSent",
    "LiveStage",
    "LiveState",
    "MemberStatus",
    "Message",
    "NodeMap",
    "NodeState",
    "NodeStatus",
    "OpenBundle",
    "PartitionPosition",
    "PartitionReceipt",
    "PartitionStatus",
    "Pipeline",
    "PoisonedAction",
    "Producer",
    "ReapedBatch",
    "Reason",
    "Receipt",
    "Recipient",
    "RecipientPage",
    "RecipientProgress",
    "RecipientSummary",
    "RunTable",
    "Sendable",
    "ShardState",
    "ShardStatus",
    "SharedPage",
    "Snapshot",
    "SnapshotPage",
    "SourceStatus",
    "Sources",
    "StagedAttempt",
    "Start",
    "State",
    "Waiting",
    "WantedAction",
    "Webhook",
    "Winner",
]

Sendable = object
"""A message, a dict of its fields, a CloudEvent, a list of any of these, or a frame (an Arrow table, pandas, polars)."""


class Bundle(Protocol):
    """The answer of a peek. Inline: `messages` (values), `table` (Arrow columns; `raw_table`: ids as bytes); claim check: `content`."""

    bundle_id: str
    recipient: str
    origin: str
    kind: str
    document_types: tuple[str, ...]
    message_count: int

    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def table(self) -> pa.Table: ...
    @property
    def raw_table(self) -> pa.Table: ...
    @property
    def content(self) -> bytes | None: ...
    @property
    def media_type(self) -> str | None: ...
    def dequeue(self) -> Dequeued: ...


class Recipient(Protocol):
    """One mailbox."""

    name: str

    def peek(
        self,
        *,
        origins: Sequence[str] = (),
        origin_groups: Sequence[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,  # the contract's name
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> Bundle | None:
        """The open bundle, or the next one; None when there is nothing (`explain` says why)."""
        ...

    def bundles(
        self,
        *,
        origins: Sequence[str] = (),
        origin_groups: Sequence[str] = (),
        max_messages: int | None = None,
        max_weight: int | None = None,
        idle: float | None = None,
    ) -> Iterator[Bundle]:
        """Bundle after bundle, waiting for mail in between, for ever or until `idle` seconds brought none.

        The caller dequeues each; asking for the next without having done so gives the same one again.
        """
        ...

    def dequeue(self, bundle_id: str) -> Dequeued: ...
    def explain(self, *, origins: Sequence[str] = (), origin_groups: Sequence[str] = ()) -> Explanation: ...
    def history(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | str | None = None,
        limit: int | None = None,
    ) -> HistoryPage: ...
    def find(self, message_id: str) -> Message: ...
    def withdraw(self, message_id: str) -> None: ...
    def set_aside(self, message_id: str) -> None: ...
    def release(self, message_id: str) -> None: ...
    def purge(
        self,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        all: bool = False,  # the contract's name
        dry_run: bool = False,
    ) -> int: ...
    def live(
        self,
        *,
        after: int | None = None,
        client: str | None = None,
        on_state: Callable[[LiveState], None] | None = None,
        on_echo: Callable[[Message], None] | None = None,
    ) -> Live:
        """Follow it: each message as it comes, once and in order, after the number `after`, or from now on."""
        ...

    def erase(self, *, dry_run: bool = False) -> int: ...


class Pipeline(Protocol):
    """Sends without waiting for each. Use it in a `with` statement, or close it."""

    def send(self, messages: object, *, batch: BatchName | None = None) -> Future[Receipt]:
        """Send messages: at once, unless too much is under way. They are stored in the order in which they are sent."""
        ...

    def room(self) -> None:
        """Wait until there is room for more."""
        ...

    def flush(self) -> None:
        """Wait until all that was sent so far has been answered. What came of it is in the futures."""
        ...

    def close(self) -> None:
        """Wait for all answers, and let go of the connection."""
        ...

    def abort(self) -> None:
        """Let go at once: what has not been answered fails. It may have been stored."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Producer(Protocol):
    """Sends messages. `partition` makes it a parcel to one partition: every recipient must belong to it.

    What is newly stored becomes items of `batch`, if one is named: a batch, or its id. With a `source` each message has a
    `source_position`, and what is stored of the source is skipped. With `accept="accepted"` the answer comes when the
    backplane has the messages.
    """

    def send(
        self,
        messages: object = UNSET,
        *,
        partition: int | None = None,
        batch: BatchName | None = None,
        source: str | None = None,
        accept: AcceptName | None = None,
        parcels: bool = False,
        progress: Callable[[int], object] | None = None,
        **fields: Unpack[MessageFields],
    ) -> Receipt: ...
    def pipeline(self) -> Pipeline:
        """Many small sends one after another, without waiting for each: stored in the order sent, and many together."""
        ...


class Hub(Protocol):
    """A hub, opened."""

    @property
    def producer(self) -> Producer: ...
    @property
    def batches(self) -> Batches: ...
    @property
    def sources(self) -> Sources: ...
    @property
    def jobs(self) -> Jobs: ...
    def send(
        self,
        messages: object = UNSET,
        *,
        partition: int | None = None,
        batch: BatchName | None = None,
        source: str | None = None,
        accept: AcceptName | None = None,
        parcels: bool = False,
        progress: Callable[[int], object] | None = None,
        **fields: Unpack[MessageFields],
    ) -> Receipt: ...
    def recipient(self, name: str) -> Recipient: ...
    def recipients(
        self,
        *,
        order: Order = "waiting",
        limit: int | None = None,
        after: str | None = None,
        search: str | None = None,
    ) -> RecipientPage: ...
    def partitions(self) -> tuple[PartitionStatus, ...]: ...
    def nodes(self) -> NodeMap: ...
    def partition_of(self, recipient: str) -> int: ...
    def consignment(self, key: str, *, batch: bool | BatchWish = False) -> Consignment:
        """A new one, or the one that has this key."""
        ...

    def consignments(
        self, *, state: ConsignmentState | str | None = None, key: str | None = None
    ) -> Iterator[ConsignmentStatus]: ...
    def feed(  # noqa: PLR0913 - all that a reader may say
        self,
        partitions: int | Collection[int] | None = None,
        after: Mapping[int, int] | None = None,
        *,
        origins: Collection[str] = (),
        kinds: Collection[str] = (),
        recipients: Collection[str] = (),
        columns: Collection[str] = (),
        follow: bool = False,
        limit: int | None = None,
        reader: str | None = None,
        linger_seconds: float = FEED_LINGER_SECONDS,
    ) -> Feed:
        """Every change, page by page; with `follow` also those to come."""
        ...

    def group(
        self,
        name: str,
        *,
        origins: Collection[str] = (),
        kinds: Collection[str] = (),
        start: Start | str = Start.BEGINNING,
        gone: Gone | str = Gone.REFUSE,
        actions: Collection[str] = (),
        member: str | None = None,
        limit: int | None = None,
    ) -> Group:
        """A consumer group, of which this program becomes a member."""
        ...

    def groups(self) -> Iterator[GroupStatus]: ...
    def act(
        self,
        action: str,
        *,
        concerns: str,
        data: object = UNSET,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
        wait: float = 0,
        correlation_id: str | None = None,
    ) -> ActionStatus:
        """Have something done: accepted at once, done later by a worker."""
        ...

    def act_all(
        self, actions: Iterable[WantedAction], *, batch: BatchName | None = None
    ) -> tuple[AcceptedAction, ...]: ...
    def outcome(self, action_id: str, *, concerns: str | None = None, wait: float = 0) -> ActionStatus: ...
    def snapshot(
        self,
        partitions: int | Collection[int] | None = None,
        *,
        positions: Mapping[int, int] | None = None,
        origins: Collection[str] = (),
        kinds: Collection[str] = (),
        recipients: Collection[str] = (),
        columns: Collection[str] = (),
        limit: int | None = None,
    ) -> Snapshot:
        """Every message that is stored, page by page, and the positions from which the feed goes on."""
        ...

    def file(self) -> int:
        """File everything that waits to be filed, now; gives the number of runs merged away."""
        ...

    def expire(self) -> int:
        """Settle what has expired, now; gives the number of messages."""
        ...

    def retain(self) -> int:
        """Remove what is past its retention, now; gives the number of messages that went out of history."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


for _protocol in (Bundle, Hub, Pipeline, Producer, Recipient):
    # They show themselves by the name under which programs import them.
    _protocol.__module__ = "restante.client.surface"
