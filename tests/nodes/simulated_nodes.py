"""Nodes, simulated: the real keeper and the real lease of each, one thread, and rows of a store that are a few dictionaries.

Every node has an event loop and a clock of its own, which drifts. Calls of the store take their time, are lost before or after
they were carried out, or find no way there for a while; nodes are killed, stopped in order, started, drained, and paused for
longer than their lease, whatever they were about to do. All comes from a seed.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
from collections.abc import Callable, Coroutine
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import Any, TypeVar, cast

from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.keeper import NodeKeeper
from restante.cluster.nodes.node_about import NodeAbout
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.cluster.nodes.shard_seats import ShardSeats
from restante.errors import NotOwner, Unavailable
from restante.model.shards.ranges import even_ranges
from restante.ports.membership import NodeRow, ShardRow, StoreSurvey
from restante.ports.store import Store
from restante.stores.postgresql.lease import LEASE_SECONDS, Lease

T = TypeVar("T")

SHARDS, PARTITIONS = 6, 12
_BEAT_SECONDS = LEASE_SECONDS / 3
_DRIFT = 0.01


class NodeTables:
    """The rows of nodes and shards, changed under the conditions of the database's statements."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRow] = {}
        self.shards = [ShardRow(number, 2 * number, None, None, 0) for number in range(SHARDS)]

    def survey(self) -> StoreSurvey:
        by_name = sorted(self.nodes.values(), key=lambda row: (row.name, row.session))
        return StoreSurvey(1, tuple(by_name), tuple(self.shards))

    def enter(self, session: str, name: str, about: bytes) -> None:
        self.nodes[session] = NodeRow(session, name, 0, round(LEASE_SECONDS * 1_000), about)

    def beat(self, session: str, about: bytes) -> int:
        row = self.nodes.get(session)
        if row is None:
            return 0
        self.nodes[session] = row._replace(beat=row.beat + 1, about=about)
        return 1

    def leave(self, session: str) -> None:
        self.nodes.pop(session, None)
        self.shards = [
            row._replace(
                owner=None if row.owner == session else row.owner, heir=None if row.heir == session else row.heir
            )
            for row in self.shards
        ]

    def expire(self, node: NodeRow) -> bool:
        row = self.nodes.get(node.session)
        if row is None or row.beat != node.beat:
            return False
        self.leave(node.session)
        return True

    def take(self, shard: int, session: str) -> int | None:
        """The new fence, if the shard was to be had."""
        row = self.shards[shard]
        if session not in self.nodes or row.owner is not None or row.heir not in (None, session):
            return None
        self.shards[shard] = row._replace(owner=session, heir=None, fence=row.fence + 1)
        return row.fence + 1

    def let_go(self, shard: int, session: str) -> None:
        if self.shards[shard].owner == session:
            self.shards[shard] = self.shards[shard]._replace(owner=None)

    def appoint(self, shard: int, session: str, heir: str | None) -> bool:
        if self.shards[shard].owner != session or (heir is not None and heir not in self.nodes):
            return False
        self.shards[shard] = self.shards[shard]._replace(heir=heir)
        return True


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that is turned from outside, when its time has come."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        super().__init__(_NoSelector())
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.node.local()

    def due(self) -> float:
        """When there is something to do, by the clock of the world."""
        if self._ready:  # type: ignore[attr-defined]
            return self.node.world.now
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return self.node.when(scheduled[0]._when) if scheduled else float("inf")

    def turn(self) -> None:
        asyncio._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio._set_running_loop(None)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """A thread: it asks the store, which may do it while this process stands still."""
        del executor
        future, world = self.create_future(), self.node.world

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  # whatever it is, who waits gets it
                answer(partial(future.set_exception, error))
            else:
                answer(partial(future.set_result, result))

        def answer(tell: Callable[[], None]) -> None:
            world.later(world.delay(), lambda: None if self.is_closed() else self.call_soon(tell))

        world.later(world.delay(), work)
        return future


class _NoSelector(selectors.BaseSelector):
    """Nothing comes from outside."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[Any]:
        del timeout
        return []

    def get_map(self) -> Any:
        return {}


class _LeaseSession:
    """The connection of a lease: the beat was carried out before, and takes time."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self.rowcount = 0

    def execute(self, *_: object) -> _LeaseSession:
        self._node.sent = None
        return self


