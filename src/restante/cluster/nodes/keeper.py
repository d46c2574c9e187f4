"""`NodeKeeper`: keeps a node among the others. It looks at the store, takes shards, gives some away, and leaves in order.

A shard is moved by its owner: it names the heir, who looks at the shard and says so; then the owner stops taking calls, ends its
commit and lets go, and the heir takes the shard and reads what it must under its own fence. Meanwhile doors wait and ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeAlias

import msgspec

from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.node_about import NodeAbout, SilentNodes, encode_about
from restante.cluster.nodes.peer_connection import tell_peer
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.cluster.nodes.shard_seats import ServedShard, ShardSeats
from restante.errors import RestanteError, Unavailable
from restante.hub.door.opening_rows import BlobsAhead
from restante.model.shards.ranges import next_move, shares, weights_of
from restante.ports.clock import running_seconds
from restante.ports.membership import NodeMembership, ShardRow, StoreSurvey
from restante.ports.store import Store, StoreReader

_log = logging.getLogger("restante.cluster")
_LOOK_SECONDS = 0.5
_SOON_SECONDS = 0.02
_AGAIN_SECONDS = 1.0
"""The pause after a shard could not be opened, and the time for which a free shard is left to the node to which it is due."""
_OPENED_AT_ONCE = 4
_LEAVING_SECONDS = 30.0
_READY_SECONDS = 3.0
"""An heir that has not looked at its shard by then gets it all the same, and loads it."""


StoreLook: TypeAlias = Callable[[], AbstractContextManager[StoreReader]]
"""Opens the store as it is at the moment."""


class HostedShard(ServedShard, Protocol):
    """A shard that this process has opened."""

    @property
    def rate(self) -> float | None:
        """Commits a second; None while it is not known."""
        ...

    async def close(self, owner: str | None) -> None:
        """Take no more, finish what is under way, and let go. Connected clients are sent the owner's address."""
        ...


class ShardHost(Protocol):
    """Opens the shards of this node."""

    async def look_ahead(self, partitions: range, look: StoreLook) -> BlobsAhead:
        """Read of a shard that another owns what need not be read again."""
        ...

    async def open(self, partitions: range, store: Store, ahead: BlobsAhead | None) -> HostedShard:
        """Serve a shard; the store is closed if that fails."""
        ...


