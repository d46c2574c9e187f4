# Generated from `asynchronous.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""The surface for programs that wait: `Hub`, `Producer`, `Recipient` and `Bundle` over a link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from restante.calls.mailboxes import (
    Dequeue,
    Explain,
    FindMessage,
    ListPartitions,
    ListRecipients,
    Order,
    PartitionOf,
    Peek,
    ReadHistory,
)
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, Purge, Release, SetAside, Withdraw
from restante.calls.upkeep import ExpireNow, FileNow, RetainNow
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.batches.batches_sync import Batches
from restante.client.consignments.consignments_sync import Consignment, list_consignments, open_consignment
from restante.client.feed.feed_pages import reading_of, wish_of
from restante.client.feed.feed_sync import Feed, Snapshot
from restante.client.groups.group_view import group_reading
from restante.client.groups.groups_sync import Group, list_groups
from restante.client.live.live_arguments import client_of, following_of
from restante.client.live.live_states import LiveState
from restante.client.live.live_sync import Live
from restante.client.publishing.carriers_sync import CallCarrier, Carrier
from restante.client.publishing.pipeline_sync import Pipeline
from restante.client.surface.arguments import names, seconds, state_of, whole
from restante.client.surface.bundle_view import BundleView
from restante.client.transport.link import Link
from restante.limits import FEED_LINGER_SECONDS, WAIT_SECONDS_MAX
from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, ConsignmentStatus
from restante.model.groups.group import Gone, Start
from restante.model.groups.group_answers import GroupStatus
from restante.model.mailboxes.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    Reason,
    Receipt,
    RecipientPage,
)
from restante.model.publishing.message import Message, State


class Bundle(BundleView):
    def __init__(self, link: Link, answer: BundleAnswer) -> None:
        super().__init__(answer)
        self._link = link

    def dequeue(self) -> Dequeued:
        """Confirm it: the messages are collected, and the next bundle may come."""
        return self._link.call(Dequeue(self.recipient, self.bundle_id))


class Producer:
    def __init__(self, link: Link, carrier: Callable[[], Carrier] | None = None) -> None:
        self._link = link
        self._carrier = carrier

    def send(self, messages: object, *, partition: int | None = None, batch: BatchName | None = None) -> Receipt:
        """Store a message, a sequence of them, or an Arrow table or frame: all of it, or nothing.

        What is newly stored becomes items of `batch`, if one is named.
        """
        return self._link.call(Publish.of(messages, partition=partition, batch=batch_id_of(batch)))

    def pipeline(self) -> Pipeline:
        """Many small sends one after another, without waiting for each: stored in the order sent, and many together."""
        return Pipeline(CallCarrier(self._link.call) if self._carrier is None else self._carrier())


