"""A bad network between producers and a hub: it cuts, delays, duplicates and reorders, at any byte, by a seed.

Each producer comes in by a door of its own. What befalls the bytes that pass a door is drawn from the seed and the
door's name. Four things can happen to bytes, in either direction, and at any of them:

- cut: some of them pass, then both ends are closed;
- delay: the rest of them comes a little later;
- hold: the rest comes so late that the client has given up meanwhile. An old request then reaches the hub after newer
  ones: this is how connections reorder. The hub's answer to it is thrown away;
- duplicate: the whole request is sent to the hub once more, now or later, by another connection, whose answer is thrown
  away. Of a web socket it is all that the client has sent since it was opened, the handshake included.

The answers that are thrown away are looked at: they tell what the hub made of what came late or twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_CHUNK = 65_536
_RECORDED_BYTES_MAX = 1 << 20
"""What is longer than this is not duplicated."""
_LATE_MAX = 64
"""If so much is late at once, nothing is duplicated."""
_ANSWER_SECONDS = 1.0
"""So long the hub has to answer what came late or twice."""
_QUIET_SECONDS = 0.1
"""When nothing came for so long, the answer was whole."""
_REFUSAL_SECONDS = 0.02
"""So long it takes to find out that there is no hub, so that clients do not try in vain all the time."""
_CLOSING_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often something befalls bytes that come in one piece, from 0 to 1; and how long it takes at most, in seconds."""

    cut: float = 0.0
    delay: float = 0.0
    hold: float = 0.0
    duplicate: float = 0.0
    delay_seconds: float = 0.02
    hold_seconds: tuple[float, float] = (0.2, 0.7)
    """A client with less patience than this has given up before."""
    duplicate_seconds: float = 0.5

    def __post_init__(self) -> None:
        assert 0 <= self.cut + self.delay + self.hold + self.duplicate <= 1, self


class Fate(Enum):
    """What befalls bytes."""

    PASS = "passed"
    CUT = "cuts"
    DELAY = "delays"
    HOLD = "holds"
    DUPLICATE = "duplicates"


CALM = Rates()


class Network:
    """A thread that passes bytes on, more or less. Use it in a `with` statement."""

    def __init__(self, url: str, *, seed: int, rates: Rates = CALM) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._seed = seed
        self.rates = rates
        """May be set at any time."""
        self.counts: Counter[str] = Counter()
        """How often each thing happened: `cuts`, `delays`, `holds`, `duplicates` and `reorderings`; and, of what the hub
        answered to what came late or twice, `late_stored`, `late_replayed`, `late_refused` and `late_fenced`."""
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.late: set[asyncio.Future[None]] = set()
        """What is held back or is to be repeated, and has not been answered."""
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def door(self, name: str) -> str:
        """The address of a new way to the hub."""
        url: str = self._run(self._open_door(name))
        return url

    def settle(self) -> None:
        """Nothing befalls anything from now on; returns when all that was held back or is to be repeated got through."""
        self.rates = CALM
        self._run(self._settled())

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What follows runs in the thread

    def fate(self, chance: random.Random) -> Fate:
        roll, rates = chance.random(), self.rates
        for fate, rate in (
            (Fate.CUT, rates.cut),
            (Fate.DELAY, rates.delay),
            (Fate.HOLD, rates.hold),
            (Fate.DUPLICATE, rates.duplicate),
        ):
            if roll < rate:
                return fate
            roll -= rate
        return Fate.PASS

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._target)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._spawn(work)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def replay(self, recorded: bytearray, chance: random.Random) -> None:
        """Send all of this to the hub once more, by another connection."""
        if len(self.late) < _LATE_MAX and len(recorded) <= _RECORDED_BYTES_MAX:
            # Half of them at once, beside the first; the others at any time later.
            later = self.rates.duplicate_seconds * max(0.0, 2 * chance.random() - 1)
            self.is_late(self._spawn(self._replay(recorded, later)))

    def is_late(self, until: asyncio.Future[None]) -> None:
        self.late.add(until)
        until.add_done_callback(self.late.discard)

    def learn(self, thrown: bytes) -> None:
        """Take down what the hub made of something that came late or twice."""
        replayed = thrown.count(b'"replayed":true')
        self.counts["late_replayed"] += replayed
        self.counts["late_stored"] += thrown.count(b'"accepted":') - replayed
        self.counts["late_refused"] += thrown.count(b'"code":"invalid_client_state"')
        self.counts["late_fenced"] += thrown.count(b'"code":"producer_disconnected"')

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CLOSING_SECONDS)

    async def _open_door(self, name: str) -> str:
        door = _Door(self, f"{self._seed}/{name}")
        server = await asyncio.start_server(door.enter, "127.0.0.1", 0, limit=_CHUNK)
        self._servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _replay(self, recorded: bytearray, later: float) -> None:
        try:
            await asyncio.sleep(later)
            reader, writer = await self.connect()
            with contextlib.closing(writer):
                writer.write(bytes(recorded))
                answer = await _all_of(reader)
        except OSError:
            return  # The hub is down, or has closed this.
        self.counts["duplicates"] += answer.startswith(b"HTTP/1.1 ")
        self.learn(answer)

    async def _settled(self) -> None:
        while self.late:
            await asyncio.wait(self.late)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        # Ends that were closed are let go in the next turns of the loop.
        await asyncio.sleep(_QUIET_SECONDS / 10)

    async def serve(self, connection: _Connection) -> None:
        self.counts["connections"] += 1
        await connection.serve()


