"""The types that programs see, under one name each: `from restante.client.surface import Hub`.

They are those for programs that wait, in process (`restante.open`) and over the network. Times are aware datetimes in
UTC, ids lower-case UUID text. The asynchronous twins have the same names, arguments and answers, with `await`,
`async with` and `async for` where these have none.
"""

from __future__ import annotations

from restante.client.batches.acknowledger_sync import Acknowledger
from restante.client.batches.batch_items import Items
from restante.client.batches.batches_sync import Batch, Batches
from restante.client.consignments.consignments_sync import Consignment
from restante.client.feed.feed_pages import FeedPage, SnapshotPage
from restante.client.feed.feed_sync import Feed, Snapshot
from restante.client.groups.groups_sync import Group, SharedPage
from restante.client.jobs.jobs_sync import Jobs
from restante.client.live.live_states import LiveStage, LiveState
from restante.client.live.live_sync import Live, LiveSent
from restante.client.publishing.pipeline_sync import Pipeline
from restante.client.sources.sources_sync import Sources
from restante.client.surface.recipient_sync import Bundle, Recipient
from restante.client.surface.sync import Hub, Producer
from restante.model.actions.action_answers import AcceptedAction, ActionProblem, ActionStatus, PoisonedAction
from restante.model.actions.action_row import ActionState
from restante.model.actions.wanted_action import WantedAction
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
