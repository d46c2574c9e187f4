"""One connected client: the messages that wait for it or are replayed to it, and the frames that it is sent.

Messages go through its bounded queue into its line, as fast as the line takes them. While older messages are replayed from
history, new ones are not enqueued: the replay reads on until it has caught up, and then live delivery takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from restante.limits import LIVE_SENDS_MAX, LIVE_WRITE_BYTES
from restante.model.live.live_queue import Counted, LiveQueue
from restante.server.access.passes import Pass
from restante.server.connections.exchange import ClientGone
from restante.server.live.live_rows import LiveRows
from restante.wire.live import Disconnect, Disconnected, encode_hub_frame


class Line(Protocol):
    """The connection to the client."""

    @property
    def open(self) -> bool:
        """Whether the line takes more now."""
        ...

    def write(self, frames: Sequence[bytes], messages: Sequence[Counted]) -> None:
        """Write frames, then messages."""
        ...

    def push(self, counter: int, rows: LiveRows) -> None:
        """Write messages, counted from `counter` + 1."""
        ...

    async def ready(self) -> None:
        """Wait until the line takes more. Raises `ClientGone` if it is lost."""
        ...

    async def hang_up(self, reason: Disconnected) -> None:
        """Close the line after the last frame."""
        ...


class LiveConnection:
    """One connected client of one recipient. Used only from the event loop."""

    __slots__ = (
        "_frames",
        "_line",
        "again",
        "client",
        "closed",
        "ending",
        "held",
        "keeps_up",
        "queue",
        "recipient",
        "replay",
        "since",
        "start_replay",
    )

    def __init__(
        self, recipient: str, line: Line, queue: LiveQueue, held: Pass, *, keeps_up: bool = False, client: str = ""
    ) -> None:
        self.recipient = recipient
        self.client = client
        """The name that the client gives itself."""
        self.since = time.time()
        self.queue = queue
        self.held = held
        self.keeps_up = keeps_up
        """Whether to read messages from history instead of dropping them, because the client cannot detect gaps."""
        self.replay: asyncio.Task[None] | None = None
        """The task that replays messages from history, which come before all others."""
        self.again = False
        """Whether a message came during the replay, so that history must be read again."""
        self.start_replay: Callable[[LiveConnection], None] = lambda _: None
        self.ending = False
        """Whether the connection is ending: it only gets what already waits."""
        self.closed = False
        """Whether the last frame has been written."""
        self._line = line
        self._frames: deque[bytes] = deque()

    def has_room_for(self, frame: bytes) -> bool:
        """Whether there is room for another frame that is neither a message nor an answer."""
        waiting = sum([len(own) for own in self._frames])
        return len(self._frames) < self.queue.messages_max and waiting + len(frame) <= self.queue.bytes_max

    def deliver(self, rows: LiveRows) -> None:
        """Take messages that have just been committed, in order."""
        if self.ending:
            return  # The client will reconnect, and find them in history.
        if self.replay is not None:
            self.again = True
            return
        queue = self.queue
        if self._takes_at_once(rows):
            self._line.push(queue.counter, rows)
            queue.count_all(len(rows), rows.numbers[-1])
            return
        for number, message in rows:
            if not queue.fits(message):
                self.flush()
                if self.keeps_up and not queue.fits(message):
                    self.catch_up()
                    return
            queue.push(number, message)
        self.flush()

    def _takes_at_once(self, rows: LiveRows) -> bool:
        """Whether messages can be written directly, which is usual: nothing waits, and they fit into one write."""
        return (
            not self.queue
            and not self._frames
            and rows.size <= LIVE_WRITE_BYTES
            and rows.numbers[0] > self.queue.last
            and self._line.open
        )

    def catch_up(self) -> None:
        """Read further messages from history, because there are more than were sent."""
        if self.replay is not None:
            self.again = True
        elif not self.ending:
            self.start_replay(self)

    def tell(self, frame: bytes) -> None:
        """Send a frame that is no message. It goes before waiting messages."""
        if not self.ending:
            self._frames.append(frame)
            self.flush()

    def flush(self) -> None:
        """Write as much as the line takes."""
        line, queue, frames = self._line, self.queue, self._frames
        while (queue or frames) and line.open and not self.closed:
            told = tuple(frames)
            frames.clear()
            line.write(told, queue.take(LIVE_WRITE_BYTES))

    async def heard(self) -> None:
        """Wait until not too many frames wait for the client: one that does not read is not read from."""
        while len(self._frames) > LIVE_SENDS_MAX:
            await self._line.ready()
            self.flush()

    def farewell(self) -> None:
        """Send a last frame, if the line takes it, because the client does not answer and is being cut off."""
        if self._line.open and not self.closed:
            self.ending = self.closed = True
            self._line.write((encode_hub_frame(Disconnect(reason="idle")),), ())

    async def emptied(self) -> None:
        """Wait until nothing waits to be written."""
        while True:
            await self._line.ready()
            self.flush()
            if not self.queue and not self._frames and self._line.open:
                return

    async def write_paced(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Write replayed messages: counted, never dropped, as fast as the client takes them."""
        some: list[Counted] = []
        size = 0
        for number, message in rows:
            some.append((self.queue.count(number), number, message))
            size += len(message)
            if size >= LIVE_WRITE_BYTES:
                self._line.write((), some)
                some, size = [], 0
                await self._line.ready()
        if some:
            self._line.write((), some)
            await self._line.ready()

    async def end(
        self,
        reason: Disconnected,
        *,
        seconds: float,
        detail: str | None = None,
        owner: str | None = None,
        reconnect_after: float | None = None,
    ) -> None:
        """Send the last frame and close. A client that does not read in time is cut off."""
        if self.ending:
            return
        self.ending = True
        with suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(seconds):
                if reason in ("draining", "moved"):
                    await self.emptied()
        self.closed = True
        if self.replay is not None:
            self.replay.cancel()
        frame = Disconnect(reason=reason, owner=owner, reconnect_after=reconnect_after, detail=detail)
        self._line.write((encode_hub_frame(frame),), ())
        await self._line.hang_up(reason)
