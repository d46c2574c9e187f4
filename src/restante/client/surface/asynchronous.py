"""The surface for asynchronous programs: `Hub` and `Producer` over a link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Self, Unpack

from msgspec import UNSET

from restante.calls.actions import ReadAction, SendAction, SendActions
from restante.calls.groups import DefineGroup
from restante.calls.mailboxes import (
    ListPartitions,
    ListRecipients,
    Order,
    PartitionOf,
)
from restante.calls.nodes import ReadNodes
from restante.calls.removal import ExpireNow, FileNow, RetainNow
from restante.client.actions.action_view import carried_of, concerns_of, wanted_action, wanted_actions
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.batches.batches_async import Batches
from restante.client.concurrency.openings import AsyncOpening
from restante.client.consignments.consignments_async import Consignment, list_consignments, open_consignment
from restante.client.consignments.large_send_async import send_all
from restante.client.consignments.large_sends import SendWish
from restante.client.feed.feed_async import Feed, Snapshot
from restante.client.feed.feed_pages import reading_of, wish_of
from restante.client.groups.group_view import group_reading
from restante.client.groups.groups_async import Group, list_groups
from restante.client.jobs.jobs_async import Jobs
from restante.client.publishing.pipeline_async import AsyncCallCarrier, AsyncCarrier, Pipeline
from restante.client.publishing.sendable import MessageFields, sendable
from restante.client.sources.sources_async import Sources
from restante.client.surface.arguments import gone_of, names, seconds, start_of, text_of, whole
from restante.client.surface.recipient_async import Bundle, Recipient
from restante.client.transport.link import AsyncLink, where
from restante.limits import FEED_LINGER_SECONDS
from restante.model.actions.action_answers import AcceptedAction, ActionStatus
from restante.model.actions.wanted_action import WantedAction
from restante.model.backplane.accept import AcceptName, accept_named
from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, ConsignmentStatus
from restante.model.groups.group import Gone, Start
from restante.model.groups.group_answers import GroupStatus
from restante.model.mailboxes.answers import (
    PartitionStatus,
    Receipt,
    RecipientPage,
)
from restante.model.shards.node_answers import NodeMap

__all__ = ["Bundle", "Hub", "Producer", "Recipient"]


class Producer:
    """Sends messages."""

    def __init__(self, link: AsyncLink, carrier: Callable[[], AsyncCarrier] | None = None) -> None:
        self._link = link
        self._carrier = carrier

    def __repr__(self) -> str:
        return f"<Producer of the hub {where(self._link)}>"

    async def send(
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
    ) -> Receipt:
        """Store messages: all of them, or nothing.

        Give a `Message`, a dict of its fields, a CloudEvent, a list of any of these, or a frame (Arrow, pandas, polars);
        or the fields of one message as keyword arguments. If a `batch` is named, newly stored messages become its items.

        A send that is larger than a body (64 MiB) is cut, read bit by bit if it is a reader or an iterator, and still delivered
        at one moment. With `parcels` each part is stored as it comes instead. `progress` is called with the number of messages
        that the hub has so far.

        With a `source` each message has a `source_position`, ascending: messages that the hub has of the source are skipped.

        With `accept="accepted"` a hub that has a backplane answers when that has the messages, before they are stored.

        ```python
        await hub.producer.send(recipient="alice", text="hello")
        await hub.producer.send([{"recipient": "alice", "data": {"n": 1}}, {"recipient": "bob", "data": {"n": 2}}])
        ```
        """
        wish = SendWish(
            partition=partition,
            batch=batch_id_of(batch),
            parcels=parcels,
            progress=progress,
            source=source,
            accept=accept_named(accept),
        )
        return await send_all(self._link, sendable(messages, fields), wish)

    def pipeline(self) -> Pipeline:
        """Many small sends one after another, without waiting for each: stored in the order sent, and many together.

        ```python
        async with hub.producer.pipeline() as pipeline:
            futures = [pipeline.send({"recipient": "alice", "data": number}) for number in range(1_000)]
        ```
        """
        return Pipeline(AsyncCallCarrier(self._link.call) if self._carrier is None else self._carrier())


class Hub:
    """A hub, opened. Use it in an `async with` statement, or close it."""

    def __init__(self, link: AsyncLink, carrier: Callable[[], AsyncCarrier] | None = None) -> None:
        self._link = link
        self.producer = Producer(link, carrier)
        self.batches = Batches(link)
        self.sources = Sources(link)
        self.jobs = Jobs(link)

    def __repr__(self) -> str:
        return f"<Hub {where(self._link)}>"

    @property
    def link(self) -> AsyncLink:
        """The connection below the surface, for programs that build on it."""
        return self._link

    async def send(
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
    ) -> Receipt:
        """Store messages: all of them, or nothing. The same as `hub.producer.send`.

        ```python
        await hub.send(recipient="alice", text="hello")
        await hub.send({"recipient": "alice", "data": {"n": 1}})
        ```
        """
        return await self.producer.send(
            messages,
            partition=partition,
            batch=batch,
            source=source,
            accept=accept,
            parcels=parcels,
            progress=progress,
            **fields,
        )

    def recipient(self, name: str) -> Recipient:
        """A mailbox. It need not exist: nothing is asked.

        ```python
        alice = hub.recipient("alice")
        ```
        """
        return Recipient(self._link, name)

    async def recipients(
        self,
        *,
        order: Order = "waiting",
        limit: int | None = None,
        after: str | None = None,
        search: str | None = None,
    ) -> RecipientPage:
        """The recipients with waiting messages: most first, or oldest first; the list is at most 5 s old. `search` is in their names.

        ```python
        page = await hub.recipients(order="oldest", limit=10)
        print([(summary.recipient, summary.waiting) for summary in page.recipients])
        ```
        """
        call = ListRecipients(order=order, limit=whole("limit", limit), after=after, search=search)
        return await self._link.call(call)

    async def partitions(self) -> tuple[PartitionStatus, ...]:
        """All partitions, with their visible sequences and what waits in them.

        ```python
        count = len(await hub.partitions())
        ```
        """
        return await self._link.call(ListPartitions())

    async def nodes(self) -> NodeMap:
        """Which nodes and shards the hub has, and who has which partitions.

        ```python
        names = [own.node for own in (await hub.nodes()).nodes]
        ```
        """
        return await self._link.call(ReadNodes())

    async def partition_of(self, recipient: str) -> int:
        """The partition that a recipient belongs to.

        ```python
        number = await hub.partition_of("alice")
        ```
        """
        return await self._link.call(PartitionOf(recipient))

    def consignment(self, key: str, *, batch: bool | BatchWish = False) -> AsyncOpening[Consignment]:
        """Open a consignment, or the one that has this key. Its messages are delivered at one moment, the commit.

        With `batch` they become items of a batch, which the commit seals.

        ```python
        async with hub.consignment("night-2030-01-31") as consignment:
            await consignment.stage("writer-1", 0, {"recipient": "alice", "text": "hello"})
        ```
        """
        return open_consignment(self._link, key, batch=batch)

    def consignments(
        self, *, state: ConsignmentState | str | None = None, key: str | None = None
    ) -> AsyncIterator[ConsignmentStatus]:
        """The consignments, the newest first, page by page as you go on.

        ```python
        async for status in hub.consignments(state="open"):
            print(status.key)
        ```
        """
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

        ```python
        async for page in hub.feed(origins=["billing"], follow=True):
            print(page.table.num_rows, page.position)
        ```
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

        It is as of now, or as of an earlier position of each partition. Messages that were erased since are not shown.

        ```python
        async for page in hub.snapshot(kinds=["invoice"]):
            print(page.table.num_rows)
        ```
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

        ```python
        async with hub.group("billing", kinds=["invoice"]) as group:
            async for page in group.pages():
                print(page.partition, len(page.table))
        ```
        """
        definition = DefineGroup(
            name,
            origins=names("origins", origins),
            kinds=names("kinds", kinds),
            start=start_of(start),
            actions=names("actions", actions),
            gone=gone_of(gone),
        )
        return Group(self._link, group_reading(definition, member=member, limit=limit))

    def groups(self) -> AsyncIterator[GroupStatus]:
        """The groups by name, page by page as you go on.

        ```python
        async for status in hub.groups():
            print(status.group)
        ```
        """
        return list_groups(self._link)

    async def act(
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
        """Have something done: accepted at once, done later by a worker of the group that declared the name.

        Actions that concern one thing are done in order. `data` is any value that JSON can say, `{}` if left out. An action with
        the same id, thing, name and data is not done again. `wait` is how many seconds to wait for the outcome. The handler's job
        and the logs have the `correlation_id`.

        ```python
        accepted = await hub.act("send_invoice", concerns="order-7", data={"amount": 12})
        ```
        """
        wanted = wanted_action(action, concerns, data=data, id=id, expires_in=expires_in, origin=origin)
        return await self._link.call(SendAction(wanted, seconds("wait", wait), carried_of(correlation_id)))

    async def act_all(
        self, actions: Iterable[WantedAction], *, batch: BatchName | None = None
    ) -> tuple[AcceptedAction, ...]:
        """Have many things done: all are accepted, or none. With a batch they become its items.

        ```python
        wanted = [restante.WantedAction(action="send_invoice", concerns=f"order-{n}") for n in range(3)]
        accepted = await hub.act_all(wanted)
        ```
        """
        named = None if batch is None else batch_id_of(batch)
        accepted = await self._link.call(SendActions(wanted_actions(actions), named))
        return accepted.actions

    async def outcome(self, action_id: str, *, concerns: str | None = None, wait: float = 0) -> ActionStatus:
        """The outcome of an action; with `wait`, so many seconds until it is final. `value` is what its handler returned.

        ```python
        accepted = await hub.act("send_invoice", concerns="order-7")
        print((await hub.outcome(accepted.id)).state)
        ```
        """
        return await self._link.call(
            ReadAction(text_of("action_id", action_id), concerns_of(concerns), seconds("wait", wait))
        )

    async def file(self) -> int:
        """File everything that waits to be filed, now; gives how many runs were merged.

        ```python
        merged = await hub.file()
        ```
        """
        return await self._link.call(FileNow())

    async def expire(self) -> int:
        """Settle what has expired, now; gives how many messages.

        ```python
        count = await hub.expire()
        ```
        """
        return await self._link.call(ExpireNow())

    async def retain(self) -> int:
        """Remove what is past its retention, now; gives how many messages left history.

        ```python
        count = await hub.retain()
        ```
        """
        return await self._link.call(RetainNow())

    async def close(self) -> None:
        """Finish what is under way, and let go.

        ```python
        await hub.close()
        ```
        """
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
