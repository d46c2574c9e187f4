"""`ConnectedClients` takes the mail of commits and hands it to the connections of its recipients.

This happens in the event loop, in the order of the commits. Many messages at once are turned into JSON in a thread; mail
that is committed meanwhile waits its turn. If too many come at once for a recipient, or a consignment brought them, the
recipient's connections read them from history.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Collection, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.errors import Overloaded, RestanteError, Unavailable
from restante.hub.door.hub import OpenHub
from restante.model.live.committed_mail import Elsewhere, Handed, Mail, Shipped
from restante.server.live.connection import LiveConnection
from restante.server.live.live_rows import LiveRows
from restante.server.live.parcels import Found, parcel_rows
from restante.server.live.replay import Replays
from restante.server.live.tally import LiveTally
from restante.settings import LiveSettings
from restante.wire.live import Disconnected
from restante.wire.outgoing.single_rows import letter_json

_log = logging.getLogger("restante.server")

_IN_THE_LOOP_MAX = 64
_AT_ONCE = 128
_GOODBYES_PER_SECOND = 1_000


LiveBacklog = deque[tuple[Sequence[Mail], float]]
"""The mail of commits, with the time of each."""


class ConnectedClients:
    """The connected clients of a hub."""

    def __init__(self, hub: OpenHub, settings: LiveSettings, *, drain_seconds: float) -> None:
        self.settings = settings
        self.tally = LiveTally()
        self._hub = hub
        self._drain_seconds = drain_seconds
        self._connections: dict[str, list[LiveConnection]] = {}
        self._count = 0
        self._hashes: NDArray[np.uint64] | None = None
        """The sorted hashes of connected recipients, computed on demand."""
        self._backlog: LiveBacklog | None = None
        """The mail that waits while a thread is busy with earlier mail; None if no thread is."""
        self._waiting = 0
        """How many messages of large publishes have entered the backlog since it was empty."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.replays = Replays(hub, settings, self.tally)

    async def run(self, draining: asyncio.Event) -> None:
        """Push until the hub drains, then dismiss all clients."""
        self._loop = asyncio.get_running_loop()
        with self._hub.pushing(self._take):
            await draining.wait()
            await self._say_goodbye()

    # --- Connections

    def check_room(self, recipient: str) -> None:
        own, most = len(self._connections.get(recipient, ())), self.settings
        if self._count >= most.connections_max:
            raise Overloaded(
                f"{self._count} clients are connected already, which is the most. Try again later.", retry_after=5
            )
        if own >= most.recipient_connections_max:
            raise Overloaded(
                f"{own} clients of this recipient are connected already, which is the most. Close one of them.",
                retry_after=5,
            )

    def join(self, connection: LiveConnection) -> None:
        """Add a connection, which from now on gets the messages of commits."""
        connection.start_replay = self.replays.start
        self._connections.setdefault(connection.recipient, []).append(connection)
        self._count += 1
        self._hashes = None

    def leave(self, connection: LiveConnection) -> None:
        own = self._connections.get(connection.recipient, [])
        with suppress(ValueError):
            own.remove(connection)
            self._count -= 1
        if not own:
            self._connections.pop(connection.recipient, None)
        self._hashes = None
        connection.ending = True
        if connection.replay is not None:
            connection.replay.cancel()
        self.tally.left(connection.queue)

    def others(self, connection: LiveConnection) -> list[LiveConnection]:
        """The other clients of the same recipient."""
        return [other for other in self._connections.get(connection.recipient, ()) if other is not connection]

    def tell_others(self, connection: LiveConnection, frame: bytes) -> None:
        """Send a frame to the other clients of the same recipient that have room."""
        for other in self.others(connection):
            if other.has_room_for(frame):
                other.tell(frame)
            else:
                self.tally.echoes_dropped += 1

    def connections(self) -> Iterator[LiveConnection]:
        for own in self._connections.values():
            yield from own

    def __len__(self) -> int:
        return self._count

    # --- Mail of commits

    def _take(self, mail: Sequence[Mail]) -> None:
        """Take the mail of a commit. Called in the committer's thread."""
        if self._connections and self._loop is not None:
            with suppress(RuntimeError):  # The loop is closed, so nobody is connected any more.
                self._loop.call_soon_threadsafe(self._arrived, mail, time.perf_counter())

    def _arrived(self, mail: Sequence[Mail], committed_at: float) -> None:
        if self._backlog is not None:
            self._wait_in_line(self._backlog, mail, committed_at)
            return
        try:
            self._distribute(mail, committed_at)
        except Exception:  # noqa: BLE001  # no client may miss a message because of a defect
            self._let_all_catch_up()

    def _wait_in_line(self, backlog: LiveBacklog, mail: Sequence[Mail], committed_at: float) -> None:
        """Append mail to the backlog. If that becomes too large, only the recipients are kept, not the messages."""
        self._waiting += sum([len(item.arrivals) for item in mail if isinstance(item, Shipped)])
        if self._waiting > limits.LIVE_PARCEL_MESSAGES_MAX:
            mail = [Elsewhere(item.arrivals.recipient_hash) if isinstance(item, Shipped) else item for item in mail]
        backlog.append((mail, committed_at))

    def _distribute(self, mail: Sequence[Mail], committed_at: float) -> None:
        for index, item in enumerate(mail):
            if isinstance(item, Shipped) and len(item.arrivals) > _IN_THE_LOOP_MAX:
                self._backlog, self._waiting = deque([(mail[index:], committed_at)]), 0
                self._start(self._work_off(self._backlog))
                return
            self._hand_out(self._delivery(item), committed_at)

    async def _work_off(self, backlog: LiveBacklog) -> None:
        """Work off a backlog: make the JSON of large mail in a thread, and hand it out in portions."""
        while backlog:
            mail, committed_at = backlog.popleft()
            self._waiting = 0 if not backlog else self._waiting
            try:
                for item in mail:
                    delivery = self._delivery_of(item) if not isinstance(item, Shipped) else await self._shipped(item)
                    for some in _portions(delivery):
                        self._hand_out(some, committed_at)
                        await asyncio.sleep(0)
            except Exception:  # noqa: BLE001  # no client may miss a message because of a defect
                self._let_all_catch_up()
        self._backlog = None

    def _let_all_catch_up(self) -> None:
        _log.exception("Messages could not be pushed: those who are connected get them from history.")
        for connection in tuple(self.connections()):
            connection.catch_up()

    async def _shipped(self, item: Shipped) -> Found:
        counters = {name: own[0].queue.counter for name, own in self._connections.items()}
        return await asyncio.get_running_loop().run_in_executor(None, parcel_rows, item, self._listened(), counters)

    def _delivery(self, item: Mail) -> Found:
        return parcel_rows(item, self._listened(), {}) if isinstance(item, Shipped) else self._delivery_of(item)

    def _delivery_of(self, item: Handed | Elsewhere) -> Found:
        if isinstance(item, Handed):
            return self._handed(item)
        concerned = np.isin(self._listened(), item.recipients)
        if not concerned.any():
            return {}
        hashes, locate = set(self._listened()[concerned].tolist()), self._hub.locate
        return {name: None for name in self._connections if locate(name).hash in hashes}

    def _handed(self, item: Handed) -> Found:
        found: dict[str, tuple[list[int], list[bytes]]] = {}
        connections, published_at = self._connections, item.published_at
        for letter, own_id, number in zip(item.letters, item.ids, item.numbers, strict=True):
            if letter.recipient in connections:
                numbers, texts = found.setdefault(letter.recipient, ([], []))
                numbers.append(number)
                texts.append(letter_json(letter, own_id, number, published_at))
        return {recipient: LiveRows.of(numbers, texts) for recipient, (numbers, texts) in found.items()}

    def _hand_out(self, delivery: Found, committed_at: float) -> None:
        if not delivery:
            return
        for recipient, rows in delivery.items():
            for connection in tuple(self._connections.get(recipient, ())):
                if rows is None:
                    connection.catch_up()
                else:
                    connection.deliver(rows)
                    self.tally.pushed += len(rows)
        self.tally.latency.add(time.perf_counter() - committed_at)

    def _listened(self) -> NDArray[np.uint64]:
        if self._hashes is None:
            locate = self._hub.locate
            self._hashes = np.sort(np.array([locate(name).hash for name in self._connections], np.uint64))
        return self._hashes

    # --- Dismissals

    def dismiss_unless_valid(self, connection: LiveConnection) -> None:
        """Dismiss a client whose token has expired, was revoked, or cannot be looked up."""
        try:
            connection.held.check()
        except Unavailable as error:
            self.dismiss(connection, "failed", detail=error.message)
        except RestanteError:
            self.dismiss(connection, "token_expired", detail="The token has expired, or was revoked.")

    def dismiss(
        self, connection: LiveConnection, reason: Disconnected, *, detail: str | None = None, owner: str | None = None
    ) -> None:
        self._start(connection.end(reason, detail=detail, owner=owner, seconds=self._drain_seconds / 4))

    def move(self, partitions: Collection[int], owner: str) -> None:
        """Dismiss the clients of these partitions, naming the address of the new owner."""
        for connection in tuple(self.connections()):
            if self._hub.locate(connection.recipient).partition in partitions:
                self.dismiss(connection, "moved", owner=owner)

    async def _say_goodbye(self) -> None:
        """Dismiss all clients one after another, with different times to reconnect, so that they do not return all at once."""
        everybody = list(self.connections())
        random.shuffle(everybody)
        spread = min(self._drain_seconds / 2, len(everybody) / _GOODBYES_PER_SECOND)
        for index, connection in enumerate(everybody):
            again = round(random.uniform(0, max(0.1, 2 * spread)), 3)
            ending = connection.end("draining", reconnect_after=again, seconds=self._drain_seconds / 4)
            self._start(ending)
            if index % 10 == 9:
                await asyncio.sleep(spread * 10 / len(everybody))
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=self._drain_seconds / 3)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("Live delivery failed: %r", task.exception())


def _portions(delivery: Found) -> Iterator[Found]:
    """A few recipients at a time, so that other tasks get their turn in between."""
    names = list(delivery)
    for start in range(0, len(names), _AT_ONCE):
        yield {name: delivery[name] for name in names[start : start + _AT_ONCE]}
