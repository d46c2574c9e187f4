"""A door served: HTTP for clients, and calls and requests carried to the shards."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from restante.cluster.node_directory import NodeDirectory
from restante.cluster.places import own_socket
from restante.cluster.shard_folders import read_table
from restante.cluster.shard_lines import ShardLines
from restante.ports.backplane import Backplane
from restante.server.access.gate import gate_of
from restante.server.connections.exchange import Event, Exchange
from restante.server.connections.protocol import HttpConnection
from restante.server.desk import DoorDesk
from restante.server.doors.door_application import DoorApplication
from restante.server.doors.door_link import DoorLink
from restante.server.doors.door_publish import DoorShortRoutes
from restante.server.doors.sibling_doors import DOOR_SOCKET, SiblingDoors
from restante.server.doors.tunnel import Tunnel
from restante.server.doors.upstream import Upstream
from restante.server.health.hub_metrics import DoorMetrics
from restante.server.health.metrics import Metrics
from restante.server.http_server import HttpServer
from restante.settings import Settings
from restante.settings.tree import KeyPath

_log = logging.getLogger("restante.server")
_CLOSING_SECONDS = 0.01
"""Until connections that were closed have gone."""


async def _nothing() -> Event:
    raise AssertionError("nobody asks for events of a request that is only looked at")


async def _nowhere(_: Event) -> None:
    raise AssertionError("nobody answers a request that is only looked at")


class DoorConnection(HttpConnection):
    """One connection of a client. Web sockets of mailboxes are handed through to their shards."""

    door: ClassVar[DoorApplication]

    def handle_websocket_upgrade(self) -> None:
        path, _, query = self.url.partition(b"?")
        scope = {"type": "websocket", "path": "", "raw_path": path, "query_string": query, "headers": self.headers}
        exchange = Exchange(scope, _nothing, _nowhere)
        upstream = self.door.upstream_of(exchange)
        if upstream is None or self._short_answers or self.pipeline or self._is_under_way() or self._refused:
            super().handle_websocket_upgrade()
            return
        lines = [b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)]
        lines += [b"%b: %b" % header for header in self.headers]
        self.connections.discard(self)
        request = b"\r\n".join([*lines, b"", b""])
        own_id, connections = exchange.correlation_id, self.server_state.connections
        tunnel = Tunnel(upstream, self.transport, request, own_id, connections, self.settings)
        self.transport.set_protocol(tunnel)


class DoorService(HttpServer):
    """A door, not yet running."""

    application_kind: ClassVar[type[DoorApplication]] = DoorApplication
    siblings: SiblingDoors

    def __init__(  # noqa: PLR0913 - all that a door is made of
        self,
        lines: ShardLines,
        home: Path,
        settings: Settings,
        bound: socket.socket,
        url: str,
        places: Mapping[KeyPath, str],
        claim_checks: frozenset[str] | None = None,
        directory: NodeDirectory | None = None,
        *,
        backplane: Backplane | None = None,
        key: int | None = None,
    ) -> None:
        gate = gate_of(settings.server, home, insecure=True)
        known = key if key is not None else _key_of(home)
        self.link = DoorLink(lines, settings, claim_checks, directory, backplane, known)
        desk = DoorDesk(self.link, settings, gate, home, Metrics(), url, places)
        desk.metrics.registry.register(DoorMetrics(desk.metrics, self.link.metrics))
        self._upstreams = [Upstream(place, f"Shard {number}") for number, place in enumerate(lines.requests)]
        application = self.application_kind(desk, self.link, self._upstreams)
        self.siblings = application.siblings
        door = type("Door", (DoorConnection,), {"door": application})
        super().__init__(desk, application, bound, door)

    def be_one_of_several(self, home: Path, number: int) -> None:
        """Others serve the same port: each tells the others what it has counted."""
        place = home / DOOR_SOCKET.format(number)
        self.sockets.append(own_socket(place))
        self.siblings.home, self.siblings.own = home, place

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `drain` is called, then finish what is under way."""
        keeping = self.begin_keeping()
        passes = asyncio.ensure_future(self.desk.passes.run(self.desk.draining))
        rates = asyncio.ensure_future(self.desk.rates.run())
        self.server.announce = started
        self.server.before_announcing = self._ready
        if self.link.backplane is not None:
            await self.link.backplane.start()
        self.connection.shorts = DoorShortRoutes(self.desk, self.application.web, self.link)
        try:
            await self.serve()
        finally:
            for task in (*keeping, passes, rates):
                task.cancel()
            for upstream in self._upstreams:
                upstream.close()
            self.siblings.close()
            await self.link.close()
            await asyncio.sleep(_CLOSING_SECONDS)
            _log.info("ended")

    async def _ready(self) -> None:
        """Wait for nothing: the shards are there."""


def _key_of(folder: Path) -> int:
    """The key of all hashes of a folder with several shards."""
    table = read_table(folder)
    return 0 if table is None else table.key
