"""A mailbox for asynchronous programs: `Recipient`, and the `Bundle` that a peek answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from restante.calls.mailboxes import (
    Dequeue,
    Explain,
    FindMessage,
    Peek,
    ReadHistory,
)
from restante.calls.removal import Erase, Purge, Release, SetAside, Withdraw
from restante.client.live.live_arguments import client_of, following_of
from restante.client.live.live_async import Live
from restante.client.live.live_states import LiveState
from restante.client.surface.arguments import names, seconds, state_of, whole
from restante.client.surface.bundle_view import BundleView
from restante.client.transport.link import AsyncLink
from restante.limits import WAIT_SECONDS_MAX
from restante.model.mailboxes.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    Reason,
)
from restante.model.publishing.message import Message, State


class Bundle(BundleView):
    """The answer of a peek: `messages`, or `table`, and `dequeue` to confirm it."""

    def __init__(self, link: AsyncLink, answer: BundleAnswer) -> None:
        super().__init__(answer)
        self._link = link

    async def dequeue(self) -> Dequeued:
        """Confirm it: the messages are collected, and the next bundle may come.

        ```python
        bundle = await hub.recipient("alice").peek()
        if bundle is not None:
            await bundle.dequeue()
        ```
        """
        return await self._link.call(Dequeue(self.recipient, self.bundle_id))


class Recipient:
    """One mailbox."""

    def __repr__(self) -> str:
        return f"<Recipient {self.name!r}>"

    def __init__(self, link: AsyncLink, name: str) -> None:
        self._link = link
        self.name = name

    async def peek(
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
        """The open bundle, or the next one; None when there is nothing (`explain` says why).

        ```python
        bundle = await hub.recipient("alice").peek(max_messages=100, wait=10)
        ```
        """
        answer = await self._link.call(
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

    async def bundles(
        self,
        *,
        origins: Sequence[str] = (),
        origin_groups: Sequence[str] = (),
        max_messages: int | None = None,
        max_weight: int | None = None,
        idle: float | None = None,
    ) -> AsyncIterator[Bundle]:
        """Bundle after bundle, waiting for mail in between, for ever or until `idle` seconds brought none.

        Dequeue each; asking for the next without having done so gives the same one again.

        ```python
        async for bundle in hub.recipient("alice").bundles(idle=0):
            print([message.data for message in bundle.messages])
            await bundle.dequeue()
        ```
        """
        left = idle
        while left is None or left >= 0:
            wait = WAIT_SECONDS_MAX if left is None else min(left, WAIT_SECONDS_MAX)
            bundle = await self.peek(
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

    async def dequeue(self, bundle_id: str) -> Dequeued:
        """Confirm a bundle by its id, also in another process than the one that peeked it.

        ```python
        await hub.recipient("alice").dequeue(bundle_id)
        ```
        """
        return await self._link.call(Dequeue(self.name, bundle_id))

    async def explain(self, *, origins: Sequence[str] = (), origin_groups: Sequence[str] = ()) -> Explanation:
        """Why a peek answers what it answers.

        ```python
        explanation = await hub.recipient("alice").explain()
        print(explanation.reason, explanation.text)
        ```
        """
        return await self._link.call(
            Explain(self.name, origins=names("origins", origins), origin_groups=names("origin_groups", origin_groups))
        )

    async def history(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | str | None = None,
        limit: int | None = None,
    ) -> HistoryPage:
        """Messages by sequence number, collected ones included until their retention ends.

        ```python
        page = await hub.recipient("alice").history(state="collected", limit=20)
        print([message.id for message in page.messages])
        ```
        """
        return await self._link.call(
            ReadHistory(
                self.name,
                after=whole("after", after),
                before=whole("before", before),
                state=state_of(state),
                limit=whole("limit", limit),
            )
        )

    async def find(self, message_id: str) -> Message:
        """One message by its id, in whatever state it is. `MessageUnknown` if there is none.

        ```python
        message = await hub.recipient("alice").find("invoice-17")
        ```
        """
        return await self._link.call(FindMessage(self.name, message_id))

    async def withdraw(self, message_id: str) -> None:
        """Take a message back before it is collected.

        ```python
        await hub.recipient("alice").withdraw("invoice-17")
        ```
        """
        await self._link.call(Withdraw(self.name, message_id))

    async def set_aside(self, message_id: str) -> None:
        """Keep a message from being delivered, until it is released or withdrawn.

        ```python
        await hub.recipient("alice").set_aside("invoice-17")
        ```
        """
        await self._link.call(SetAside(self.name, message_id))

    async def release(self, message_id: str) -> None:
        """Release a message that was set aside: into its old place, or at the end if delivery has passed that place.

        ```python
        await hub.recipient("alice").release("invoice-17")
        ```
        """
        await self._link.call(Release(self.name, message_id))

    async def purge(
        self,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        all: bool = False,  # the contract's name
        dry_run: bool = False,
    ) -> int:
        """Withdraw what waits or is set aside and fits, or with `all` everything; gives how many messages.

        ```python
        count = await hub.recipient("alice").purge(kind="reminder", dry_run=True)
        ```
        """
        return await self._link.call(
            Purge(self.name, origin=origin, kind=kind, before=before, all=all, dry_run=dry_run)
        )

    def live(
        self,
        *,
        after: int | None = None,
        client: str | None = None,
        on_state: Callable[[LiveState], None] | None = None,
        on_echo: Callable[[Message], None] | None = None,
    ) -> Live:
        """Follow the mailbox: each message as it comes, once and in order. `async for message in recipient.live(after=0)`.

        It begins after the number `after` (0: with all of history), or with what is published from now on. A lost connection
        is made again. `on_state` is called with each change of the connection, `on_echo` with what this recipient sends elsewhere.
        The callbacks are called in the event loop.

        ```python
        async for message in hub.recipient("alice").live(after=0):
            print(message.data)
        ```
        """
        door = self._link.live(self.name, client=client_of(client))
        return Live(door, self._history, following_of(after, on_state, on_echo))

    async def _history(self, *, after: int, before: int, limit: int, live_gap: int | None) -> HistoryPage:
        return await self._link.call(ReadHistory(self.name, after=after, before=before, limit=limit, live_gap=live_gap))

    async def erase(self, *, dry_run: bool = False) -> int:
        """Erase all messages for good, history too; gives how many.

        ```python
        count = await hub.recipient("alice").erase()
        ```
        """
        return await self._link.call(Erase(self.name, dry_run=dry_run))
