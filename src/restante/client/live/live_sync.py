# Generated from `live_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`recipient.live` for programs that wait. `LiveFollower` holds the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from restante.client.live.live_arguments import Following, identified, number_of
from restante.client.live.live_follower_sync import LiveFollower, MailboxHistory
from restante.client.live.live_states import not_in_time
from restante.limits import CLIENT_TIMEOUT_SECONDS
from restante.model.publishing.message import Message
from restante.wire.live_lines import LiveDoor


class LiveSent:
    """A message that was sent over a live connection."""

    def __init__(self, id: str, processed: Callable[[], None]) -> None:  # the surface's name
        self.id = id
        self._processed = processed

    def processed(self) -> None:
        """Wait until the message is durable. Raises the reason if it will not be.

        ```python
        sent = live.send({"recipient": "bob", "text": "hello"})
        sent.processed()
        ```
        """
        self._processed()

    def __repr__(self) -> str:
        return f"<LiveSent {self.id}>"


class Live:
    """Follows a mailbox: `for message in live`. Use it in a `with` statement, or close it, from any thread.

    Leaving the loop closes it too, unless it is in a `with` statement.
    """

    def __init__(self, door: LiveDoor, history: MailboxHistory, wish: Following) -> None:
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

    def __iter__(self) -> Iterator[Message]:
        follower = self._follower
        try:
            while (message := follower.next()) is not None:
                yield message
        finally:
            if not self._entered:
                self.close()

    def __next__(self) -> Message:
        message = self._follower.next()
        if message is None:
            raise StopIteration
        return message

    def send(self, message: object) -> LiveSent:
        """Send a message over this connection. The result has its id; wait for `processed` to know that it is durable.

        ```python
        live = hub.recipient("alice").live()
        sent = live.send({"recipient": "bob", "text": "hello"})
        ```
        """
        named = identified(message)
        assert named.id is not None, "it was given one"
        letter = self._follower.post(lambda out: out.has_room, lambda out, promise: out.send(named, promise))
        return LiveSent(named.id, lambda: self._follower.answer(letter))

    def collected(self, message: Message | int) -> int:
        """Confirm all messages up to this one; return how many were collected by this call.

        ```python
        for message in live:
            live.collected(message)
        ```
        """
        number = number_of(message)
        letter = self._follower.post(lambda out: out.can_collect, lambda out, promise: out.collect(number, promise))
        try:
            count: int = self._follower.answer(letter, CLIENT_TIMEOUT_SECONDS)
            return count
        except TimeoutError:
            raise not_in_time() from None
        finally:
            self._follower.forget(letter)

    def close(self) -> None:
        """End the connection. A thread that waits for a message gets None or the end of its loop.

        ```python
        live.close()
        ```
        """
        self._follower.close()

    def __enter__(self) -> Self:
        self._entered = True
        self._follower.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
