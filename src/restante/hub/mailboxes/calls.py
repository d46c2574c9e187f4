"""The functions that carry out the calls about mailboxes."""

from __future__ import annotations

import pyarrow as pa

from restante.calls.batches import ReadProgress
from restante.calls.mailboxes import (
    Dequeue,
    Explain,
    FindMessage,
    ListPartitions,
    ListRecipients,
    PartitionOf,
    Peek,
    ReadHistory,
)
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core, parse_uuid, uuid_text
from restante.hub.engine.procedures import Functions
from restante.hub.mailboxes import dequeue, history, peek
from restante.hub.mailboxes.batch_progress import progress
from restante.hub.mailboxes.batch_slowest import slowest
from restante.hub.mailboxes.claim_checks import content_of
from restante.hub.mailboxes.explain import explain_mailbox
from restante.hub.mailboxes.recipient_list import HealthMail, Listings
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import ProgressPage
from restante.model.mailboxes.answers import (
    BundleAnswer,
    Dequeued,
    HistoryPage,
    PartitionStatus,
    Reason,
    RecipientPage,
)
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.message import Message


def peek_bundle(core: Core, call: Peek, caller: Grant) -> BundleAnswer | Reason:
    address = core.address(call.recipient)
    found = peek.peek(core, address, peek.wish(call, caller), wait=call.wait)
    if isinstance(found, Reason):
        return found
    content = None if found.row.inline else content_of(core, address, found)
    return BundleAnswer(
        bundle_id=uuid_text(found.bundle_id),
        recipient=call.recipient,
        origin=found.row.origin,
        kind=found.row.kind,
        document_types=found.document_types,
        message_count=found.row.count,
        columns=found.columns,
        few=found.few,
        content=None if content is None else content.data,
        media_type=None if content is None else content.media_type,
    )


def dequeue_request(core: Core, call: Dequeue) -> CommitRequest[Dequeued]:
    """A dequeue request, to be submitted."""
    return dequeue.request(core, core.address(call.recipient), parse_uuid(call.bundle_id, "bundle_id"))


def dequeue_bundle(core: Core, call: Dequeue, _: Grant) -> Dequeued:
    return core.submit(dequeue_request(core, call))


def history_page(core: Core, call: ReadHistory, _: Grant) -> HistoryPage:
    table, following = history_columns(core, call)
    return HistoryPage(messages=to_messages(table), next=following)


def history_columns(core: Core, call: ReadHistory) -> tuple[pa.Table, int | None]:
    """A page of history as columns, and the number from which the next page goes on."""
    return history.history_table(core, core.address(call.recipient), call)


def find_message(core: Core, call: FindMessage, _: Grant) -> Message:
    return history.find(core, core.address(call.recipient), call.message_id)


def list_recipients(core: Core, call: ListRecipients, _: Grant) -> RecipientPage:
    return core.memory(Listings).page(core, call)


def list_partitions(core: Core, _: ListPartitions, __: Grant) -> tuple[PartitionStatus, ...]:
    checks = core.memory(HealthMail)
    return tuple(
        PartitionStatus(
            partition=partition.number,
            visible_sequence=partition.counters.visible,
            waiting=partition.counters.waiting - checks.count(partition.number),
            unfiled=partition.unfiled,
        )
        for partition in core.partitions
    )


def read_progress(core: Core, call: ReadProgress, caller: Grant) -> ProgressPage:
    return (slowest if call.slowest else progress)(core, call, caller)


def partition_of(core: Core, call: PartitionOf, _: Grant) -> int:
    return core.address(call.recipient).partition


FUNCTIONS: Functions = {
    Peek: peek_bundle,
    Dequeue: dequeue_bundle,
    Explain: explain_mailbox,
    ReadHistory: history_page,
    FindMessage: find_message,
    ListRecipients: list_recipients,
    ListPartitions: list_partitions,
    PartitionOf: partition_of,
    ReadProgress: read_progress,
}