class _Door:
    """Where one producer comes in."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.chance = random.Random(name)
        self.passed = 0
        """How many pieces of requests were passed on."""

    def hold_seconds(self) -> float:
        """Rather short than long, for most can go wrong about when a client gives up."""
        least, most = self.network.rates.hold_seconds
        return least + (most - least) * self.chance.random() ** 2

    def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.network.spawn(self.network.serve(_Connection(self, reader, writer)))


class _Connection:
    """A client's connection, and the one to the hub that belongs to it."""

    def __init__(self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._door, self._network = door, door.network
        self._client, self._to_client = reader, writer
        self._request = bytearray()
        self._answered = False
        self._web_socket = False
        self._late = self._delivered = False
        """Whether the rest of a request was held back, and whether the hub has it now."""

    async def serve(self) -> None:
        with contextlib.closing(self._to_client):
            try:
                hub, to_hub = await self._network.connect()
            except OSError:
                await asyncio.sleep(_REFUSAL_SECONDS)
                return
            with contextlib.closing(to_hub):
                ways = [asyncio.create_task(self._up(to_hub)), asyncio.create_task(self._down(hub))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.wait(ways)

    @property
    def _client_gone(self) -> bool:
        return self._client.at_eof() or self._client.exception() is not None or self._to_client.is_closing()

    async def _up(self, to_hub: asyncio.StreamWriter) -> None:
        chance = self._door.chance
        with contextlib.suppress(OSError):
            while chunk := await self._client.read(_CHUNK):
                self._record(chunk)
                fate, place = self._network.fate(chance), chance.randrange(len(chunk) + 1)
                if fate is Fate.DUPLICATE:
                    self._network.replay(self._request, chance)
                if not await self._pass(to_hub, chunk, fate, place):
                    return

    async def _down(self, hub: asyncio.StreamReader) -> None:
        chance = self._door.chance
        with contextlib.suppress(OSError):
            while chunk := await hub.read(_CHUNK):
                if self._late and self._client_gone:
                    if not self._delivered:
                        continue  # This answers what came before.
                    self._network.learn(chunk + await _all_of(hub, _QUIET_SECONDS))
                    return
                self._answered = True
                fate, place = self._network.fate(chance), chance.randrange(len(chunk) + 1)
                if not await self._pass(self._to_client, chunk, fate, place):
                    return

    async def _pass(self, target: asyncio.StreamWriter, chunk: bytes, fate: Fate, place: int) -> bool:
        """Whether the connection stays."""
        upwards = target is not self._to_client
        if fate in (Fate.CUT, Fate.DELAY, Fate.HOLD):
            self._network.counts[fate.value] += 1
            await self._write(target, chunk[:place])
        else:
            place = 0
        if fate is Fate.CUT:
            return False
        if fate is Fate.DELAY:
            await asyncio.sleep(self._door.chance.random() * self._network.rates.delay_seconds)
        elif fate is Fate.HOLD and upwards:
            return await self._hold(target, chunk[place:])
        elif fate is Fate.HOLD:
            await asyncio.sleep(self._door.hold_seconds())
        await self._write(target, chunk[place:])
        self._door.passed += upwards
        return True

    async def _hold(self, target: asyncio.StreamWriter, rest: bytes) -> bool:
        """Keep the rest of a request back, until its client has given up. Then the hub gets it, and is let answer."""
        passed, self._late, self._delivered = self._door.passed, True, False
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._network.is_late(done)
        try:
            await asyncio.sleep(self._door.hold_seconds())
            self._delivered = True
            await self._write(target, rest)
            self._door.passed += 1
            if not self._client_gone:
                return True
            self._network.counts["reorderings"] += self._door.passed - passed > 1
            await asyncio.sleep(_ANSWER_SECONDS)  # The other way ends, and with it this, as soon as the answer came.
        finally:
            self._late = False
            done.set_result(None)
        return False

    def _record(self, chunk: bytes) -> None:
        if self._answered and not self._web_socket:
            self._request, self._answered = bytearray(), False
        if len(self._request) <= _RECORDED_BYTES_MAX:
            self._request += chunk
        if not self._answered and b"upgrade: websocket" in self._request[:_CHUNK].lower():
            self._web_socket = True

    async def _write(self, target: asyncio.StreamWriter, data: bytes) -> None:
        """To an end that may have gone. The other end may still have something to say."""
        with contextlib.suppress(OSError):
            if data and not target.is_closing():
                target.write(data)
                await target.drain()


async def _all_of(reader: asyncio.StreamReader, patience: float = _ANSWER_SECONDS) -> bytes:
    """What comes, until nothing comes for a while."""
    answer = bytearray()
    with contextlib.suppress(TimeoutError):
        while len(answer) <= _RECORDED_BYTES_MAX:
            chunk = await asyncio.wait_for(reader.read(_CHUNK), _QUIET_SECONDS if answer else patience)
            if not chunk:
                break
            answer += chunk
    return bytes(answer)
