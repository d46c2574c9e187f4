"""A node served: its door takes any call, and brings it to whichever node has the shard; its own shards it serves itself.

As an ASGI application a node is a door that says of itself whether it lives and is ready.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from restante.backplanes import open_backplane
from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.keeper import NodeKeeper
from restante.cluster.nodes.node_about import NodeAbout
from restante.cluster.nodes.node_lines import NodeCarrier, NodeLines
from restante.cluster.nodes.peer_server import PeerServer, Taker
from restante.cluster.nodes.peer_trust import GOODBYE_SECONDS, PeerTrust
from restante.cluster.nodes.seat_directory import SeatDirectory
from restante.cluster.nodes.shard_seats import ShardSeats
from restante.errors import RestanteError
from restante.model.shards.ranges import Ranges
from restante.ports.membership import NodeMembership
from restante.server.connections.exchange import Exchange
from restante.server.doors.door_application import DoorApplication
from restante.server.doors.door_service import DoorService
from restante.server.nodes.node_shard import NodeShardHost
from restante.server.route_table import Route
from restante.server.routes.health import Check, Health
from restante.settings import Settings
from restante.settings.tree import KeyPath

_NO_STORE = ((b"cache-control", b"no-store"),)


class NodeApplication(DoorApplication):
    """Restante as it is seen through one of several nodes."""

    check_lease: Callable[[], None]
    """Raises why this node is not one of those of the store at the moment."""

    async def handle(self, route: Route, exchange: Exchange) -> None:
        if route.path == "/livez":
            await exchange.json(200, Health(status="pass", checks=[]), headers=_NO_STORE)
        elif route.path == "/readyz":
            await self._ready(exchange)
        else:
            await super().handle(route, exchange)

    async def _ready(self, exchange: Exchange) -> None:
        try:
            self.check_lease()
            if self._desk.draining.is_set():
                raise RestanteError("The node is shutting down.")
        except RestanteError as error:
            failed = Check(name="lease", status="fail", duration_ms=0.0, reason=error.message)
            await exchange.json(503, Health(status="fail", checks=[failed]), headers=_NO_STORE)
        else:
            passed = Check(name="lease", status="pass", duration_ms=0.0)
            await exchange.json(200, Health(status="pass", checks=[passed]), headers=_NO_STORE)


_log = logging.getLogger("restante.server")
_SETTLING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The place of a node among the others."""

    ranges: Ranges
    key: int
    """The key of all hashes of the store."""
    enter: Callable[[bytes], NodeMembership]
    """Makes it one of the nodes of the store."""
    about: NodeAbout
    trust: PeerTrust
    """The secret and the certificates by which nodes know one another."""
    peers: socket.socket
    """Where the others are heard."""


class NodeService(DoorService):
    """A node, not yet running. Made in its event loop."""

    application_kind = NodeApplication

    def __init__(
        self,
        plan: NodePlan,
        home: Path,
        settings: Settings,
        bound: socket.socket,
        places: Mapping[KeyPath, str],
    ) -> None:
        seats, url = ShardSeats(plan.ranges, plan.trust), plan.about.url
        lines, backplane = NodeLines(seats), open_backplane(settings)
        carrier = NodeCarrier(lines, asyncio.get_running_loop())
        host = NodeShardHost(settings, url, home, places, carrier, seats, backplane)
        self.keeper = NodeKeeper(plan.enter, host, seats, plan.about, plan.trust)
        self._peers = PeerServer(plan.peers, plan.trust, self._welcome)
        self.seats, self._trust = seats, plan.trust
        self._leaving: asyncio.Future[None] | None = None
        directory = SeatDirectory(seats, self.keeper, plan.trust)
        super().__init__(
            lines, home, settings, bound, url, places, directory=directory, backplane=backplane, key=plan.key
        )
        assert isinstance(self.application, NodeApplication), "it is made of that kind"
        self.application.check_lease = self.keeper.require

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `drain` is called: then the shards go to other nodes, and requests under way are finished."""
        if self.link.backplane is not None:
            await self.link.backplane.look()
        await self._peers.start()
        keeping = asyncio.ensure_future(self.keeper.run())
        try:
            await super().run(started)
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))
            await self.keeper.close()
            self._peers.close()
            self.seats.close()
            if self._trust.called is not None:
                await asyncio.sleep(2 * GOODBYE_SECONDS)

    def drain(self) -> None:
        """The shards first, while the door still answers. Told again, it ends at once."""
        if self._leaving is not None:
            super().drain()
            return
        _log.info("leaving")
        self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        await self.keeper.give_away()
        super().drain()

    async def _ready(self) -> None:
        """Announced when every shard has an owner, and those of this node are served; or after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLING_SECONDS):
                await self.keeper.until(lambda: self.keeper.settled)

    def _welcome(self, purpose: Purpose, shard: int) -> Taker | bool:
        if purpose is Purpose.NUDGE:
            self.keeper.nudged()
            return True
        if purpose is Purpose.DRAIN:
            self.keeper.drain()
            return True
        if purpose is Purpose.READY:
            self.keeper.heir_ready(shard)
            return True
        own = self.seats.own.get(shard)
        return False if own is None else partial(own.protocol, purpose)
