"""`recipient.live` for asynchronous programs. `LiveFollower` holds the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from restante.client.live.live_arguments import Following, identified, number_of
from restante.client.live.live_follower_async import LiveFollower, MailboxHistory
from restante.client.live.live_states import not_in_time
from restante.limits import CLIENT_TIMEOUT_SECONDS
from restante.model.publishing.message import Message
from restante.wire.live_lines import AsyncLiveDoor


class LiveSent:
    """A message that was sent over a live connection."""

    def __init__(self, id: str, processed: Callable[[], Awaitable[None]]) -> None:  # the surface's name
        self.id = id
        self._processed = processed

    async def processed(self) -> None:
        """Wait until the message is durable. Raises the reason if it will not be.

        ```python
        sent = await live.send({"recipient": "bob", "text": "hello"})
        await sent.processed()
        ```
        """
        await self._processed()

    def __repr__(self) -> str:
        return f"<LiveSent {self.id}>"


class Live:
    """Follows a mailbox: `async for message in live`. Use it in an `async with` statement, or close it, from any task.

    Leaving the loop closes it too, unless it is in an `async with` statement.
    """

    def __init__(self, door: AsyncLiveDoor, history: MailboxHistory, wish: Following) -> None:
        self._follower = LiveFollower(door, history, wish)
        self._entered = False

    def __repr__(self) -> str:
        return f"<Live: as far as number {self.position}>"

    @property
    def position(self) -> int | None:
        """The sequence number of the last message shown, or the one after which following began; None until it is known."""
        return self._follower.inbox.position

    @property
    def gaps_recovered(self) -> int:
        """How often messages that were not pushed had to be fetched from history."""
        return self._follower.inbox.gaps_recovered

    @property
    def reconnects(self) -> int:
        return max(self._follower.course.connections - 1, 0)

    async def __aiter__(self) -> AsyncIterator[Message]:
        follower = self._follower
        try:
            # sync: while (message := follower.next()) is not None:
            # sync:     yield message
            # async only: `ready` saves awaiting a message that is at hand.
            while (message := follower.ready() or await follower.next()) is not None:
                yield message
        finally:
            if not self._entered:
                await self.close()

    async def __anext__(self) -> Message:
        message = await self._follower.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def send(self, message: object) -> LiveSent:
        """Send a message over this connection. The result has its id; wait for `processed` to know that it is durable.

        ```python
        live = hub.recipient("alice").live()
        sent = await live.send({"recipient": "bob", "text": "hello"})
        ```
        """
        named = identified(message)
        assert named.id is not None, "it was given one"
        letter = await self._follower.post(lambda out: out.has_room, lambda out, promise: out.send(named, promise))
        return LiveSent(named.id, lambda: self._follower.answer(letter))

    async def collected(self, message: Message | int) -> int:
        """Confirm all messages up to this one; return how many were collected by this call.

        ```python
        async for message in live:
            await live.collected(message)
        ```
        """
        number = number_of(message)
        letter = await self._follower.post(
            lambda out: out.can_collect, lambda out, promise: out.collect(number, promise)
        )
        try:
            count: int = await self._follower.answer(letter, CLIENT_TIMEOUT_SECONDS)
            return count
        except TimeoutError:
            raise not_in_time() from None
        finally:
            self._follower.forget(letter)

    async def close(self) -> None:
        """End the connection. A task that waits for a message gets None or the end of its loop.

        ```python
        await live.close()
        ```
        """
        await self._follower.close()

    async def __aenter__(self) -> Self:
        self._entered = True
        self._follower.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
