"""One connected client: what waits for it, what is replayed to it, and when it is told what.

Messages go through its bounded queue into its line, as far as the line takes them. While what came before is replayed
from history, new messages are not enqueued: the replay reads on until nothing new has come, and then gives over.
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
    """The way to the client."""

    @property
    def open(self) -> bool:
        """Whether the line takes more just now."""
        ...

    def write(self, frames: Sequence[bytes], messages: Sequence[Counted]) -> None:
        """Put frames onto the line, and messages behind them."""
        ...

    def push(self, counter: int, rows: LiveRows) -> None:
        """Put messages onto the line, counted after a number."""
        ...

    async def ready(self) -> None:
        """Wait until the connection takes more; raises `ClientGone` if it is lost."""
        ...

    async def hang_up(self, reason: Disconnected) -> None:
        """The last frame has been written: end it."""
        ...


class LiveConnection:
    """One client of one recipient, while it is connected. Used from the event loop only."""

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
        """Rather than to drop messages, it reads them from history: its client cannot tell a gap."""
        self.replay: asyncio.Task[None] | None = None
        """The replay, which reads from history what is to come before everything else."""
        self.again = False
        """Whether a message came during the replay: history has to be read once more."""
        self.start_replay: Callable[[LiveConnection], None] = lambda _: None
        self.ending = False
        """Whether the connection was told to go: it gets what waits, and nothing else."""
        self.closed = False
        """The last frame has been written."""
        self._line = line
        self._frames: deque[bytes] = deque()

    def has_room_for(self, frame: bytes) -> bool:
        """Whether a frame that is no message, and no answer, may wait too."""
        waiting = sum([len(own) for own in self._frames])
        return len(self._frames) < self.queue.messages_max and waiting + len(frame) <= self.queue.bytes_max

    def deliver(self, rows: LiveRows) -> None:
        """Messages that have just been committed, in order."""
        if self.ending:
            return  # It comes back, and finds this in history.
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
        """The usual way: nothing waits, and all of it fits into one write."""
        return (
            not self.queue
            and not self._frames
            and rows.size <= LIVE_WRITE_BYTES
            and rows.numbers[0] > self.queue.last
            and self._line.open
        )

    def catch_up(self) -> None:
        """Read on from history: there is more than has been sent."""
        if self.replay is not None:
            self.again = True
        elif not self.ending:
            self.start_replay(self)

    def tell(self, frame: bytes) -> None:
        """Send a frame that is no message; it goes before messages that wait."""
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
        """Returns when not too much waits that was said to the client: who does not listen is not listened to."""
        while len(self._frames) > LIVE_SENDS_MAX:
            await self._line.ready()
            self.flush()

    def farewell(self) -> None:
        """The client does not answer, and is cut off. If it can be told, it is."""
        if self._line.open and not self.closed:
            self.ending = self.closed = True
            self._line.write((encode_hub_frame(Disconnect(reason="idle")),), ())

    async def emptied(self) -> None:
        """Returns when nothing waits any more."""
        while True:
            await self._line.ready()
            self.flush()
            if not self.queue and not self._frames and self._line.open:
                return

    async def write_paced(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Replay messages: counted, never dropped, as fast as the client takes them."""
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
        """Say goodbye, as the last thing, and hang up; who does not take it in time is cut off."""
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