class NodeKeeper:
    """Runs in one event loop. `enter` makes this node one of those of the store; it blocks."""

    def __init__(
        self,
        enter: Callable[[bytes], NodeMembership],
        host: ShardHost,
        seats: ShardSeats,
        about: NodeAbout,
        trust: PeerTrust,
    ) -> None:
        self._enter = enter
        self._host = host
        self._seats = seats
        self._about = about
        self._trust = trust
        self.membership: NodeMembership | None = None
        self._silent = SilentNodes()
        self._hosted: dict[int, HostedShard] = {}
        self._busy: dict[int, asyncio.Task[None]] = {}
        """Shards that are being opened or closed."""
        self._coming: dict[int, asyncio.Task[None]] = {}
        """Shards whose owners have named this node as the heir, and how it looks at them."""
        self._ahead: dict[int, BlobsAhead] = {}
        """The slices of blobs that were read of them."""
        self._heirs_ready: dict[int, asyncio.Event] = {}
        """Shards that go to heirs, who say when they have looked at them."""
        self._not_before: dict[int, float] = {}
        """When a shard may be tried again, or is anybody's."""
        self.failures: dict[int, str] = {}
        """Why shards could not be opened here the last time."""
        self._room = asyncio.Semaphore(_OPENED_AT_ONCE)
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        """Set for a moment after each look at the store."""
        seats.look = self._woken.set

    @property
    def session(self) -> str:
        """The session of this node; empty while it is none."""
        return "" if self.membership is None else self.membership.session

    @property
    def settled(self) -> bool:
        """Whether every shard has an owner, and those of this node are served."""
        rows = self._seats.survey.shards
        mine = {row.shard for row in rows if row.owner == self.session}
        return bool(rows) and all(row.owner for row in rows) and mine <= set(self._hosted)

    @property
    def owned(self) -> list[int]:
        """The shards that this node has, or is giving away."""
        return [row.shard for row in self._seats.survey.shards if row.owner == self.session]

    def require(self) -> None:
        """Raise why this node may own nothing at the moment."""
        if self.membership is None:
            raise Unavailable("This node has not reached its store yet, or is starting again. Try again.")
        self.membership.require()

    def lease_seconds(self, session: str) -> float | None:
        """The time that is left of the lease of a node, as far as this one knows."""
        if session == self.session:
            return None if self.membership is None else self.membership.lease_seconds()
        return self._silent.seconds_left(session, running_seconds())

    def drain(self) -> None:
        """Give all shards away, and take none."""
        self._say(draining=True)
        self._woken.set()

    def nudged(self) -> None:
        self._woken.set()

    def heir_ready(self, shard: int) -> None:
        """The heir of a shard has looked at it."""
        if shard in self._heirs_ready:
            self._heirs_ready[shard].set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._woken.clear()
            try:
                await self._round()
            except RestanteError as error:
                _log.warning("The store cannot be looked at; trying again. %s", error.message)
            except Exception:  # noqa: BLE001  # whatever it is, the shards that are here must be kept
                _log.exception("The store was not looked at.")
            self._looked.set()
            self._looked.clear()
            with suppress(TimeoutError):
                # Look as soon as the next lease may be over, so that a dead node is noticed then and not later.
                async with asyncio.timeout(min(_LOOK_SECONDS, self._silent.soonest(running_seconds()))):
                    await self._woken.wait()
            await asyncio.sleep(_SOON_SECONDS)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return when something is so, after a look at the store."""
        while not is_so():
            await self._looked.wait()

    async def give_away(self) -> None:
        """Give all shards away, if there is anybody; meanwhile it runs."""
        self.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self.until(lambda: not (self.owned and self._heirs()))

    async def close(self) -> None:
        """Let go of the shards that are left, and of the place among the nodes. `run` has ended before."""
        await asyncio.gather(*self._busy.values(), *self._coming.values(), return_exceptions=True)
        for shard in tuple(self._hosted):
            self._start(shard, self._close(shard, None))
        await asyncio.gather(*self._busy.values(), return_exceptions=True)
        if self.membership is not None:
            await asyncio.to_thread(self.membership.close)
        await self._nudge_all()

    def _heirs(self) -> list[str]:
        """The other nodes that may have shards."""
        return [
            session
            for session, seat in self._seats.nodes.items()
            if session != self.session and seat.about is not None and not seat.about.draining
        ]

    async def _round(self) -> None:
        membership = await self._entered()
        changing = set(self._busy)
        survey = await asyncio.to_thread(membership.survey)
        silent = self._silent.among([row for row in survey.nodes if row.session != self.session], running_seconds())
        for node in silent:
            if await asyncio.to_thread(membership.expire, node):
                _log.warning("node %s is silent: its shards are taken", node.name)
        if silent:
            survey = await asyncio.to_thread(membership.survey)
        self._seats.update(survey)
        if silent:
            await self._nudge_all()  # The others take their share of what is free now.
        for row in survey.shards:
            if row.shard not in changing:  # The row of a changing shard may be from before it was taken, or let go of.
                self._agree(membership, row)
        self._await_legacies(membership, survey)
        self._take_shares(membership)
        self._move_one(membership)
        self._say()

    def _await_legacies(self, membership: NodeMembership, survey: StoreSurvey) -> None:
        """Get ready for shards that their owners are about to let go of."""
        coming = {row.shard: row.owner for row in survey.shards if row.heir == self.session}
        for shard, owner in coming.items():
            if owner is not None and shard not in self._coming:
                self._coming[shard] = asyncio.ensure_future(self._look_ahead(membership, shard, owner))
        for shard in [own for own in self._coming if own not in coming and self._coming[own].done()]:
            del self._coming[shard]
            self._ahead.pop(shard, None)

    async def _look_ahead(self, membership: NodeMembership, shard: int, owner: str | None) -> None:
        """Look at a shard that another owns still, and say so. If that fails, nothing is lost but time."""
        try:
            self._ahead[shard] = await self._host.look_ahead(self._seats.ranges[shard], membership.look)
        except Exception as error:  # noqa: BLE001  # whatever it is, the shard is loaded when it is ours
            _log.info("shard %s was not looked at ahead: %s", shard, error)
        about = self._seats.about(owner)
        if about is not None:
            await self._tell(about.peer, Purpose.READY, shard)

    def _agree(self, membership: NodeMembership, row: ShardRow) -> None:
        """Bring what is served here to what the store says that this node has."""
        if row.shard in self._busy:
            return
        if row.owner != self.session and row.shard in self._hosted:
            self._start(row.shard, self._close(row.shard, row.owner))
        elif row.owner == self.session and row.shard not in self._hosted:
            self._start(row.shard, asyncio.to_thread(membership.let_go, row.shard))
        elif row.owner == self.session and row.heir is not None:
            # The heir was stored, and the answer was lost: the move goes on.
            self._start(row.shard, self._hand_over(membership, row.shard, row.heir))

    async def _entered(self) -> NodeMembership:
        """The membership of this node. If others took it for dead, it has lost all shards, and enters again."""
        if self.membership is not None and self.membership.lost is not None:
            lost, self.membership = self.membership, None
            _log.error("this node was taken for dead, and begins again")
            for shard in tuple(self._hosted):
                self._start(shard, self._close(shard, None))
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            await asyncio.to_thread(lost.close)
        if self.membership is None:
            self.membership = await asyncio.to_thread(self._enter, encode_about(self._about))
        return self.membership

    def _take_shares(self, membership: NodeMembership) -> None:
        rows, now = self._seats.survey.shards, running_seconds()
        owners = {row.shard: row.owner or row.heir or "" for row in rows if row.owner or row.heir}
        nodes = self._serving()
        due = shares([row.shard for row in rows if row.shard not in owners], owners, nodes)
        for row in rows:
            if row.owner is not None:
                self._not_before.pop(row.shard, None)
            elif row.shard not in self._busy and self._is_mine_to_take(row, due.get(row.shard), now):
                self._not_before[row.shard] = now + _AGAIN_SECONDS
                self._start(row.shard, self._open(membership, row.shard))

    def _is_mine_to_take(self, row: ShardRow, due: str | None, now: float) -> bool:
        """A free shard is left for a while to the node to which it is due; then any node takes it."""
        if row.heir != self.session and (self._about.draining or row.heir is not None):
            return False
        known = self._not_before.setdefault(row.shard, now if self.session in (due, row.heir) else now + _AGAIN_SECONDS)
        return now >= known

    def _serving(self) -> list[str]:
        own = [] if self._about.draining else [self.session]
        return sorted(own + self._heirs())

    def _move_one(self, membership: NodeMembership) -> None:
        rows = self._seats.survey.shards
        free = any(row.owner is None for row in rows)
        if self._busy or any(row.heir for row in rows) or (free and not self._about.draining):
            return  # one shard moves at a time
        owners = {row.shard: row.owner for row in rows if row.owner is not None}
        abouts = [seat.about for seat in self._seats.nodes.values() if seat.about is not None]
        rates = {shard: rate for about in abouts for shard, rate in about.rates.items()}
        move = next_move(self.session, owners, self._serving(), weights_of(rates, owners))
        if move is not None and move[0] in self._hosted:
            self._start(move[0], self._hand_over(membership, *move))

    async def _open(self, membership: NodeMembership, shard: int) -> None:
        async with self._room:
            store = await asyncio.to_thread(membership.take, shard)
            if store is None:
                return
            hosted = await self._host.open(self._seats.ranges[shard], store, self._ahead.pop(shard, None))
        self._hosted[shard] = self._seats.own[shard] = hosted
        self.failures.pop(shard, None)
        _log.info("shard %s is served here", shard)
        await self._nudge_all()

    async def _hand_over(self, membership: NodeMembership, shard: int, heir: str) -> None:
        about, ready = self._seats.about(heir), asyncio.Event()
        self._heirs_ready[shard] = ready
        try:
            if about is None or not await asyncio.to_thread(membership.appoint, shard, heir):
                return
            _log.info("shard %s goes to another node", shard)
            await self._tell(about.peer, Purpose.NUDGE)
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS):
                    await ready.wait()
        finally:
            del self._heirs_ready[shard]
        await self._close(shard, heir)
        await self._tell(about.peer, Purpose.NUDGE)

    async def _close(self, shard: int, owner: str | None) -> None:
        """Close the shard in this process, where nobody reaches it from here on."""
        self._seats.own.pop(shard, None)
        hosted = self._hosted.pop(shard)
        about = self._seats.about(owner)
        await hosted.close(None if about is None else about.url)

    def _start(self, shard: int, work: Coroutine[Any, Any, None]) -> None:
        if shard in self._busy:
            work.close()
            return
        task = asyncio.ensure_future(self._guarded(shard, work))
        self._busy[shard] = task

    async def _guarded(self, shard: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except RestanteError as error:
            self.failures[shard] = error.message
            _log.error("shard %s: %s", shard, error.message)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other shards go on, and this one is tried again
            self.failures[shard] = f"{type(error).__name__}: the log has more"
            _log.exception("shard %s failed", shard)
        finally:
            del self._busy[shard]
            self._woken.set()

    def _say(self, *, draining: bool | None = None) -> None:
        """Say what the others are to know from the next beat on."""
        rates = {shard: round(one.rate, 1) for shard, one in self._hosted.items() if one.rate is not None}
        about = msgspec.structs.replace(self._about, rates=rates)
        self._about = about if draining is None else msgspec.structs.replace(about, draining=draining)
        if self.membership is not None:
            self.membership.tell(encode_about(self._about))

    async def _nudge_all(self) -> None:
        peers = [
            seat.about.peer for session, seat in self._seats.nodes.items() if seat.about and session != self.session
        ]
        await asyncio.gather(*(self._tell(peer, Purpose.NUDGE) for peer in peers))

    async def _tell(self, peer: str, purpose: Purpose, shard: int = 0) -> None:
        """Tell another node something. One that misses it sees the change a little later."""
        with suppress(OSError):
            await tell_peer(peer, self._trust, purpose, shard)
