"""The hub: all use cases behind one door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from restante import limits
from restante.errors import InvalidRequest, Unavailable
from restante.hub import (
    backup,
    consignments,
    dequeue,
    erase,
    expiry,
    explain,
    filing,
    history,
    live_collect,
    peek,
    producers,
    removal,
    retention,
)
from restante.hub.acknowledging import plan_acknowledgements
from restante.hub.background import Background
from restante.hub.backup import BackupStream
from restante.hub.batch_calls import BatchCalls
from restante.hub.committer import Request
from restante.hub.consignment_calls import ConsignmentCalls
from restante.hub.content import content_of
from restante.hub.core import Core, parse_uuid, uuid_text
from restante.hub.feed_calls import FeedCalls
from restante.hub.in_process_live import HubDoor
from restante.hub.listing import Listings, Order
from restante.hub.opening import open_partitions
from restante.hub.planning import Plan
from restante.hub.publish import Publish, check_partition, large_publish, plan_publishes
from restante.hub.sent import check_messages, sent_columns
from restante.hub.staging_room import load_room
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
from restante.model.consignment_answers import Winner
from restante.model.message import Message, State
from restante.model.producer import ProducerNumbers, check_numbers
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.counters import Counters
from restante.ports.store import Store
from restante.ports.webhook import PostWebhook
from restante.settings import Settings
from restante.wire.live_lines import LiveDoor


class Hub(BatchCalls, ConsignmentCalls, FeedCalls):
    """An open hub. Every method may be called from any thread."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        origins: Mapping[str, OriginPort],
        clock: Clock,
        random: Callable[[int], bytes],
        counters: Counters | None = None,
        post_webhook: PostWebhook | None = None,
    ) -> None:
        deed, fence, partitions = open_partitions(store, settings, random)
        self._core = Core(store, settings, origins, clock, deed, fence, partitions, random)
        self._core.counters, self._core.post_webhook = counters, post_webhook
        self._core.staging = load_room(store, deed.partition_count)
        self._core.start(partial(_plan_jointly, self._core))
        consignments.tidy_leftovers(self._core)
        self._listings = Listings(self._core)
        self._background = Background(self._core)

    def close(self) -> None:
        """Finish what is under way, and let go of the store."""
        if self._core.closing.is_set():
            return
        self._core.closing.set()
        self._core.bell.ring_all()
        self._background.close()
        try:
            filing.drop_unreachable(self._core)
        except Unavailable:
            pass  # what is left is dropped when the store is opened again
        finally:
            self._core.committer.close()
            self._core.store.close()
            if self._core.counters is not None:
                self._core.counters.close()

    def request(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Publish:
        """A publish to be submitted. Many messages are checked here, in the caller's thread; few with their commit."""
        core = self._core
        check_partition(core, partition)
        if producer is not None:
            _check_numbered(producer, partition)
        bound = None if batch is None else parse_uuid(batch, "batch")
        if isinstance(sent, Message):
            return Publish((sent,), partition=partition, numbers=producer, batch=bound)
        if isinstance(sent, Sequence) and len(sent) <= limits.SMALL_SEND_MESSAGES_MAX:
            check_messages(sent)
            return Publish(tuple(sent), partition=partition, numbers=producer, batch=bound)
        columns = sent_columns(core, sent)
        return large_publish(core, columns, partition, producer, bound)

    def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt:
        """Publish messages; those newly stored become items of the batch, if one is named."""
        request = self.request(sent, partition=partition, producer=producer, batch=batch)
        self._background.relieve()
        return self._core.submit(request)

    def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt:
        self._background.relieve()
        return super().commit_consignment(consignment_id, writers)

    def publish_soon(
        self,
        sent: object,
        future: asyncio.Future[Request[Receipt]],
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> None:
        """Publish a few messages; the future gets the request, answered, in its own event loop."""
        request = self.request(sent, partition=partition, producer=producer, batch=batch)
        self._core.committer.submit_soon(request, future)

    def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState:
        """Take a producer group up, or a new one. Lower owner levels of it are fenced off at once."""
        check_partition(self._core, partition)
        return producers.link(
            self._core,
            partition,
            producer_group=producer_group,
            owner_level=owner_level,
            last_published_sequence_number=last_published_sequence_number,
        )

    def producer_state(self, partition: int, producer_group: int) -> ProducerState:
        check_partition(self._core, partition)
        return producers.state(self._core, partition, producer_group)

    def producer_states(self, partition: int, *, limit: int | None = None, after: str | None = None) -> ProducerPage:
        check_partition(self._core, partition)
        return producers.states(self._core, partition, limit, after)

    @property
    def crowded(self) -> bool:
        """Whether publishers have to wait, or to file: then not in an event loop."""
        return bool(self._core.overdue) or self._core.committer.full

    @property
    def closing(self) -> bool:
        return self._core.closing.is_set()

    def listening(self, recipient: str, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `ring` is called after each commit that concerns the recipient."""
        return self._core.bell.listening(self._core.address(recipient).hash, ring)

    @property
    def core(self) -> Core:
        """For those who build on the hub: doctor, tests, the asynchronous door."""
        return self._core

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
    ) -> BundleAnswer | None:
        core, address = self._core, self._core.address(recipient)
        asked = peek.wish(
            origins=origins,
            origin_groups=origin_groups,
            bundle_id=bundle_id,
            format=format,
            max_messages=max_messages,
            max_weight=max_weight,
        )
        found = peek.peek(core, address, asked, wait=wait)
        if found is None:
            return None
        content = None if found.row.inline else content_of(core, address, found)
        return BundleAnswer(
            bundle_id=uuid_text(found.bundle_id),
            recipient=recipient,
            origin=found.row.origin,
            kind=found.row.kind,
            document_types=found.document_types,
            message_count=found.row.count,
            table=found.table,
            content=None if content is None else content.data,
            media_type=None if content is None else content.media_type,
        )

    def dequeue(self, recipient: str, bundle_id: str) -> Dequeued:
        return self._core.submit(self._dequeue(recipient, bundle_id))

    def dequeue_soon(self, recipient: str, bundle_id: str, future: asyncio.Future[Request[Dequeued]]) -> None:
        """Dequeue; the future gets the request, answered, in its own event loop."""
        self._core.committer.submit_soon(self._dequeue(recipient, bundle_id), future)

    def _dequeue(self, recipient: str, bundle_id: str) -> Request[Dequeued]:
        return dequeue.request(self._core, self._core.address(recipient), parse_uuid(bundle_id, "bundle_id"))

    def live_collect(self, recipient: str, sequence_number: int) -> int:
        """All up to a number is collected, in the origin groups that are collected so; gives how many messages."""
        return live_collect.collect(self._core, self._core.address(recipient), sequence_number)

    def live(self, recipient: str, *, client: str | None = None) -> LiveDoor:
        """The way to a mailbox that is followed."""
        return HubDoor(self, recipient, client)

    def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation:
        return explain.explain(self._core, self._core.address(recipient), frozenset(origins), frozenset(origin_groups))

    def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,  # noqa: ARG002 - a hub counts the gaps of those who are connected to it
    ) -> HistoryPage:
        address = self._core.address(recipient)
        return history.history(self._core, address, after=after, before=before, state=state, limit=limit)

    def history_table(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
    ) -> tuple[pa.Table, int | None]:
        """A page of history as columns, and where the next begins."""
        address = self._core.address(recipient)
        return history.history_table(self._core, address, after=after, before=before, state=state, limit=limit)

    def find_table(self, recipient: str, message_id: str) -> pa.Table:
        return history.find_table(self._core, self._core.address(recipient), message_id)

    def find(self, recipient: str, message_id: str) -> Message:
        return history.find(self._core, self._core.address(recipient), message_id)

    def withdraw(self, recipient: str, message_id: str) -> None:
        removal.withdraw(self._core, self._core.address(recipient), message_id)

    def set_aside(self, recipient: str, message_id: str) -> None:
        removal.set_aside(self._core, self._core.address(recipient), message_id)

    def release(self, recipient: str, message_id: str) -> None:
        removal.release(self._core, self._core.address(recipient), message_id)

    def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        if before is not None and before.tzinfo is None:
            raise InvalidRequest("before must say its time zone.")
        until = None if before is None else round((before - _EPOCH).total_seconds() * 1_000_000)
        address = self._core.address(recipient)
        return removal.purge(self._core, address, origin=origin, kind=kind, before=until, dry_run=dry_run)

    def erase(self, recipient: str, *, dry_run: bool = False) -> int:
        return erase.erase(self._core, self._core.address(recipient), dry_run=dry_run)

    def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage:
        return self._listings.page(order, limit, after)

    def partitions(self) -> tuple[PartitionStatus, ...]:
        return tuple(
            PartitionStatus(
                partition=partition.number,
                visible_sequence=partition.counters.visible,
                waiting=partition.counters.waiting,
                unfiled=partition.unfiled,
            )
            for partition in self._core.partitions
        )

    def partition_of(self, recipient: str) -> int:
        return self._core.address(recipient).partition

    def file(self) -> int:
        return filing.file_all(self._core)

    def expire(self) -> int:
        return expiry.expire(self._core)

    def retain(self) -> int:
        # Who asks for it gets all of it, whatever was to be looked at later.
        self._core.producers_due.clear()
        self._core.staging.due = 0
        consignments.keep(self._core)
        return retention.retain(self._core)

    def backup(self) -> BackupStream:
        """All that was acknowledged before, as a stream of bytes; close it in any case."""
        return backup.backup(self._core)


def _plan_jointly(core: Core, plan: Plan, requests: Sequence[Request[object]]) -> Sequence[Request[object]]:
    return plan_acknowledgements(core, plan, plan_publishes(core, plan, requests))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _check_numbered(producer: ProducerNumbers, partition: int | None) -> None:
    check_numbers(producer)
    if partition is None:
        raise InvalidRequest("Numbers count in one partition: name it.")