class Recipient:
    """One mailbox."""

    def __repr__(self) -> str:
        return f"<Recipient {self.name!r}>"

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self.name = name

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
        answer = self._link.call(
            Peek(
                self.name,
                origins=names("origins", origins),
                origin_groups=names("origin_groups", origin_groups),
                bundle_id=bundle_id,
                format=format,
                max_messages=whole("max_messages", max_messages),
                max_weight=whole("max_weight", max_weight),
                wait=seconds("wait", wait),
            )
        )
        return None if isinstance(answer, Reason) else Bundle(self._link, answer)

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

        Dequeue each; asking for the next without having done so gives the same one again.
        """
        left = idle
        while left is None or left >= 0:
            wait = WAIT_SECONDS_MAX if left is None else min(left, WAIT_SECONDS_MAX)
            bundle = self.peek(
                origins=origins,
                origin_groups=origin_groups,
                max_messages=max_messages,
                max_weight=max_weight,
                wait=wait,
            )
            if bundle is not None:
                left = idle
                yield bundle
            elif left is not None:
                left = left - wait if left > wait else -1

    def dequeue(self, bundle_id: str) -> Dequeued:
        return self._link.call(Dequeue(self.name, bundle_id))

    def explain(self, *, origins: Sequence[str] = (), origin_groups: Sequence[str] = ()) -> Explanation:
        """Why a peek answers what it answers."""
        return self._link.call(
            Explain(self.name, origins=names("origins", origins), origin_groups=names("origin_groups", origin_groups))
        )

    def history(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | str | None = None,
        limit: int | None = None,
    ) -> HistoryPage:
        """Messages by sequence number, collected ones included until their retention ends."""
        return self._link.call(
            ReadHistory(
                self.name,
                after=whole("after", after),
                before=whole("before", before),
                state=state_of(state),
                limit=whole("limit", limit),
            )
        )

    def find(self, message_id: str) -> Message:
        return self._link.call(FindMessage(self.name, message_id))

    def withdraw(self, message_id: str) -> None:
        """Take a message back before it is collected."""
        self._link.call(Withdraw(self.name, message_id))

    def set_aside(self, message_id: str) -> None:
        """Keep a message from being delivered, until it is released or withdrawn."""
        self._link.call(SetAside(self.name, message_id))

    def release(self, message_id: str) -> None:
        self._link.call(Release(self.name, message_id))

    def purge(
        self,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        all: bool = False,  # the contract's name
        dry_run: bool = False,
    ) -> int:
        """Withdraw what waits or is set aside and fits, or with `all` everything; gives how many messages."""
        return self._link.call(Purge(self.name, origin=origin, kind=kind, before=before, all=all, dry_run=dry_run))

    def live(
        self,
        *,
        after: int | None = None,
        client: str | None = None,
        on_state: Callable[[LiveState], None] | None = None,
        on_echo: Callable[[Message], None] | None = None,
    ) -> Live:
        """Follow the mailbox: each message as it comes, once and in order. `for message in recipient.live(after=0)`.

        It begins behind the number `after` (0: with all of history), or with what is published from now on; connections
        that are lost are made again. `on_state` hears how it stands, `on_echo` what this recipient sends elsewhere.
        The callbacks are called in a thread of it.
        """
        door = self._link.live(self.name, client=client_of(client))
        return Live(door, self._history, following_of(after, on_state, on_echo))

    def _history(self, *, after: int, before: int, limit: int, live_gap: int | None) -> HistoryPage:
        return self._link.call(ReadHistory(self.name, after=after, before=before, limit=limit, live_gap=live_gap))

    def erase(self, *, dry_run: bool = False) -> int:
        """Erase all messages for good, history too; gives how many."""
        return self._link.call(Erase(self.name, dry_run=dry_run))


class Hub:
    """A hub, opened. Use it in a `with` statement, or close it."""

    def __init__(self, link: Link, carrier: Callable[[], Carrier] | None = None) -> None:
        self._link = link
        self.producer = Producer(link, carrier)
        self.batches = Batches(link)

    @property
    def link(self) -> Link:
        """For those who build on the surface: the connection below it."""
        return self._link

    def recipient(self, name: str) -> Recipient:
        return Recipient(self._link, name)

    def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage:
        """Those with waiting messages: most first, or oldest first; at most 5 s old."""
        return self._link.call(ListRecipients(order=order, limit=whole("limit", limit), after=after))

    def partitions(self) -> tuple[PartitionStatus, ...]:
        return self._link.call(ListPartitions())

    def partition_of(self, recipient: str) -> int:
        return self._link.call(PartitionOf(recipient))

    def consignment(self, key: str, *, batch: bool | BatchWish = False) -> Consignment:
        """Open a consignment, or the one that has this key. Its messages are delivered at one moment, the commit.

        With `batch` they become items of a batch, which the commit seals.
        """
        return open_consignment(self._link, key, batch=batch)

    def consignments(
        self, *, state: ConsignmentState | str | None = None, key: str | None = None
    ) -> Iterator[ConsignmentStatus]:
        """The consignments, the newest first, page by page as you go on."""
        return list_consignments(self._link, state, key)

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
        """Every change of these partitions, or of all, from the start or after these positions, page by page.

        It ends where each partition ended when reading began; with `follow` never, and waits for what comes.
        """
        reading = reading_of(
            partitions,
            after=after,
            wish=wish_of(origins=origins, kinds=kinds, recipients=recipients, columns=columns),
            limit=limit,
            follow=follow,
            reader=reader,
            linger_seconds=linger_seconds,
        )
        return Feed(self._link, reading)

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
        """Every message that is stored in these partitions, or in all, in whatever state; the feed goes on from there.

        It is as of now, or as of an earlier position of each partition. What was erased since is not shown.
        """
        wish = wish_of(origins=origins, kinds=kinds, recipients=recipients, columns=columns)
        return Snapshot(self._link, reading_of(partitions, positions=positions, wish=wish, limit=limit))

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
        """A consumer group: this program shares the feed, or what the filter leaves of it, with the group's other members.

        With origins, kinds, gone or actions it says what the group is; without, an existing group stays as it is. `member`
        is a name that is the same after a restart. `limit` bounds the changes of an answer.
        """
        reading = group_reading(
            name, origins=origins, kinds=kinds, start=start, gone=gone, actions=actions, member=member, limit=limit
        )
        return Group(self._link, reading)

    def groups(self) -> Iterator[GroupStatus]:
        """The groups by name, page by page as you go on."""
        return list_groups(self._link)

    def file(self) -> int:
        """File everything that waits to be filed, now; gives how many runs were merged."""
        return self._link.call(FileNow())

    def expire(self) -> int:
        """Settle what has expired, now; gives how many messages."""
        return self._link.call(ExpireNow())

    def retain(self) -> int:
        """Remove what is past its retention, now; gives how many messages left history."""
        return self._link.call(RetainNow())

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