class SimulatedMembership:
    """A node's place among the rows, with the lease of the PostgreSQL store."""

    def __init__(self, node: SimulatedNode, about: bytes) -> None:
        node.world.sessions += 1
        self.session = f"{node.name}-{node.world.sessions}"
        self._node, self._tables = node, node.world.tables
        self._node.reach_store()
        self._connection = _LeaseSession(node)
        self.lease = _lease(self.session, about, self._connection, node.local())
        self._tables.enter(self.session, node.name, about)
        self._ended = False
        node.world.later(_BEAT_SECONDS, self._beat)

    @property
    def lost(self) -> str | None:
        return self.lease.lost

    def survey(self) -> StoreSurvey:
        return self._asked(self._tables.survey)

    def expire(self, node: NodeRow) -> bool:
        return self._asked(lambda: self._tables.expire(node))

    def take(self, shard: int) -> Store | None:
        fence = self._asked(lambda: self._tables.take(shard, self.session))
        return None if fence is None else cast("Store", SimulatedShardStore(self, shard))

    @contextmanager
    def look(self) -> Any:
        self._asked(lambda: None)
        yield None

    def lease_seconds(self) -> float:
        return self.lease.seconds_left()

    def let_go(self, shard: int) -> None:
        with suppress(Unavailable):  # Without the server it ends with the lease.
            self._asked(lambda: self._tables.let_go(shard, self.session))

    def appoint(self, shard: int, heir: str | None) -> bool:
        return self._asked(lambda: self._tables.appoint(shard, self.session, heir))

    def tell(self, about: bytes) -> None:
        self.lease.about = about

    def require(self) -> None:
        self.lease.require()

    def close(self) -> None:
        self._ended = True
        with suppress(Unavailable):
            self._asked(lambda: self._tables.leave(self.session))

    def _asked(self, work: Callable[[], T]) -> T:
        """May be lost before it was done, or after."""
        world = self._node.world
        self._node.reach_store()
        if world.happens(world.losses):
            raise Unavailable("It was lost.")
        done = work()
        if world.happens(world.losses):
            raise Unavailable("Its answer was lost.")
        return done

    def _beat(self) -> None:
        """The thread of the lease: it counts from before it sent its renewal."""
        node, world = self._node, self._node.world
        if self._ended or node.dead or self.lost is not None:
            return
        if node.paused_until > world.now:
            world.later(node.paused_until - world.now, self._beat)
            return
        sent = node.local()
        world.later(world.delay(), partial(self._renew, sent))

    def _renew(self, sent: float) -> None:
        world = self._node.world
        try:
            rows = self._asked(lambda: self._tables.beat(self.session, self.lease.about))
        except Unavailable:
            world.later(_BEAT_SECONDS, self._beat)
        else:
            world.later(world.delay(), partial(self._renewed, sent, rows))

    def _renewed(self, sent: float, rows: int) -> None:
        node, world = self._node, self._node.world
        if node.dead or self._ended:
            return
        if node.paused_until > world.now:
            world.later(node.paused_until - world.now, partial(self._renewed, sent, rows))
            return
        self._connection.rowcount = rows
        with world.at(node):
            node.sent = sent
            self.lease._beat()
            node.sent = None
        world.later(_BEAT_SECONDS, self._beat)


def _lease(session: str, about: bytes, connection: _LeaseSession, now: float) -> Lease:
    """A lease without its thread, which the world is."""
    lease = object.__new__(Lease)
    lease._owner, lease._seconds, lease.about = session, LEASE_SECONDS, about
    lease._session = connection  # type: ignore[assignment]  # as far as a beat goes
    lease._until = now + LEASE_SECONDS * 0.8
    lease._ending = Event()
    lease.lost = None
    return lease


class SimulatedShardStore:
    """A shard that a node has taken."""

    def __init__(self, membership: SimulatedMembership, shard: int) -> None:
        self.membership, self.shard = membership, shard

    def close(self) -> None:
        self.membership.let_go(self.shard)


class SimulatedShard:
    """A shard that is served."""

    rate = None

    def __init__(self, store: SimulatedShardStore) -> None:
        self.store = store

    async def close(self, owner: str | None) -> None:
        del owner
        await asyncio.sleep(0.05)
        await asyncio.to_thread(self.store.close)


class SimulatedHost:
    """Opens shards, most of the time."""

    def __init__(self, node: SimulatedNode) -> None:
        self._world = node.world

    async def look_ahead(self, partitions: range, look: Any) -> Any:
        del partitions
        await asyncio.sleep(self._world.random.uniform(0.05, 0.3))
        await asyncio.to_thread(look().__enter__)

    async def open(self, partitions: range, store: Any, ahead: Any) -> Any:
        del partitions, ahead
        await asyncio.sleep(self._world.random.uniform(0.05, 0.3))
        if self._world.happens(2 * self._world.losses):
            await asyncio.to_thread(store.close)
            raise Unavailable("It cannot be loaded now.")
        return SimulatedShard(store)


class SimulatedNode:
    """A process."""

    def __init__(self, world: NodeWorld, name: str) -> None:
        self.world, self.name = world, name
        self.dead = self.leaving = False
        self.paused_until = self.cut_until = 0.0
        self.sent: float | None = None
        """When the renewal was sent that is looked at now."""
        self._rate = 1 + world.random.uniform(-_DRIFT, _DRIFT)
        self._offset = world.random.uniform(0, 1e6)
        self.seats = ShardSeats(even_ranges(PARTITIONS, SHARDS), PeerTrust(b""))
        about = NodeAbout(url=name, peer=name, version="0", formats=(8,), settings="", since=0)
        self.loop = SimulatedLoop(self)
        with world.at(self):
            asyncio._set_running_loop(self.loop)
            self.keeper = NodeKeeper(
                partial(SimulatedMembership, self), SimulatedHost(self), self.seats, about, PeerTrust(b"")
            )
            asyncio._set_running_loop(None)
        self.running = self.begin(self.keeper.run())

    def local(self) -> float:
        return self.world.now * self._rate + self._offset

    def when(self, local: float) -> float:
        return max(self.world.now, (local - self._offset) / self._rate)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        task.add_done_callback(self._heard)
        return task

    def _heard(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.failures.append(error)

    def reach_store(self) -> None:
        if self.dead or self.cut_until > self.world.now or self.world.store_away_until > self.world.now:
            raise Unavailable("The store is not reached.")

    def answered(self) -> list[int]:
        """The shards for which it would answer somebody who asks, now or as soon as it wakes."""
        found = []
        with self.world.at(self):
            for shard, own in self.seats.own.items():
                with suppress(NotOwner):
                    cast("SimulatedShard", own).store.membership.require()
                    found.append(shard)
        return found

    def kill(self) -> None:
        if not self.dead:
            self.dead = True
            self.world.nodes.remove(self)

    def drain(self) -> None:
        self.leaving = True
        self.loop.call_soon(self.keeper.drain)

    def close(self) -> None:
        """Whatever it was about to do."""
        self.dead = True
        with self.world.at(self):
            while tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.turn()
        self.loop.close()

    def stop(self) -> None:
        """As at SIGTERM: give all away, then end."""
        self.leaving = True
        self.begin(self._leave())

    async def _leave(self) -> None:
        await self.keeper.give_away()
        self.running.cancel()
        await self.keeper.close()
        self.kill()


class NodeWorld:
    """Time, chance, the store, and the nodes."""

    current: SimulatedNode | None = None

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.losses = 0.0
        self.slow = 0.0
        self.store_away_until = 0.0
        self.sessions = 0
        self.tables = NodeTables()
        self.nodes: list[SimulatedNode] = []
        """Those that live."""
        self.failures: list[BaseException] = []
        self.moves: list[tuple[float, int, str]] = []
        """When a shard was served by another node than before."""
        self.gaps: dict[int, float] = dict.fromkeys(range(SHARDS), 0.0)
        """Since when nobody answers for a shard."""
        self._last: dict[int, str] = {}
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._everybody: list[SimulatedNode] = []
        for _ in range(nodes):
            self.start_node()

    def start_node(self) -> None:
        self._everybody.append(SimulatedNode(self, f"node {len(self._everybody)}"))
        self.nodes.append(self._everybody[-1])

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def delay(self) -> float:
        """Of one way to the store, or back."""
        return self.random.uniform(0.2, 2) if self.happens(self.slow) else self.random.uniform(0.001, 0.01)

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, work))

    @contextmanager
    def at(self, node: SimulatedNode) -> Any:
        """While inside, clocks are those of a node."""
        before, self.current = self.current, node
        try:
            yield
        finally:
            self.current = before

    def running_seconds(self) -> float:
        assert self.current is not None, "only nodes have clocks"
        return self.current.local() if self.current.sent is None else self.current.sent

    async def tell_peer(self, peer: str, _: object, purpose: Purpose, shard: int) -> None:
        """A nudge, or that an heir is ready; it may be lost."""
        await asyncio.sleep(0.005)
        found = next((node for node in self.nodes if node.name == peer), None)
        if found is None or self.happens(self.losses) or found.paused_until > self.now:
            raise ConnectionRefusedError(peer)
        told = found.keeper.nudged if purpose is Purpose.NUDGE else partial(found.keeper.heir_ready, shard)
        found.loop.call_soon(told)

    def run(self, until: float, look: Callable[[], None]) -> None:
        """Until a time; `look` is called after each step."""
        while True:
            awake = [node for node in self.nodes if node.paused_until <= self.now]
            sleeping = [node.paused_until for node in self.nodes if node.paused_until > self.now]
            turns = sorted((node.loop.due(), place) for place, node in enumerate(awake))
            event = self._events[0][0] if self._events else float("inf")
            following = min([event, turns[0][0] if turns else float("inf"), *sleeping])
            if following > until:
                self.now = until
                return
            self.now = max(self.now, following)
            if event <= following:
                heapq.heappop(self._events)[2]()
            elif turns and turns[0][0] <= following:
                node = awake[turns[0][1]]
                with self.at(node):
                    node.loop.turn()
            look()

    def look(self) -> None:
        """At most one answers for a shard. Note who does, and when."""
        serving: dict[int, str] = {}
        for node in self.nodes:
            for shard in node.answered():
                other = serving.setdefault(shard, node.name)
                assert other == node.name, f"at {self.now:.2f} s {other} and {node.name} answer for shard {shard}"
        for shard, name in serving.items():
            self.gaps[shard] = self.now
            if self._last.get(shard) != name:
                self._last[shard] = name
                self.moves.append((self.now, shard, name))

    def close(self) -> None:
        self.nodes.clear()
        for node in self._everybody:
            node.close()
        self._everybody.clear()
